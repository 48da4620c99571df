#include "central/accounts_place.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::central {

namespace {

constexpr std::string_view kFormat = "gearbox accounts 1\n";  // then "sqlite", or libpq's words, and a line end
constexpr std::string_view kFile = "sqlite";

std::filesystem::path note_in(const config::StateDir& state) {
  return state.root / "accounts";
}

Error failed(const char* what, const std::filesystem::path& file, int number) {
  return Error{number == ENOSPC ? Errc::no_space : Errc::io_error,
               std::string(what) + " " + escaped(file.string()) + ": " + std::generic_category().message(number)};
}

}  // namespace

AccountsPlace accounts_place(const config::StateDir& state, const config::CentralConfig& central) {
  AccountsPlace place;
  place.file = state.central_db();
  if (central.database != kFile) place.database = central.database;
  return place;
}

Outcome<void> note_accounts_place(const config::StateDir& state, const AccountsPlace& place) {
  const std::string text = std::string(kFormat) + (place.is_shared() ? place.database : std::string(kFile)) + "\n";
  const std::filesystem::path file = note_in(state);
  if (const auto before = toml::read_file(file); before && before.value() == text) return done();
  // Of this process: a standby may write its own at the same time.
  std::filesystem::path fresh = file;
  fresh += ".new-" + std::to_string(::getpid());
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failed("cannot make", fresh, errno);
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int number = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size());
  const int unsynced = whole && ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  if (!whole) return failed("cannot write", fresh, number);
  if (unsynced != 0) return failed("cannot flush", fresh, unsynced);
  if (::rename(fresh.c_str(), file.c_str()) != 0) return failed("cannot rename to", file, errno);
  return done();
}

Outcome<AccountsPlace> noted_accounts_place(const config::StateDir& state) {
  const std::filesystem::path file = note_in(state);
  const Outcome<std::string> text = toml::read_file(file);
  if (!text && text.error().code == Errc::not_found) return AccountsPlace{};
  if (!text) return Error{Errc::io_error, escaped(file.string()) + ": " + text.error().detail};
  std::string_view rest = text.value();
  const bool good = rest.starts_with(kFormat) && rest.ends_with('\n') && rest.size() > kFormat.size() + 1;
  if (!good) {
    return Error{Errc::io_error, escaped(file.string()) +
                                     " is damaged: say where the accounts are by the configuration (--config DIR)"};
  }
  rest.remove_prefix(kFormat.size());
  rest.remove_suffix(1);
  config::CentralConfig central;
  central.database = std::string(rest);
  return accounts_place(state, central);
}

}  // namespace gearbox::central
