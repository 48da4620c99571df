#include "outbox.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace gearbox::client {

namespace {

/// How far into a line its request id may begin: behind the file's name, which is at most 4 KiB, each byte escaped.
constexpr std::size_t kHeadBytes = 32 * 1024;

/// The id in the front part of a line as to_json(Report) writes it. The file's name stands before it, with its quotes
/// escaped, so that this text cannot be part of a name.
void note_id(std::string_view head, const std::set<RequestId>& wanted, std::set<RequestId>& found) {
  constexpr std::string_view kMark = "\"request\":\"";
  const std::size_t at = head.find(kMark);
  if (at == std::string_view::npos || head.size() < at + kMark.size() + 32) return;
  const Outcome<RequestId> id = request_id_from(head.substr(at + kMark.size(), 32));
  if (id && wanted.count(id.value()) > 0) found.insert(id.value());
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace

Outcome<std::set<RequestId>> Outbox::answered(const std::set<RequestId>& ids) const {
  std::set<RequestId> found;
  const Descriptor file(::open(file_.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return found;
    return file_error(file_, errno);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return file_error(file_, errno);
  if (!S_ISREG(status.st_mode)) return found;
  std::string piece(1 << 20, '\0');
  std::string head;  // the front part of the line under way
  std::uint64_t whole = 0;
  std::uint64_t at = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(file_, errno);
    if (got == 0) break;
    std::string_view rest(piece.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      if (head.size() < kHeadBytes) head += part.substr(0, kHeadBytes - head.size());
      if (end == std::string_view::npos) break;
      note_id(head, ids, found);
      head.clear();
      rest.remove_prefix(end + 1);
      whole = at + static_cast<std::uint64_t>(got) - rest.size();
    }
    at += static_cast<std::uint64_t>(got);
  }
  if (whole != at && ::ftruncate(file.get(), static_cast<off_t>(whole)) != 0) return file_error(file_, errno);
  return found;
}

Outcome<void> Outbox::append(const std::string& line) const {
  bool made = false;
  Descriptor file(::open(file_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) {
    made = true;
    file = Descriptor(::open(file_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  }
  if (file.get() < 0) return file_error(file_, errno);
  struct stat before {};
  if (::fstat(file.get(), &before) != 0) return file_error(file_, errno);
  char last = '\n';
  if (S_ISREG(before.st_mode) && before.st_size > 0 && ::pread(file.get(), &last, 1, before.st_size - 1) != 1) last = 0;
  // Half a line that nobody could take back must not spoil this one.
  Outcome<void> written = write_all(file.get(), view_of((last == '\n' ? "" : "\n") + line + "\n"), file_);
  if (written && ::fsync(file.get()) != 0 && errno != EINVAL) written = file_error(file_, errno);
  if (written && made) written = sync_folder(folder_of(file_));
  if (!written && S_ISREG(before.st_mode) && ::ftruncate(file.get(), before.st_size) != 0) {
    return Error{written.error().code, written.error().detail + "; half a line stays in it"};
  }
  return written;
}

}  // namespace gearbox::client
