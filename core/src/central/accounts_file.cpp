#include "central/accounts_file.hpp"

#include <spdlog/spdlog.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "central/accounts_schema.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::central {

namespace fs = std::filesystem;

namespace {

/// In one transaction: a file is never between two schemas.
Outcome<void> upgrade(sqlite::Database& database, std::int64_t version) {
  return database.run("BEGIN IMMEDIATE;" + schema_from(version, sql::Dialect::sqlite) +
                      "PRAGMA user_version=" + std::to_string(kAccountsSchema) + ";COMMIT;");
}

Error io_error(const std::string& what, const fs::path& path, int number) {
  return Error{number == ENOSPC ? Errc::no_space : Errc::io_error,
               what + " " + escaped(path.string()) + ": " + std::generic_category().message(number)};
}

/// One process at a time makes, copies or restores the file. The kernel lets go of it when its holder dies.
class FolderLock {
 public:
  static Outcome<FolderLock> take(const fs::path& folder) {
    FolderLock lock;
    lock.descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock.descriptor_ < 0) return io_error("cannot open", folder, errno);
    while (::flock(lock.descriptor_, LOCK_EX) != 0) {
      if (errno != EINTR) return io_error("cannot lock", folder, errno);
    }
    return lock;
  }
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  void flush() const {
    ::fsync(descriptor_);
  }  // makes renames in the folder last; where that fails, so does the next write

 private:
  FolderLock() = default;
  int descriptor_ = -1;
};

fs::path beside(const fs::path& file, const char* ending) {
  fs::path path = file;
  path += ending;
  return path;
}

bool is_there(const fs::path& file) {
  struct stat info {};
  return ::lstat(file.c_str(), &info) == 0;
}

Outcome<void> make_private(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return io_error("cannot make", file, errno);
  const int failed = ::fchmod(descriptor, 0600) != 0 ? errno : 0;
  ::close(descriptor);
  if (failed != 0) return io_error("cannot protect", file, failed);
  return done();
}

Outcome<void> flush_and_rename(const fs::path& from, const fs::path& to, const FolderLock& lock) {
  const int descriptor = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return io_error("cannot open", from, errno);
  const int failed = ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  if (failed != 0) return io_error("cannot flush", from, failed);
  if (::rename(from.c_str(), to.c_str()) != 0) return io_error("cannot rename to", to, errno);
  lock.flush();
  return done();
}

Outcome<void> set_pragmas(sqlite::Database& database) {
  // FULL: a committed account survives a power cut. Triggers and views of a foreign file are not trusted.
  return database.run("PRAGMA trusted_schema=OFF; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;");
}

/// Errors: corrupt_data when the content is not what we wrote; unsupported_version.
Outcome<sqlite::Database> open_checked(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return io_error("cannot read", file, errno);
  if (!S_ISREG(info.st_mode)) return Error{Errc::io_error, escaped(file.string()) + " is no plain file"};
  if (info.st_size == 0) return Error{Errc::corrupt_data, "the file is empty"};
  BOOST_OUTCOME_TRY(auto database, sqlite::Database::open(file, false));
  BOOST_OUTCOME_TRY(set_pragmas(database));
  std::int64_t version = 0;
  {
    BOOST_OUTCOME_TRY(auto check, database.prepare("PRAGMA quick_check(1)"));
    BOOST_OUTCOME_TRY(const bool row, check.first());
    if (!row || check.text(0) != "ok")
      return Error{Errc::corrupt_data, "database: " + escaped(row ? check.text(0) : "no answer")};
    BOOST_OUTCOME_TRY(auto asked, database.prepare("PRAGMA user_version"));
    BOOST_OUTCOME_TRY(asked.first());
    version = asked.integer(0);
  }
  if (version > kAccountsSchema) {
    return Error{
        Errc::unsupported_version,
        escaped(file.string()) + " was written by a later version of Gearbox (schema " + std::to_string(version) + ")"};
  }
  if (version < 1) return Error{Errc::corrupt_data, "it holds no accounts"};
  if (version < kAccountsSchema) {
    BOOST_OUTCOME_TRY(upgrade(database, version));
  }
  return database;
}

/// Under another name first: an existing database is never half made, so that an empty one is always damage.
Outcome<void> make_file(const fs::path& file, const FolderLock& lock) {
  const fs::path fresh = beside(file, ".new");
  for (const char* ending : {"", "-wal", "-shm", "-journal"})
    ::unlink(beside(fresh, ending).c_str());  // of a killed maker
  BOOST_OUTCOME_TRY(make_private(fresh));
  {
    BOOST_OUTCOME_TRY(auto database, sqlite::Database::open(fresh, true));
    BOOST_OUTCOME_TRY(upgrade(database, 0));
  }
  return flush_and_rename(fresh, file, lock);
}

/// Sets the damaged file aside, with what belongs to it, under a free name. Returns that name.
Outcome<fs::path> set_aside(const fs::path& file) {
  for (int number = 1; number < 10000; ++number) {
    const fs::path aside = beside(file, (".damaged-" + std::to_string(number)).c_str());
    if (is_there(aside)) continue;
    if (is_there(file) && ::rename(file.c_str(), aside.c_str()) != 0) return io_error("cannot set aside", file, errno);
    for (const char* ending : {"-wal", "-shm"}) {
      const fs::path from = beside(file, ending);
      if (is_there(from) && ::rename(from.c_str(), beside(aside, ending).c_str()) != 0) {
        return io_error("cannot set aside", from, errno);
      }
    }
    return aside;
  }
  return Error{Errc::io_error, "too many damaged files beside " + escaped(file.string())};
}

Outcome<void> copy_plain(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  if (failed) return io_error("cannot copy to", to, failed.value());
  return done();
}

std::string what_to_do(const fs::path& file) {
  return "Accounts are not thrown away on their own: put a good copy in its place, or, to begin without any account, "
         "move " +
         escaped(file.string()) + "* away";
}

Outcome<sqlite::Database> restore(const fs::path& file, const std::string& reason, const FolderLock& lock) {
  const fs::path copy = backup_of(file);
  const fs::path fresh = beside(file, ".new");
  if (!is_there(copy)) {
    return Error{Errc::corrupt_data, "the accounts in " + escaped(file.string()) + " cannot be read (" + reason +
                                         ") and there is no copy of them. " + what_to_do(file)};
  }
  for (const char* ending : {"-wal", "-shm", "-journal"}) ::unlink(beside(fresh, ending).c_str());
  BOOST_OUTCOME_TRY(copy_plain(copy, fresh));
  BOOST_OUTCOME_TRY(make_private(fresh));
  if (Outcome<sqlite::Database> good = open_checked(fresh); !good) {
    return Error{Errc::corrupt_data, "the accounts in " + escaped(file.string()) + " cannot be read (" + reason +
                                         "), nor can their copy (" + good.error().detail + "). " + what_to_do(file)};
  }  // closed here, which writes its log back into it
  BOOST_OUTCOME_TRY(const fs::path aside, set_aside(file));
  BOOST_OUTCOME_TRY(flush_and_rename(fresh, file, lock));
  spdlog::error("event=accounts_restored file={} reason=\"{}\" set_aside={}", escaped(file.string()), reason,
                escaped(aside.filename().string()));
  return open_checked(file);
}

}  // namespace

fs::path backup_of(const fs::path& file) {
  return beside(file, ".backup");
}

Outcome<sqlite::Database> open_accounts_file(const fs::path& file, OnDamage on_damage) {
  BOOST_OUTCOME_TRY(const FolderLock lock, FolderLock::take(file.parent_path()));
  const bool there = is_there(file);
  if (!there && !is_there(backup_of(file))) {
    BOOST_OUTCOME_TRY(make_file(file, lock));
  }
  Outcome<sqlite::Database> opened =
      there || is_there(file) ? open_checked(file) : Error{Errc::corrupt_data, "the file is gone"};
  if (opened || opened.error().code != Errc::corrupt_data) return opened;
  if (on_damage == OnDamage::restore) return restore(file, opened.error().detail, lock);
  return Error{
      Errc::corrupt_data,
      "the accounts in " + escaped(file.string()) + " cannot be read (" + opened.error().detail + "). " +
          (is_there(backup_of(file)) ? "Central restores them from their copy when it starts" : what_to_do(file))};
}

Outcome<void> copy_accounts_file(sql::Connection& database, const fs::path& file) {
  BOOST_OUTCOME_TRY(const FolderLock lock, FolderLock::take(file.parent_path()));
  const fs::path fresh = beside(file, ".backup.new");
  ::unlink(fresh.c_str());
  BOOST_OUTCOME_TRY(make_private(fresh));
  BOOST_OUTCOME_TRY(auto copy, database.prepare("VACUUM INTO ?1"));
  BOOST_OUTCOME_TRY(copy.first(fresh.string()));
  return flush_and_rename(fresh, backup_of(file), lock);
}

}  // namespace gearbox::central
