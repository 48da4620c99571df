#include "central/accounts_place.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::central {

namespace {

constexpr std::string_view kFormat = "gearbox accounts 1\n";  // then "sqlite", or libpq's words, and a line end
constexpr std::string_view kInstallation = "installation ";   // of a database a third line, once it is known
constexpr std::string_view kFresh = "accounts.new-";          // then the number of the process that writes it
constexpr std::string_view kFile = "sqlite";

std::filesystem::path note_in(const config::StateDir& state) {
  return state.root / "accounts";
}

Error failed(const char* what, const std::filesystem::path& file, int number) {
  return Error{number == ENOSPC ? Errc::no_space : Errc::io_error,
               std::string(what) + " " + escaped(file.string()) + ": " + std::generic_category().message(number)};
}

struct Note {
  std::string database, installation;
};

/// Nothing: it is damaged.
std::optional<Note> note_from(std::string_view text) {
  if (!text.starts_with(kFormat) || !text.ends_with('\n')) return std::nullopt;
  text.remove_prefix(kFormat.size());
  const std::size_t end = text.find('\n');
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  Note note;
  note.database = text.substr(0, end);
  text.remove_prefix(end + 1);
  if (text.empty()) return note;
  if (!text.starts_with(kInstallation) || text.find('\n') + 1 != text.size()) return std::nullopt;
  note.installation = text.substr(kInstallation.size(), text.size() - kInstallation.size() - 1);
  return note;
}

/// What processes left that ended while they wrote.
void remove_left_ones(const config::StateDir& state) {
  std::error_code error;  // a folder that cannot be read is told by the write that follows
  for (const auto& entry : std::filesystem::directory_iterator(state.root, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kFresh)) continue;
    const long pid = std::strtol(name.c_str() + kFresh.size(), nullptr, 10);
    // A standby may be writing its own.
    const bool gone = pid <= 0 || (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH);
    if (gone) ::unlink(entry.path().c_str());
  }
}

Outcome<void> write_whole(const std::filesystem::path& fresh, const std::string& text) {
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failed("cannot make", fresh, errno);
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int number = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size());
  const int unsynced = whole && ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  if (!whole) return failed("cannot write", fresh, number);
  if (unsynced != 0) return failed("cannot flush", fresh, unsynced);
  return done();
}

}  // namespace

AccountsPlace accounts_place(const config::StateDir& state, const config::CentralConfig& central) {
  AccountsPlace place;
  place.file = state.central_db();
  if (central.database == kFile) return place;
  place.database = central.database;
  const Outcome<std::string> text = toml::read_file(note_in(state));
  const std::optional<Note> note = text ? note_from(text.value()) : std::nullopt;
  if (note) place.installation = note->installation;
  return place;
}

Outcome<void> note_accounts_place(const config::StateDir& state, const AccountsPlace& place) {
  remove_left_ones(state);
  std::string text = std::string(kFormat) + (place.is_shared() ? place.database : std::string(kFile)) + "\n";
  if (place.is_shared() && !place.installation.empty()) {
    text += std::string(kInstallation) + place.installation + "\n";
  }
  const std::filesystem::path file = note_in(state);
  if (const auto before = toml::read_file(file); before && before.value() == text) return done();
  // Of this process: a standby may write its own at the same time.
  const std::filesystem::path fresh = state.root / (std::string(kFresh) + std::to_string(::getpid()));
  Outcome<void> noted = write_whole(fresh, text);
  if (noted && ::rename(fresh.c_str(), file.c_str()) != 0) noted = failed("cannot rename to", file, errno);
  if (!noted) ::unlink(fresh.c_str());
  return noted;
}

Outcome<AccountsPlace> noted_accounts_place(const config::StateDir& state) {
  const std::filesystem::path file = note_in(state);
  const Outcome<std::string> text = toml::read_file(file);
  if (!text && text.error().code == Errc::not_found) return AccountsPlace{};
  if (!text) return Error{Errc::io_error, escaped(file.string()) + ": " + text.error().detail};
  const std::optional<Note> note = note_from(text.value());
  if (!note) {
    return Error{Errc::io_error, escaped(file.string()) +
                                     " is damaged: say where the accounts are by the configuration (--config DIR)"};
  }
  config::CentralConfig central;
  central.database = note->database;
  return accounts_place(state, central);
}

}  // namespace gearbox::central
