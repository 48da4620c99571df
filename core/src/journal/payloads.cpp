#include "journal/payloads.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>

namespace gearbox::journal {

namespace {

constexpr std::string_view kPrefix = "payload-";

Error failure(const std::filesystem::path& file, int reason) {
  const Errc code = reason == ENOSPC || reason == EDQUOT || reason == EFBIG ? Errc::no_space : Errc::io_error;
  return Error{code, file.string() + ": " + std::generic_category().message(reason)};
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);  // what mattered was synced before
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Outcome<void> write_all(const File& file, ByteView bytes, const std::filesystem::path& name) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file.get(), bytes.data(), bytes.size());
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return failure(name, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return done();
}

/// A new name is durable only when its folder is.
Outcome<void> sync_folder(const std::filesystem::path& folder) {
  const File file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0) return failure(folder, errno);
  return done();
}

}  // namespace

std::filesystem::path PayloadFiles::path_of(PayloadFile payload) const {
  return folder_ / (std::string(kPrefix) + std::to_string(payload));
}

Outcome<void> PayloadFiles::open(const std::set<PayloadFile>& used) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder_, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    PayloadFile payload = 0;
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + kPrefix.size(), end, payload);
    if (read.ec != std::errc{} || read.ptr != end || payload <= 0) continue;
    highest_ = std::max(highest_, payload);
    if (!used.contains(payload)) idle_.push_back(payload);
  }
  if (error) return failure(folder_, error.value());
  if (!used.empty()) highest_ = std::max(highest_, *used.rbegin());
  // What a crash left: no more than are of use.
  std::sort(idle_.begin(), idle_.end(), std::greater<>());
  while (idle_.size() > kIdle) {
    ::unlink(path_of(idle_.front()).c_str());
    idle_.erase(idle_.begin());
  }
  return done();
}

Outcome<PayloadFile> PayloadFiles::write(const std::vector<ByteView>& parts) {
  std::error_code ignored;  // whoever removed it: it is new again
  while (!idle_.empty() && !std::filesystem::exists(path_of(idle_.back()), ignored)) idle_.pop_back();
  const bool is_new = idle_.empty();
  const PayloadFile payload = is_new ? highest_ + 1 : idle_.back();
  const std::filesystem::path name = path_of(payload);
  {
    const File file(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (file.get() < 0) return failure(name, errno);
    Outcome<void> written = done();
    for (const ByteView part : parts) {
      if (written) written = write_all(file, part, name);
    }
    if (written && ::fdatasync(file.get()) != 0) written = failure(name, errno);
    if (!written) {
      // Neither the half of a file nor idle ones may keep a full disk full: even what frees room needs a little.
      ::unlink(name.c_str());
      if (!is_new) idle_.pop_back();
      if (written.error().code == Errc::no_space) give_back();
      return written.error();
    }
  }
  if (is_new) {
    BOOST_OUTCOME_TRY(sync_folder(folder_));
    highest_ = payload;
  } else {
    idle_.pop_back();
  }
  return payload;
}

void PayloadFiles::give_back() {
  for (const PayloadFile payload : idle_) ::unlink(path_of(payload).c_str());
  idle_.clear();
}

Outcome<Bytes> PayloadFiles::read(PayloadFile payload, std::uint64_t bytes) const {
  const std::filesystem::path name = path_of(payload);
  const File file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return Error{Errc::corrupt_data, name.string() + " is gone"};
  if (file.get() < 0) return failure(name, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failure(name, errno);
  if (static_cast<std::uint64_t>(info.st_size) < bytes) {  // checked before anything is allocated
    return Error{Errc::corrupt_data, name.string() + ": is shorter than what was written to it"};
  }
  Bytes out(static_cast<std::size_t>(bytes));
  std::size_t at = 0;
  while (at < out.size()) {
    const ssize_t got = ::read(file.get(), out.data() + at, out.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(name, errno);
    if (got == 0) return Error{Errc::corrupt_data, name.string() + ": is shorter than what was written to it"};
    at += static_cast<std::size_t>(got);
  }
  return out;
}

void PayloadFiles::let_go(PayloadFile payload) {
  if (payload == 0) return;
  const std::filesystem::path name = path_of(payload);
  struct stat info {};
  const bool large = ::stat(name.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > kIdleBytes / kIdle;
  // A file that does not go is found, and used or removed, at the next start.
  if (large || idle_.size() >= kIdle) {
    ::unlink(name.c_str());
    return;
  }
  idle_.push_back(payload);
}

}  // namespace gearbox::journal
