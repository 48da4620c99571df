#include "password.hpp"

#include <termios.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace gearbox::client {

namespace {

constexpr std::size_t kMaxPassword = 1024;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Outcome<std::string> read_line(std::FILE* from) {
  std::string line;
  for (int c = std::fgetc(from); c != EOF && c != '\n'; c = std::fgetc(from)) {
    if (line.size() == kMaxPassword) return Error{Errc::bad_input, "the password is over 1024 bytes"};
    line.push_back(static_cast<char>(c));
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (line.empty()) return Error{Errc::bad_input, "the password is empty"};
  return line;
}

/// Echo off for its lifetime.
class Silent {
 public:
  explicit Silent(int terminal) : terminal_(terminal), known_(::tcgetattr(terminal, &before_) == 0) {
    if (!known_) return;
    termios silent = before_;
    silent.c_lflag &= static_cast<tcflag_t>(~static_cast<tcflag_t>(ECHO));
    known_ = ::tcsetattr(terminal, TCSAFLUSH, &silent) == 0;
  }
  ~Silent() {
    if (known_) ::tcsetattr(terminal_, TCSAFLUSH, &before_);
  }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  bool works() const { return known_; }

 private:
  int terminal_;
  termios before_{};
  bool known_;
};

Outcome<std::string> ask() {
  const std::unique_ptr<std::FILE, Close> terminal(std::fopen("/dev/tty", "r+e"));
  if (!terminal) return Error{Errc::bad_input, "no terminal to ask for the password on: use --password-file"};
  const Silent silent(::fileno(terminal.get()));
  if (!silent.works()) return Error{Errc::bad_input, "this terminal cannot hide the password: use --password-file"};
  std::fputs("Password: ", terminal.get());
  std::fflush(terminal.get());
  Outcome<std::string> line = read_line(terminal.get());
  std::fputs("\n", terminal.get());
  return line;
}

}  // namespace

Outcome<std::string> read_password(const std::string& file) {
  if (file.empty()) return ask();
  if (file == "-") return read_line(stdin);
  const std::unique_ptr<std::FILE, Close> opened(std::fopen(file.c_str(), "re"));
  if (!opened) return Error{Errc::io_error, file + ": " + std::strerror(errno)};
  return read_line(opened.get());
}

}  // namespace gearbox::client
