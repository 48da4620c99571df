// frame.hpp: the unit on every connection: a fixed header, a small JSON header, a payload.
//
// On a sealed connection a frame is two records of the secure channel: the header alone (always kHeaderBytes + the
// record's overhead, so that no length travels in clear), then, when json_bytes + payload_bytes > 0, JSON and payload
// as one record, with the plain header as additional data. On the node's unix socket both travel as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::wire {

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::uint32_t kMaxJsonBytes = 64 * 1024;
inline constexpr std::uint32_t kMaxPayloadBytes = 1024 * 1024;
/// A coded tensor travels in bands of rows of about this many plain bytes, one frame each (perf.md, advice 4).
inline constexpr std::size_t kTileBytes = 384 * 1024;
inline constexpr std::uint32_t kNoDeadline = 0xFFFFFFFF;

/// Who sends it: D device, N node, C central, L local command line. Values are for good; unknown ones are skipped.
enum class FrameType : std::uint8_t {
  hello = 1,  // first frame of a client: login or ticket, signed over the channel's h
  hello_ok = 2,
  error = 3,  // about `request` when that is set, else about the connection, which then ends
  ping = 4,   // either side; answered at once with pong
  pong = 5,
  enrol = 10,        // D→C: password, once; registers the device key
  locate = 11,       // D→C: where is task T?
  located = 12,      // C→D: address, node key, ticket
  submit = 20,       // D→N: announces a request; with kInlinePayload it brings its bytes along
  upload_at = 21,    // N→D: `offset` = bytes the node has; answer to submit, then an acknowledgement now and then
  upload_data = 22,  // D→N: payload at `offset`; a coded tensor: exactly one tile
  accepted = 23,     // N→D: whole and verified; the node answers for it from here on
  cancel = 24,       // D→N
  result = 25,       // N→D: JSON describes all tensors and the timing; payload = first bytes of them
  result_data = 26,  // N→D: more of the result's bytes, at `offset`, in order
  result_ack = 27,   // D→N: received whole
  result_part = 28,  // N→D: part number `part` of a streamed result: JSON describes its tensors, payload = their bytes
  part_ack = 29,     // D→N: all parts before number `part` have been taken; the node may let go of them
  node_report = 40,  // N→C: load, models, tasks; once a second
  report_ok = 41,    // C→N: central's time, keys, revocations
  lease_ask = 42,    // N→C, before a report: the node's host wants to lead its groups, or to go on
  lease_told = 43,   // C→N, before the report's answer; a central that knows no leases skips the question
  ranks_ask = 44,  // N→C, before a report: the way to a node on which a group of this host has ranks, or whose groups
                   // this host's scheduler decides on
  ranks_told = 45,  // C→N, before the report's answer: as `located`, or code and detail
  ranks_open = 46,  // L→N→N→L: a stream to a rank of a group; back: it is there
  ranks_data = 47,  // both ways, once that is open: payload = bytes of the stream
  gears_open = 48,  // L→N→N: a scheduler wants to ask the gear roles of that host; back: it may
  gears_data = 49,  // both ways, once that is open: a question, under the id that its answer has as well
  control = 60,     // L→N, L→C on a unix socket: {"command": ...}
  control_answer = 61,
};

inline constexpr std::uint8_t kInlinePayload = 0x01;  // submit: payload is the whole upload
inline constexpr std::uint8_t kLastPart = 0x02;       // result, result_data: nothing follows

struct FrameHeader {
  FrameType type{};
  std::uint8_t flags = 0;
  std::uint8_t priority = 0;  // 0 normal; higher is sooner
  std::uint32_t json_bytes = 0;
  std::uint32_t payload_bytes = 0;
  RequestId request;  // nil: about the connection
  std::uint32_t attempt = 0;
  std::uint32_t part = 0;                    // number of a stream's part
  std::uint32_t remaining_ms = kNoDeadline;  // time left, a duration: clocks are never compared
  std::uint32_t tenant = 0;
  std::uint32_t epoch = 0;   // of a worker group's plan
  std::uint64_t offset = 0;  // into the upload or the result
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
HeaderBytes encode(const FrameHeader& header);

/// Reads a header from exactly kHeaderBytes; an unknown type is returned as it is (the caller skips the frame).
/// Errors: short_frame; frame_too_large when a length is over its limit (end the connection).
Outcome<FrameHeader> parse_header(ByteView bytes);

/// A frame with its bytes, for the cold path; hot payloads are read straight to where they belong.
struct Frame {
  FrameHeader header;
  std::string json;
  Bytes payload;
};

}  // namespace gearbox::wire
