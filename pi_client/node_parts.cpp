// Parts of streamed answers, as they come over one connection.
#include "node_connection.hpp"

namespace gearbox::client {

namespace {
/// A node sends no more than this ahead of what was acknowledged; one that does is confused.
constexpr std::size_t kMostAhead = 1024;
constexpr std::uint64_t kMostBytesAhead = 64ULL << 20;  // several parts together
}  // namespace

Outcome<void> take_part(Inbox& inbox, const wire::Frame& frame) {
  const wire::FrameHeader& header = frame.header;
  if (header.part < inbox.next_part) return done();  // known from an earlier connection
  if (inbox.whole || header.part != inbox.next_part) {
    return Error{Errc::bad_frame,
                 "part " + std::to_string(header.part) + ", expected " + std::to_string(inbox.next_part)};
  }
  if (header.offset == 0) {
    BOOST_OUTCOME_TRY(wire::PartMessage message, wire::parse<wire::PartMessage>(frame.json));
    std::uint64_t sum = 0;
    for (const wire::TensorSpec& spec : message.tensors) {
      BOOST_OUTCOME_TRY(wire::check(spec));
      if (__builtin_add_overflow(sum, spec.bytes, &sum)) return Error{Errc::bad_frame, "a part of over 2^64 bytes"};
    }
    if (sum != message.bytes) return Error{Errc::bad_frame, "a part announces other bytes than its tensors have"};
    if (sum > kMaxResultBytes) {
      return Error{Errc::result_too_large,
                   "a part of " + std::to_string(sum) + " bytes; this client takes " + std::to_string(kMaxResultBytes)};
    }
    inbox.half.emplace();
    inbox.half->number = header.part;
    inbox.half->tensors = std::move(message.tensors);
    inbox.half->bytes = message.bytes;
  } else if (!inbox.half || header.offset != inbox.half->payload.size()) {
    return Error{Errc::bad_frame, "bytes of a part at " + std::to_string(header.offset) + ", out of order"};
  }
  Part& part = *inbox.half;
  if (frame.payload.size() > part.bytes - part.payload.size()) {
    return Error{Errc::bad_frame, "more bytes than the part announced"};
  }
  // Grows with what arrives: the announced size alone reserves nothing.
  part.payload.insert(part.payload.end(), frame.payload.begin(), frame.payload.end());
  const bool whole = part.payload.size() == part.bytes;
  if (whole != ((header.flags & wire::kLastPart) != 0)) {
    return Error{Errc::bad_frame, "a part ends elsewhere than its bytes do"};
  }
  if (!whole) return done();
  std::uint64_t waiting = part.bytes;
  for (const Part& other : inbox.parts) waiting += other.bytes;
  if (!inbox.parts.empty() && (inbox.parts.size() >= kMostAhead || waiting > kMostBytesAhead)) {
    return Error{Errc::bad_frame, "the node sends parts without waiting for their acknowledgement"};
  }
  inbox.parts.push_back(std::move(part));
  inbox.half.reset();
  ++inbox.next_part;
  return done();
}

}  // namespace gearbox::client
