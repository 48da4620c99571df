#include "sqlite/folder.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

namespace gearbox::sqlite {

namespace {

Error failed(const std::filesystem::path& path, int reason) {
  const Errc code = reason == ENOSPC || reason == EDQUOT ? Errc::no_space : Errc::io_error;
  return Error{code, path.string() + ": " + std::generic_category().message(reason)};
}

}  // namespace

Outcome<void> make_private_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return failed(folder, failure.value());
  if (::chmod(folder.c_str(), 0700) != 0) return failed(folder, errno);
  return done();
}

Outcome<std::filesystem::path> set_aside(const std::filesystem::path& what) {
  for (int n = 1;; ++n) {
    const std::filesystem::path aside = what.string() + ".damaged-" + std::to_string(n);
    std::error_code failure;
    if (std::filesystem::exists(aside, failure)) continue;
    if (::rename(what.c_str(), aside.c_str()) != 0) return failed(what, errno);
    for (const char* side : {"-wal", "-shm"}) {
      if (::rename((what.string() + side).c_str(), (aside.string() + side).c_str()) != 0 && errno != ENOENT) {
        return failed(what.string() + side, errno);
      }
    }
    return aside;
  }
}

}  // namespace gearbox::sqlite
