#include "cli/recorded_payloads.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "cli/json_facts.hpp"
#include "gearbox/base/bytes.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"
#include "recording/recorder.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};

Error failed(const fs::path& path, int number) {
  return Error{number == ENOSPC || number == EDQUOT ? Errc::no_space : Errc::io_error,
               escaped(path.string(), 200) + ": " + std::generic_category().message(number)};
}

Outcome<Bytes> fetch(const fs::path& socket, std::uint64_t number) {
  Bytes all;
  for (std::uint64_t from = 0;;) {
    const json::object command{{"command", "recorded_payload"}, {"number", number}, {"from", from}};
    BOOST_OUTCOME_TRY(const std::string answer, serving::ask_control_now(socket, json::serialize(command), kWait));
    BOOST_OUTCOME_TRY(const json::object piece, parse_object(answer));
    const json::value* digits = piece.if_contains("bytes");
    if (digits == nullptr || !digits->is_string()) return Error{Errc::bad_frame, "the node's answer has no bytes"};
    const std::string_view text(digits->get_string());
    const std::size_t before = all.size();
    all.resize(before + text.size() / 2);
    BOOST_OUTCOME_TRY(from_hex(text, ByteSpan(all).subspan(before)));
    from = number_in(piece, "next");
    if (from == 0) return all;
    if (from != all.size()) return Error{Errc::bad_frame, "the node's answer is of another place"};
  }
}

Outcome<void> write_file(const fs::path& path, ByteView bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return failed(path, errno);
  int number = 0;
  while (!bytes.empty() && number == 0) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put >= 0) bytes = bytes.subspan(static_cast<std::size_t>(put));
    if (put < 0 && errno != EINTR) number = errno;
  }
  if (::close(file) != 0 && number == 0) number = errno;
  if (number != 0) return failed(path, number);
  return done();
}

}  // namespace

Outcome<void> make_payload_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return done();
  if (errno != EEXIST) return failed(folder, errno);
  std::error_code error;
  if (fs::is_directory(folder, error) && fs::is_empty(folder, error) && !error) return done();
  return Error{Errc::io_error, escaped(folder.string(), 200) + ": is no empty folder"};
}

Outcome<std::uint64_t> fetch_payloads(const fs::path& socket, const fs::path& folder, std::string_view lines,
                                      std::ostream& out) {
  std::uint64_t fetched = 0;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const std::size_t inputs = line.rfind(',');
    const std::size_t payload = inputs == 0 || inputs == std::string_view::npos ? inputs : line.rfind(',', inputs - 1);
    if (payload == std::string_view::npos) return Error{Errc::bad_frame, "the node's answer has no column of payloads"};
    const std::string_view name = line.substr(payload + 1, inputs - payload - 1);
    std::uint64_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    bool there = !name.empty();
    // What it is called, we say: nothing that an answer holds is a path for us.
    if (there && recording::payload_file(number) != name)
      return Error{Errc::bad_frame, "the node's answer has no column of payloads"};
    if (there) {
      const Outcome<Bytes> bytes = fetch(socket, number);
      there = bytes || bytes.error().code != Errc::not_found;
      if (there && !bytes) return bytes.error();
      if (there) {
        BOOST_OUTCOME_TRY(write_file(folder / recording::payload_file(number), bytes.value()));
      }
    }
    fetched += there ? 1 : 0;
    out << (there ? line : line.substr(0, payload)) << (there ? "\n" : ",,\n");
  }
  return fetched;
}

}  // namespace gearbox::cli
