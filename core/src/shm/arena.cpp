#include "gearbox/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <sstream>

namespace gearbox::shm {

namespace {
namespace ipc = boost::interprocess;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// What Boost.Interprocess maps: a descriptor of ours, with no name behind it.
class PassedMemory {
 public:
  explicit PassedMemory(int fd) : fd_(fd) {}
  ipc::mapping_handle_t get_mapping_handle() const { return ipc::ipcdetail::mapping_handle_from_file_handle(fd_); }

 private:
  int fd_;
};

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kNoLimit;  // "max", or no such file
}

/// What the control groups of this process, version 2, leave over.
std::uint64_t left_in_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  std::uint64_t left = kNoLimit;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::")) continue;
    std::string folder = "/sys/fs/cgroup" + line.substr(3);
    while (folder.size() >= std::strlen("/sys/fs/cgroup")) {
      const std::uint64_t limit = number_in(folder + "/memory.max");
      const std::uint64_t used = number_in(folder + "/memory.current");
      if (limit != kNoLimit && used != kNoLimit) left = std::min(left, limit > used ? limit - used : 0);
      const std::size_t slash = folder.rfind('/');
      if (slash == std::string::npos) break;
      folder.resize(slash);
    }
  }
  return left;
}

std::string no_space_text(const std::string& label, std::uint64_t wanted, std::uint64_t available) {
  return "shared memory '" + label + "': " + std::to_string(wanted) + " bytes wanted, " + std::to_string(available) +
         " available";
}
}  // namespace

std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t left = kNoLimit;
  while (file >> word) {
    if (word != "MemAvailable:") continue;
    std::uint64_t kib = 0;
    if (file >> kib) left = kib * 1024;
    break;
  }
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur != RLIM_INFINITY) {
    left = std::min<std::uint64_t>(left, file_size.rlim_cur);  // past it the kernel would send SIGXFSZ
  }
  return std::min(left, left_in_groups());
}

Outcome<Fd> create_memory(const std::string& label, std::uint64_t bytes) {
  const std::uint64_t page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  // Looked up first: the kernel allocates page by page and would rather kill a process than say that memory is short.
  const std::uint64_t available = available_memory();
  if (bytes > available || bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) - page) {
    return Error{Errc::no_space, no_space_text(label, bytes, available)};
  }
  const auto whole = static_cast<off_t>((std::max<std::uint64_t>(bytes, 1) + page - 1) / page * page);
  Fd memory(::memfd_create(("gearbox-" + label).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory)
    return Error{errno == EMFILE || errno == ENFILE || errno == ENOMEM ? Errc::no_space : Errc::io_error,
                 "shared memory '" + label + "': " + std::strerror(errno)};
  int failed = 0;
  do {
    failed = ::posix_fallocate(memory.get(), 0, whole);
  } while (failed == EINTR);
  if (failed != 0) {
    return Error{Errc::no_space, no_space_text(label, bytes, available_memory()) + ": " + std::strerror(failed)};
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return Error{Errc::io_error, "shared memory '" + label + "' cannot be sealed: " + std::strerror(errno)};
  }
  return memory;
}

Outcome<Fd> reopen_read_only(const Fd& memory) {
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  Fd again(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!again) return Error{Errc::io_error, "cannot open shared memory read-only: " + std::string(std::strerror(errno))};
  return again;
}

bool forbid_new_writers(const Fd& memory) {
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
  return ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;
}

Outcome<Mapping> Mapping::map(const Fd& memory, std::uint64_t bytes, Access access) {
  struct stat info {};
  if (::fstat(memory.get(), &info) != 0) {
    return Error{Errc::io_error, "shared memory: " + std::string(std::strerror(errno))};
  }
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (bytes == 0 || info.st_size < 0 || static_cast<std::uint64_t>(info.st_size) < bytes || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return Error{Errc::bad_frame, "shared memory that is smaller than said, or could shrink"};
  }
  try {
    Mapping mapping;
    mapping.region_ =
        ipc::mapped_region(PassedMemory(memory.get()), access == Access::read_write ? ipc::read_write : ipc::read_only,
                           0, static_cast<std::size_t>(bytes), nullptr, MAP_POPULATE);
    return mapping;
  } catch (const std::exception& failure) {
    return Error{Errc::no_space, "cannot map " + std::to_string(bytes) + " bytes of shared memory: " + failure.what()};
  }
}

void Mapping::hide_from_children() const {
  // Where it fails (no such advice in this kernel) children keep seeing it, which costs safety against our own models
  // only.
  [[maybe_unused]] const int failed = ::madvise(region_.get_address(), region_.get_size(), MADV_DONTFORK);
}

}  // namespace gearbox::shm
