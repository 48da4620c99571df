// Passwords never come from the command line, where every user of the host can read them.
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "cli/accounts_commands.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace {

constexpr std::size_t kMaxBytes =
    4096;  // longer than any password that is taken, so that its length is refused, not cut

class File {
 public:
  explicit File(int descriptor, bool owned) : descriptor_(descriptor), owned_(owned) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (owned_ && descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
  bool owned_;
};

/// Echo off, and Ctrl-C as a character: a prompt that is interrupted must not leave the terminal blind.
class QuietTerminal {
 public:
  explicit QuietTerminal(int terminal) : terminal_(terminal), quiet_(::tcgetattr(terminal, &before_) == 0) {
    if (!quiet_) return;
    termios now = before_;
    now.c_lflag &= static_cast<tcflag_t>(~(ECHO | ISIG));
    now.c_lflag |= ICANON;
    quiet_ = ::tcsetattr(terminal, TCSAFLUSH, &now) == 0;
  }
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;
  ~QuietTerminal() {
    if (quiet_) ::tcsetattr(terminal_, TCSAFLUSH, &before_);
  }
  bool quiet() const { return quiet_; }

 private:
  int terminal_;
  termios before_{};
  bool quiet_;
};

Outcome<std::string> read_all(int descriptor, const std::string& name, bool one_line) {
  std::string text;
  std::array<char, 512> buffer{};
  while (text.size() <= kMaxBytes) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::io_error, "cannot read " + escaped(name) + ": " + std::strerror(errno)};
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (one_line && text.back() == '\n') break;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

void write_text(int descriptor, std::string_view text) {
  // A prompt that cannot be shown changes nothing about the answer.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());
}

Outcome<std::string> ask(int terminal, std::string_view prompt) {
  const QuietTerminal quiet(terminal);
  if (!quiet.quiet()) return Error{Errc::io_error, "cannot turn the terminal's echo off: use --password-file"};
  write_text(terminal, prompt);
  Outcome<std::string> line = read_all(terminal, "the terminal", true);
  write_text(terminal, "\n");
  if (line && line.value().find('\x03') != std::string::npos) return Error{Errc::cancelled, "cancelled"};
  return line;
}

}  // namespace

Outcome<std::string> read_password(const std::string& file, bool confirm) {
  if (file == "-") return read_all(STDIN_FILENO, "standard input", false);
  if (!file.empty()) {
    const File opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC), true);
    if (opened.get() < 0) return Error{Errc::io_error, "cannot read " + escaped(file) + ": " + std::strerror(errno)};
    return read_all(opened.get(), file, false);
  }
  const File terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC), true);
  if (terminal.get() < 0) {
    return Error{Errc::bad_input,
                 "there is no terminal to ask for the password on: use --password-file FILE, or - for standard input"};
  }
  BOOST_OUTCOME_TRY(std::string password, ask(terminal.get(), "Password: "));
  if (!confirm) return password;
  BOOST_OUTCOME_TRY(const std::string again, ask(terminal.get(), "Once more: "));
  if (password != again) return Error{Errc::bad_input, "the two passwords differ"};
  return password;
}

}  // namespace gearbox::cli
