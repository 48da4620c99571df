#include "config/state_dir.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace gearbox::config {

namespace fs = std::filesystem;

namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Outcome<fs::path> choose(const fs::path& given) {
  if (!given.empty()) return given;
  if (const std::string named = from_environment("GEARBOX_STATE"); !named.empty()) return fs::path(named);
  if (::geteuid() == 0) return fs::path("/var/lib/gearbox");
  if (const std::string xdg = from_environment("XDG_STATE_HOME"); !xdg.empty()) return fs::path(xdg) / "gearbox";
  if (const std::string home = from_environment("HOME"); !home.empty()) return fs::path(home) / ".local/state/gearbox";
  return Error{Errc::io_error, "no state folder: neither --state nor GEARBOX_STATE, XDG_STATE_HOME or HOME is set"};
}

Error failed(const fs::path& path, int number) {
  return Error{Errc::io_error, path.string() + ": " + std::generic_category().message(number)};
}

/// Makes `path` 0700 when it is not there.
Outcome<void> make_private(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return done();
  return failed(path, errno);
}

/// Sockets, keys and private plugin copies lie below: whoever may write here may become the broker.
Outcome<void> check_owner(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return failed(path, errno);
  if (!S_ISDIR(info.st_mode)) return Error{Errc::io_error, path.string() + ": is no folder"};
  if (info.st_uid != ::geteuid()) {
    return Error{Errc::io_error, path.string() + ": belongs to user " + std::to_string(info.st_uid) + ", not to " +
                                     std::to_string(::geteuid())};
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{Errc::io_error, path.string() + ": others may write to it; try: chmod go-w " + path.string()};
  }
  return done();
}

}  // namespace

fs::path StateDir::process_record(std::string_view role) const {
  return run() / (std::string(role) + ".json");
}
fs::path StateDir::calling_record(std::string_view role) const {
  return run() / (std::string(role) + ".calling");
}
fs::path StateDir::log_file(std::string_view role) const {
  return logs() / (std::string(role) + ".log");
}

Outcome<StateDir> open_state_dir(const fs::path& given) {
  BOOST_OUTCOME_TRY(const fs::path chosen, choose(given));
  std::error_code error;
  StateDir dir{fs::absolute(chosen, error).lexically_normal()};
  if (error) return Error{Errc::io_error, chosen.string() + ": " + error.message()};
  if (!dir.root.has_filename()) dir.root = dir.root.parent_path();  // "DIR/"
  fs::create_directories(dir.root.parent_path(), error);
  if (error) return Error{Errc::io_error, dir.root.parent_path().string() + ": " + error.message()};
  BOOST_OUTCOME_TRY(make_private(dir.root));
  BOOST_OUTCOME_TRY(check_owner(dir.root));
  for (const fs::path& folder :
       {dir.keys(), dir.run(), dir.groups(), dir.logs(), dir.store(), dir.plugin_copies(), dir.envs()}) {
    BOOST_OUTCOME_TRY(make_private(folder));
    BOOST_OUTCOME_TRY(check_owner(folder));
  }
  return dir;
}

}  // namespace gearbox::config
