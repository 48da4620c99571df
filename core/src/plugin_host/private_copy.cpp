#include "plugin_host/private_copy.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "gearbox/base/ids.hpp"
#include "plugin_host/drop_folder.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

std::string reason(int number) {
  return std::generic_category().message(number);
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

Outcome<Bytes> read_all(int descriptor) {
  Bytes bytes;
  std::byte block[65536];
  for (;;) {
    const ssize_t got = ::read(descriptor, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::bad_plugin, reason(errno)};
    if (got == 0) return bytes;
    if (bytes.size() + static_cast<std::size_t>(got) > kMaxPluginBytes)
      return Error{Errc::bad_plugin, "is larger than 256 MiB"};
    bytes.insert(bytes.end(), block, block + got);
  }
}

/// Behind a symbolic link lies another folder, and whoever may write to that decides what the link means.
Outcome<void> check_target_folder(const fs::path& original) {
  std::error_code error;
  if (!fs::is_symlink(original, error)) return done();
  const fs::path folder = fs::canonical(original, error).parent_path();
  struct stat info {};
  if (error || ::stat(folder.c_str(), &info) != 0) return Error{Errc::bad_plugin, "is a link that leads nowhere"};
  if (const auto trusted = check_trusted(info); !trusted)
    return Error{Errc::bad_plugin, "is a link into " + folder.string() + ": " + trusted.error().detail};
  return done();
}

Outcome<Bytes> read_original(const fs::path& original) {
  // O_NONBLOCK: a FIFO in the folder must not hold us up.
  const File file(::open(original.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return Error{Errc::bad_plugin, reason(errno)};
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return Error{Errc::bad_plugin, reason(errno)};
  if (!S_ISREG(info.st_mode)) return Error{Errc::bad_plugin, "is not a regular file"};
  BOOST_OUTCOME_TRY(check_trusted(info));
  BOOST_OUTCOME_TRY(check_target_folder(original));
  return read_all(file.get());
}

std::string checksum_of(ByteView bytes) {
  std::array<std::byte, 32> hash{};
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), nullptr, 0);
  return to_hex(hash);
}

Outcome<void> write_all(int descriptor, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Error{errno == ENOSPC || errno == EDQUOT ? Errc::no_space : Errc::io_error, reason(errno)};
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return done();
}

/// A descriptor of `path`, locked as in use, if it is there, still linked, and holds what its name says; -1 otherwise.
int open_existing(const fs::path& path, const std::string& checksum) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (file.get() < 0 || ::flock(file.get(), LOCK_SH) != 0 || ::fstat(file.get(), &info) != 0) return -1;
  if (info.st_nlink == 0) return -1;  // removed by another process between open and lock
  const auto bytes = read_all(file.get());
  if (!bytes || checksum_of(bytes.value()) != checksum) return -1;
  return file.release();
}

}  // namespace

PrivateCopy::PrivateCopy(int descriptor, fs::path path, std::string checksum)
    : descriptor_(descriptor), path_(std::move(path)), checksum_(std::move(checksum)) {}
PrivateCopy::PrivateCopy(PrivateCopy&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      checksum_(std::move(other.checksum_)) {}
PrivateCopy::~PrivateCopy() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

namespace {

/// Writes `bytes` to `path` by way of a file of another name. `again` is set when another process was faster: it tidied
/// that file away before it was locked, or, unless `over`, made `path` itself.
Outcome<void> write_copy(const fs::path& path, ByteView bytes, const fs::path& folder, bool over, bool& again) {
  again = false;
  std::string unfinished = (folder / ".copy-XXXXXX").string();
  const File file(::mkostemp(unfinished.data(), O_CLOEXEC));
  if (file.get() < 0) return Error{Errc::io_error, folder.string() + ": " + reason(errno)};
  const auto failed = [&](const Error& error) {
    ::unlink(unfinished.c_str());
    return Error{error.code, unfinished + ": " + error.detail};
  };
  if (::flock(file.get(), LOCK_SH) != 0) return failed(Error{Errc::io_error, reason(errno)});
  if (const auto written = write_all(file.get(), bytes); !written) return failed(written.error());
  if (::renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, path.c_str(), over ? 0 : RENAME_NOREPLACE) == 0)
    return done();
  again = errno == ENOENT || (!over && (errno == EEXIST || errno == EINVAL));  // EINVAL: not on this file system
  return failed(Error{Errc::io_error, reason(errno)});
}

}  // namespace

Outcome<PrivateCopy> PrivateCopy::make(const fs::path& original, const fs::path& folder) {
  constexpr int kTries = 8;  // roles that start together share the folder
  BOOST_OUTCOME_TRY(const Bytes bytes, read_original(original));
  std::string checksum = checksum_of(bytes);
  fs::path path = folder / (checksum + ".so");
  for (int i = 0; i < kTries; ++i) {
    // The descriptor that is kept is a reading one: what is open for writing cannot be trusted to stay as it is.
    if (const int kept = open_existing(path, checksum); kept >= 0)
      return PrivateCopy(kept, std::move(path), std::move(checksum));
    bool again = false;
    // Over what is there only when that was looked at twice: a copy that another process made a moment ago is as good
    // as ours, and in use there.
    const auto written = write_copy(path, bytes, folder, i > 0, again);
    if (!written && !again) return written.error();
  }
  return Error{Errc::io_error, path.string() + ": does not hold what was written"};
}

Outcome<PrivateCopy> PrivateCopy::reopen(const std::string& checksum, const fs::path& folder) {
  fs::path path = folder / (checksum + ".so");
  const int kept = open_existing(path, checksum);
  if (kept < 0) return Error{Errc::bad_plugin, "its private copy is gone"};
  return PrivateCopy(kept, std::move(path), checksum);
}

Outcome<void> open_copies_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Error{Errc::io_error, folder.string() + ": " + reason(errno)};
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return Error{Errc::io_error, folder.string() + ": " + reason(errno)};
  const bool ours = S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!ours) return Error{Errc::io_error, folder.string() + ": must be a folder of ours that nobody else may write to"};
  return done();
}

void remove_unused_copies(const fs::path& folder, const std::vector<std::string>& kept) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool a_copy = name.size() == 67 && name.substr(64) == ".so";
    if (!a_copy && name.substr(0, 6) != ".copy-") continue;
    if (a_copy && std::find(kept.begin(), kept.end(), name.substr(0, 64)) != kept.end()) continue;
    const File file(::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    // Whoever uses it holds a shared lock; whoever opens it in this moment sees st_nlink == 0 and makes a new one.
    if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      ::unlink(entry->path().c_str());
      ::unlink((entry->path().string() + ".sig").c_str());  // of most there is none
    }
  }
}

}  // namespace gearbox::plugin_host
