#include "plugin_host/call_record.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <system_error>

#include "plugin_host/call_record_layout.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

struct CallRecord::Shared {
  CallFile file;
};

namespace {

Error failed(const fs::path& file, int number) {
  return Error{number == ENOSPC || number == EDQUOT ? Errc::no_space : Errc::io_error,
               file.string() + ": " + std::generic_category().message(number)};
}

template <std::size_t size>
void put(std::array<char, size>& into, std::string_view text) {
  std::memcpy(into.data(), text.data(), std::min(text.size(), size));
}

std::int64_t nanoseconds_of(Instant instant) {
  if (instant == Instant::max()) return std::numeric_limits<std::int64_t>::max();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(instant.time_since_epoch()).count();
}

/// Where this thread begins to look for a free place: threads that keep apart do not fight for cache lines.
std::size_t first_choice() {
  static std::atomic<std::size_t> threads{0};
  // relaxed: only the numbers must differ; nothing else is published by it.
  thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed);
  return mine % kCallPlaces;
}

}  // namespace

Outcome<std::shared_ptr<CallRecord>> CallRecord::create(const fs::path& file) {
  // A new file each time: whoever still maps the old one (the end of a process before us) writes into nobody's.
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) return failed(file, errno);
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failed(file, errno);
  const auto give_up = [&](int number) {
    ::close(descriptor);
    ::unlink(file.c_str());
    return failed(file, number);
  };
  // Blocks are taken now: a full disk must not become a SIGBUS in the middle of a call.
  if (const int number = ::posix_fallocate(descriptor, 0, sizeof(Shared)); number != 0) return give_up(number);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return give_up(errno);
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (memory == MAP_FAILED) return give_up(errno);
  ::close(descriptor);
  auto record = std::shared_ptr<CallRecord>(new CallRecord());
  record->shared_ = ::new (memory) Shared();  // writes each page, so that none faults for the first time in a call
  record->file_ = file;
  record->inode_ = info.st_ino;
  // release: partner is the reader's pread, which takes nothing from a file without the magic.
  record->shared_->file.magic.store(kCallMagic, std::memory_order_release);
  return record;
}

std::shared_ptr<CallRecord> CallRecord::unrecorded() {
  return std::shared_ptr<CallRecord>(new CallRecord());
}

CallRecord::~CallRecord() {
  if (shared_ == nullptr) return;
  ::munmap(shared_, sizeof(Shared));
  struct stat info {};
  if (::lstat(file_.c_str(), &info) == 0 && info.st_ino == inode_) ::unlink(file_.c_str());
}

CallRecord::Label CallRecord::label(std::string_view kind, std::string_view name, std::string_view version,
                                    std::string_view checksum) {
  Label label;
  put(label.kind, kind);
  put(label.name, name);
  put(label.version, version);
  put(label.checksum, checksum);
  return label;
}

CallRecord::Mark::Mark(CallRecord& record, const Label& label, const char* function, Instant begun, Instant hung_after)
    : record_(record), place_(kCallPlaces) {
  if (record_.shared_ == nullptr) return;
  CallFile& file = record_.shared_->file;
  const std::size_t first = first_choice();
  for (std::size_t i = 0; i < kCallPlaces; ++i) {
    const std::size_t at = (first + i) % kCallPlaces;
    CallPlace& place = file.place[at];
    // relaxed: a guess, which the exchange below checks.
    std::uint64_t turn = place.turn.load(std::memory_order_relaxed);
    if (state_of(turn) != kFree) continue;
    // acquire: partner is the release store in ~Mark of the call before, so that our words come after all of its own.
    if (!place.turn.compare_exchange_strong(turn, turn + kClaimed, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      continue;  // another thread was faster
    }
    std::array<std::uint64_t, kTextWords> words{};
    std::memcpy(words.data(), &label, sizeof label);
    std::memcpy(words.data() + sizeof label / sizeof words[0], function, ::strnlen(function, kFunctionBytes));
    // release, each of them: partner is the reader's second look. Who sees a word of this call there sees in the third
    // look that the turn of the call before is over.
    for (std::size_t word = 0; word < kTextWords; ++word) {
      place.text[word].store(words[word], std::memory_order_release);
    }
    place.begun_ns.store(nanoseconds_of(begun), std::memory_order_release);
    place.hung_after_ns.store(nanoseconds_of(hung_after), std::memory_order_release);
    // release: partner is the reader's first look. Who sees this turn there sees the words above in the second.
    place.turn.store(turn + kUnderWay, std::memory_order_release);
    place_ = at;
    return;
  }
}

CallRecord::Mark::~Mark() {
  if (place_ == kCallPlaces) return;
  std::atomic<std::uint64_t>& turn = record_.shared_->file.place[place_].turn;
  // The load is relaxed: nobody else writes to a place that is ours. The store is a release: partner is the acquire of
  // whoever claims the place next.
  turn.store(turn.load(std::memory_order_relaxed) - kUnderWay + kTurnStep, std::memory_order_release);
}

}  // namespace gearbox::plugin_host
