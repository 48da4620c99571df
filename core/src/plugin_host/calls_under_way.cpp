// The reading side of a call record. Whatever lies in the file is taken for bytes of a stranger.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <system_error>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/call_record_layout.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

/// begun ≤ now: one clock for all, but two reads of it.
constexpr seconds kClockSlack{1};

Outcome<Bytes> read_whole(int descriptor, const fs::path& file) {
  Bytes bytes(sizeof(CallFile));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::pread(descriptor, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::corrupt_data, file.string() + ": " + std::generic_category().message(errno)};
    if (got == 0) return Error{Errc::corrupt_data, file.string() + ": was cut while it was read"};
    have += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::size_t offset_of(std::size_t place) {
  return offsetof(CallFile, place) + place * sizeof(CallPlace);
}

// The record never leaves the host: its numbers are in the host's own order.
template <class Number>
Number number_at(ByteView bytes, std::size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

std::string text_at(ByteView bytes, std::size_t at, std::size_t size) {
  const std::string_view field = text_of(bytes.subspan(at, size));
  return std::string(field.substr(0, field.find('\0')));
}

bool is_checksum(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Instant instant_of(std::int64_t ns) {
  if (ns == std::numeric_limits<std::int64_t>::max()) return Instant::max();
  return Instant(std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(ns)));
}

/// What a place says, when it makes sense.
std::optional<CallBeing> read_place(ByteView bytes, std::size_t place, Instant now) {
  const std::size_t at = offset_of(place);
  const std::size_t label = at + offsetof(CallPlace, text);
  CallBeing call;
  call.place = place;
  call.turn = number_at<std::uint64_t>(bytes, at);
  call.kind = text_at(bytes, label + offsetof(CallRecord::Label, kind), sizeof(CallRecord::Label::kind));
  call.version =
      escaped(text_at(bytes, label + offsetof(CallRecord::Label, version), sizeof(CallRecord::Label::version)));
  call.name = text_at(bytes, label + offsetof(CallRecord::Label, name), sizeof(CallRecord::Label::name));
  call.checksum = text_at(bytes, label + offsetof(CallRecord::Label, checksum), sizeof(CallRecord::Label::checksum));
  call.function = text_at(bytes, label + sizeof(CallRecord::Label), kFunctionBytes);
  if (!is_name(call.kind) || !is_name(call.name) || !is_name(call.function) || !is_checksum(call.checksum)) return {};
  const auto begun = number_at<std::int64_t>(bytes, at + offsetof(CallPlace, begun_ns));
  const auto hung_after = number_at<std::int64_t>(bytes, at + offsetof(CallPlace, hung_after_ns));
  if (begun < 0 || hung_after < begun) return {};
  call.begun = instant_of(begun);
  call.hung_after = instant_of(hung_after);
  if (call.begun > now + kClockSlack) return {};
  return call;
}

}  // namespace

Outcome<std::vector<CallBeing>> calls_under_way(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return Error{errno == ENOENT ? Errc::not_found : Errc::corrupt_data,
                 file.string() + ": " + std::generic_category().message(errno)};
  }
  const auto read = [&]() -> Outcome<std::array<Bytes, 3>> {
    struct stat info {};
    if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != sizeof(CallFile))
      return Error{Errc::corrupt_data, file.string() + ": is no call record"};
    std::array<Bytes, 3> looks;
    for (Bytes& look : looks) {
      BOOST_OUTCOME_TRY(look, read_whole(descriptor, file));
    }
    return looks;
  };
  const Outcome<std::array<Bytes, 3>> looks = read();
  ::close(descriptor);
  if (!looks) return looks.error();
  const auto& [first, second, third] = looks.value();
  const bool ours = number_at<std::uint64_t>(second, offsetof(CallFile, magic)) == kCallMagic &&
                    number_at<std::uint32_t>(second, offsetof(CallFile, layout)) == kCallLayout &&
                    number_at<std::uint32_t>(second, offsetof(CallFile, places)) == kCallPlaces &&
                    number_at<std::uint64_t>(second, offsetof(CallFile, place_bytes)) == sizeof(CallPlace);
  if (!ours) return Error{Errc::corrupt_data, file.string() + ": is no call record of this version"};
  std::vector<CallBeing> calls;
  const Instant now = Clock::now();
  for (std::size_t place = 0; place < kCallPlaces; ++place) {
    // The words are those of the second look: whatever order a look reads its bytes in, they lie between the other two,
    // and a turn never comes back.
    const auto turn = number_at<std::uint64_t>(first, offset_of(place));
    if (state_of(turn) != kUnderWay || turn != number_at<std::uint64_t>(third, offset_of(place)) ||
        turn != number_at<std::uint64_t>(second, offset_of(place))) {
      continue;
    }
    if (auto call = read_place(second, place, now)) calls.push_back(std::move(*call));
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const CallBeing& a, const CallBeing& b) { return a.begun > b.begun; });
  return calls;
}

}  // namespace gearbox::plugin_host
