#include "plugin_host/build_book.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"
#include "plugin_host/book_text.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxBookBytes = 4 << 20;
constexpr milliseconds kLockWait{20000};  // each writer waits for the disk, and a disk may be very slow
constexpr milliseconds kLockPause{1};

Error failed(const fs::path& file, int number) {
  return Error{number == ENOSPC || number == EDQUOT ? Errc::no_space : Errc::io_error,
               file.string() + ": " + std::generic_category().message(number)};
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Held until the File is destroyed, and given back by the kernel however its holder ends. The lock has a file of its
/// own: the book itself is replaced by each writer.
Outcome<File> lock_book(const fs::path& copies) {
  // A command may write before any role has run. The state folder above it has been checked by whoever asks.
  if (::mkdir(copies.c_str(), 0700) != 0 && errno != EEXIST) return failed(copies, errno);
  const fs::path path = copies / "book.lock";
  File file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return failed(path, errno);
  const Instant deadline = after(Clock::now(), kLockWait);
  // Not a blocking flock(): a holder that was stopped in this moment must not stop the supervisor as well.
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failed(path, errno);
    if (Clock::now() >= deadline) return Error{Errc::io_error, path.string() + ": is held by another process"};
    std::this_thread::sleep_for(kLockPause);
  }
  return file;
}

struct Read {
  BuildBook book;
  std::string damage;  // what is wrong with the file; empty: nothing
};

Outcome<Read> read_file(const fs::path& file) {
  Read read;
  const Outcome<std::string> text = toml::read_file(file, kMaxBookBytes);
  if (!text) {
    if (text.error().code == Errc::not_found) return read;
    if (text.error().code == Errc::io_error) return Error{Errc::io_error, file.string() + ": " + text.error().detail};
    read.damage = text.error().detail;
    return read;
  }
  if (auto book = book_of_text(text.value())) {
    read.book = std::move(*book);
  } else {
    read.damage = text.value().empty() ? "is empty" : "is no book of builds";
  }
  return read;
}

/// Under the lock. The file is damaged only when it still is now: another process may have put it right meanwhile.
Outcome<BuildBook> read_locked(const fs::path& file) {
  BOOST_OUTCOME_TRY(Read read, read_file(file));
  if (read.damage.empty()) return std::move(read.book);
  fs::path aside = file;
  aside += ".damaged";
  if (::rename(file.c_str(), aside.c_str()) != 0) return failed(file, errno);
  spdlog::warn("book of plugin builds set aside, barred builds are forgotten file={} kept={} reason=\"{}\"",
               escaped(file.string()), escaped(aside.string()), escaped(read.damage));
  return BuildBook();
}

Outcome<void> write_beside(const fs::path& beside, std::string_view text) {
  const File file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return failed(beside, errno);
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed(beside, errno);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(file.get()) != 0) return failed(beside, errno);
  return done();
}

Outcome<void> write_book(const fs::path& copies, const BuildBook& book) {
  const fs::path file = book_file(copies);
  const fs::path beside = file.string() + ".new";  // one name is enough: the lock is held
  if (const Outcome<void> written = write_beside(beside, text_of_book(book)); !written) {
    ::unlink(beside.c_str());
    return written.error();
  }
  if (::rename(beside.c_str(), file.c_str()) != 0) {
    const int number = errno;
    ::unlink(beside.c_str());
    return failed(file, number);
  }
  // The folder is not made durable: after a power cut the book may be that of a moment before, which is whole as well.
  return done();
}

/// Reads, changes and writes under the lock. `change` says whether it changed anything: a file that stays the same is
/// not written again, since all roles watch it.
template <class Change>
Outcome<BuildBook> update(const fs::path& copies, const Change& change) {
  BOOST_OUTCOME_TRY(const File lock, lock_book(copies));
  BOOST_OUTCOME_TRY(BuildBook book, read_locked(book_file(copies)));
  if (change(book)) {
    BOOST_OUTCOME_TRY(write_book(copies, book));
  }
  return book;
}

template <class Entry>
Outcome<void> check(const Entry& entry) {
  if (makes_sense(entry)) return done();
  return Error{Errc::io_error, "no build of a plugin: '" + escaped(entry.kind, 64) + "' '" + escaped(entry.name, 64) +
                                   "' '" + escaped(entry.checksum, 64) + "'"};
}

/// At most kKeptBuilds of the plugin of the newest build. Barred ones give way first: with three bad builds in a row
/// the good one before them would be gone else.
void drop_old_builds(BuildBook& book) {
  const Build newest = book.builds.back();
  const auto same = [&](const Build& build) { return build.kind == newest.kind && build.name == newest.name; };
  while (static_cast<std::size_t>(std::count_if(book.builds.begin(), book.builds.end(), same)) > kKeptBuilds) {
    auto oldest = std::find_if(book.builds.begin(), book.builds.end() - 1, [&](const Build& build) {
      return same(build) && book.bar_of(build.checksum) != nullptr;
    });
    if (oldest == book.builds.end() - 1) oldest = std::find_if(book.builds.begin(), book.builds.end(), same);
    book.builds.erase(oldest);
  }
  if (book.builds.size() > kMostBuilds) book.builds.erase(book.builds.begin());
}

}  // namespace

const Bar* BuildBook::bar_of(std::string_view checksum) const {
  const auto found = std::find_if(bars.begin(), bars.end(), [&](const Bar& bar) { return bar.checksum == checksum; });
  return found == bars.end() ? nullptr : &*found;
}

const Build* BuildBook::last_good(std::string_view kind, std::string_view name, std::string_view other_than) const {
  const auto found = std::find_if(builds.rbegin(), builds.rend(), [&](const Build& build) {
    return build.kind == kind && build.name == name && build.checksum != other_than &&
           bar_of(build.checksum) == nullptr;
  });
  return found == builds.rend() ? nullptr : &*found;
}

const Ruling* BuildBook::ruling_on(std::string_view kind, std::string_view name) const {
  const auto found = std::find_if(rulings.begin(), rulings.end(),
                                  [&](const Ruling& ruling) { return ruling.kind == kind && ruling.name == name; });
  return found == rulings.end() ? nullptr : &*found;
}

fs::path book_file(const fs::path& copies) {
  return copies / "book.json";
}

Outcome<BuildBook> read_book(const fs::path& copies) {
  // Without the lock: the file is replaced whole, never changed in place.
  BOOST_OUTCOME_TRY(Read read, read_file(book_file(copies)));
  if (read.damage.empty()) return std::move(read.book);
  BOOST_OUTCOME_TRY(const File lock, lock_book(copies));
  return read_locked(book_file(copies));
}

Outcome<BuildBook> note_build(const fs::path& copies, const Build& build) {
  BOOST_OUTCOME_TRY(check(build));
  return update(copies, [&](BuildBook& book) {
    const auto known = std::find_if(book.builds.begin(), book.builds.end(), [&](const Build& other) {
      return other.kind == build.kind && other.name == build.name && other.checksum == build.checksum;
    });
    if (known == book.builds.end()) {
      book.builds.push_back(build);
      drop_old_builds(book);
      return true;
    }
    const bool newest = std::none_of(known + 1, book.builds.end(), [&](const Build& other) {
      return other.kind == build.kind && other.name == build.name;
    });
    if (!newest) std::rotate(known, known + 1, book.builds.end());  // since when stays that of the first time
    return !newest;
  });
}

Outcome<BuildBook> bar(const fs::path& copies, const Bar& bar) {
  BOOST_OUTCOME_TRY(check(bar));
  return update(copies, [&](BuildBook& book) {
    if (book.bar_of(bar.checksum) != nullptr) return false;
    book.bars.push_back(bar);
    if (book.bars.size() > kMostBars) book.bars.erase(book.bars.begin());
    return true;
  });
}

Outcome<BuildBook> note_ruling(const fs::path& copies, const Ruling& ruling) {
  BOOST_OUTCOME_TRY(check(ruling));
  return update(copies, [&](BuildBook& book) {
    std::erase_if(book.rulings,
                  [&](const Ruling& other) { return other.kind == ruling.kind && other.name == ruling.name; });
    book.rulings.push_back(ruling);
    if (book.rulings.size() > kMostRulings) book.rulings.erase(book.rulings.begin());
    return true;
  });
}

Outcome<BuildBook> release(const fs::path& copies, std::string_view kind, std::string_view name,
                           std::size_t& released) {
  released = 0;
  return update(copies, [&](BuildBook& book) {
    released = std::erase_if(book.bars,
                             [&](const Bar& bar) { return bar.name == name && (kind.empty() || bar.kind == kind); });
    released += std::erase_if(book.rulings, [&](const Ruling& ruling) {
      return !ruling.passes && ruling.name == name && (kind.empty() || ruling.kind == kind);
    });
    return released > 0;
  });
}

}  // namespace gearbox::plugin_host
