#include <cstring>

#include "base/picture_formats.hpp"

namespace gearbox::wire::picture {

namespace {
constexpr unsigned kStartOfImage = 0xD8;
constexpr unsigned kEndOfImage = 0xD9;
constexpr unsigned kStartOfScan = 0xDA;

unsigned octet(ByteView file, std::size_t at) {
  return std::to_integer<unsigned>(file[at]);
}

bool stands_alone(unsigned marker) {
  return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7);
}
bool is_frame(unsigned marker) {  // SOF0..15 without DHT, JPG and DAC
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

struct Segment {
  unsigned marker = 0;
  ByteView body;         // without marker and length
  std::size_t next = 0;  // where the next marker, or a scan's data, begins
};

Error cut(ByteView file, const std::string& missing) {
  return bad("JPEG is cut at byte " + std::to_string(file.size()) + ": " + missing);
}

/// The segment whose marker begins at `at`; fill bytes before it are skipped.
Outcome<Segment> segment_at(ByteView file, std::size_t at) {
  if (at >= file.size()) return cut(file, "no end marker");
  if (octet(file, at) != 0xFF) return bad("JPEG has no marker at byte " + std::to_string(at) + " where one must begin");
  while (at < file.size() && octet(file, at) == 0xFF) ++at;
  if (at >= file.size()) return cut(file, "no end marker");
  Segment segment;
  segment.marker = octet(file, at);
  segment.next = at + 1;
  if (segment.marker == 0) return bad("JPEG has no marker at byte " + std::to_string(at) + " where one must begin");
  if (segment.marker == kStartOfImage) return bad("JPEG begins again at byte " + std::to_string(at));
  if (segment.marker == kEndOfImage || stands_alone(segment.marker)) return segment;
  if (file.size() - segment.next < 2) return cut(file, "a segment has no length");
  const std::size_t length = octet(file, segment.next) << 8 | octet(file, segment.next + 1);
  if (length < 2)
    return bad("JPEG segment at byte " + std::to_string(at) + " has a length of " + std::to_string(length));
  if (length > file.size() - segment.next) {
    return cut(file, "the segment at byte " + std::to_string(at) + " has " + std::to_string(length) + " bytes");
  }
  segment.body = file.subspan(segment.next + 2, length - 2);
  segment.next += length;
  return segment;
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GEARBOX_WIDE_CLONE [[gnu::target_clones("avx2", "default")]]  // a sanitizer is not ready when clones are chosen
#else
#define GEARBOX_WIDE_CLONE
#endif

constexpr std::size_t kStride = 256;

/// True when one of kStride bytes is 0xFF without a zero (stuffing, by far the most frequent) behind it; reads one byte
/// more. A plain loop without branches, for the vectoriser.
GEARBOX_WIDE_CLONE bool has_marker(const unsigned char* bytes) {
  unsigned char found = 0;
  for (std::size_t i = 0; i < kStride; ++i) {
    found = static_cast<unsigned char>(found | ((bytes[i] == 0xFF) & (bytes[i + 1] != 0)));
  }
  return found != 0;
}

/// The end of a scan's data that begins at `at`: the place of the next marker that is neither stuffing nor a restart.
std::size_t scan_end(ByteView file, std::size_t at) {
  std::size_t looked_at = at;  // where the stride ends that is known to hold a marker
  while (at < file.size()) {
    if (at >= looked_at) {
      while (file.size() - at > kStride && !has_marker(reinterpret_cast<const unsigned char*>(&file[at])))
        at += kStride;
      looked_at = at + kStride;
    }
    const void* found = std::memchr(&file[at], 0xFF, file.size() - at);
    if (found == nullptr) return file.size();
    at = static_cast<std::size_t>(static_cast<const std::byte*>(found) - file.data());
    std::size_t after = at + 1;
    while (after < file.size() && octet(file, after) == 0xFF) ++after;
    if (after >= file.size()) return file.size();
    const unsigned marker = octet(file, after);
    if (marker != 0 && !stands_alone(marker)) return at;
    at = after + 1;
  }
  return file.size();
}

Outcome<PictureInfo> read_frame(const Segment& segment) {
  const ByteView body = segment.body;
  if (segment.marker > 0xC2) {
    return bad("JPEG of coding process " + std::to_string(segment.marker - 0xC0) +
               ": only baseline, extended and progressive are read");
  }
  if (body.size() < 6) return bad("JPEG frame header of " + std::to_string(body.size()) + " bytes");
  PictureInfo info;
  info.type = PictureType::jpeg;
  info.bits = std::to_integer<std::uint8_t>(body[0]);
  info.height = octet(body, 1) << 8 | octet(body, 2);
  info.width = octet(body, 3) << 8 | octet(body, 4);
  info.channels = std::to_integer<std::uint8_t>(body[5]);
  if (info.bits != 8) return bad("JPEG with " + std::to_string(info.bits) + " bits; only 8 are read");
  if (info.channels != 1 && info.channels != 3 && info.channels != 4) {
    return bad("JPEG with " + std::to_string(info.channels) + " channels");
  }
  if (body.size() != 6 + 3 * std::size_t{info.channels}) return bad("JPEG frame header of a wrong length");
  return info;
}
}  // namespace

Outcome<PictureInfo> jpeg_header(ByteView head) {
  std::size_t at = 2;
  for (;;) {
    BOOST_OUTCOME_TRY(const Segment segment, segment_at(head, at));
    if (is_frame(segment.marker)) return read_frame(segment);
    if (segment.marker == kEndOfImage || segment.marker == kStartOfScan) return bad("JPEG without a frame header");
    at = segment.next;
  }
}

Outcome<void> walk_jpeg(ByteView file) {
  std::size_t at = 2;
  std::size_t frames = 0;
  std::size_t scans = 0;
  for (;;) {
    BOOST_OUTCOME_TRY(const Segment segment, segment_at(file, at));
    at = segment.next;
    if (segment.marker == kEndOfImage) break;
    // A second one could name another size than the one that was judged.
    if (is_frame(segment.marker) && ++frames > 1)
      return bad("JPEG with a second frame header at byte " + std::to_string(at));
    if (segment.marker == kStartOfScan) {
      const std::size_t end = scan_end(file, at);
      if (end == at) return bad("JPEG scan at byte " + std::to_string(at) + " is empty");
      at = end;
      ++scans;
    }
  }
  if (scans == 0) return bad("JPEG ends without a scan");
  return done();
}

}  // namespace gearbox::wire::picture
