#include "cli/local_parts.hpp"

#include <string>
#include <utility>

#include "cli/local_request.hpp"

namespace gearbox::cli {

namespace {

/// Errors: bad_frame, result_too_large.
Outcome<wire::PartMessage> announced_by(const wire::Frame& frame) {
  BOOST_OUTCOME_TRY(wire::PartMessage message, wire::parse<wire::PartMessage>(frame.json));
  std::uint64_t sum = 0;
  for (const wire::TensorSpec& spec : message.tensors) {
    BOOST_OUTCOME_TRY(wire::check(spec));
    if (__builtin_add_overflow(sum, spec.bytes, &sum)) return Error{Errc::bad_frame, "a part of over 2^64 bytes"};
  }
  if (sum != message.bytes) return Error{Errc::bad_frame, "a part announces other bytes than its tensors have"};
  if (sum > kMaxResultBytes) return Error{Errc::result_too_large, "a part of " + std::to_string(sum) + " bytes"};
  return message;
}

}  // namespace

Outcome<std::optional<LocalPart>> PartReader::take(const wire::Frame& frame) {
  const wire::FrameHeader& header = frame.header;
  if (header.part != next_) {
    return Error{Errc::bad_frame, "part " + std::to_string(header.part) + ", expected " + std::to_string(next_)};
  }
  if (header.offset == 0) {
    BOOST_OUTCOME_TRY(wire::PartMessage message, announced_by(frame));
    half_.emplace();
    half_->number = header.part;
    half_->tensors = std::move(message.tensors);
    announced_ = message.bytes;
  } else if (!half_ || header.offset != half_->payload.size()) {
    return Error{Errc::bad_frame, "bytes of a part at " + std::to_string(header.offset) + ", out of order"};
  }
  if (frame.payload.size() > announced_ - half_->payload.size()) {
    return Error{Errc::bad_frame, "more bytes than the part announced"};
  }
  // Grows with what arrives: the announced size alone reserves nothing.
  half_->payload.insert(half_->payload.end(), frame.payload.begin(), frame.payload.end());
  const bool whole = half_->payload.size() == announced_;
  if (whole != ((header.flags & wire::kLastPart) != 0)) {
    return Error{Errc::bad_frame, "a part ends elsewhere than its bytes do"};
  }
  if (!whole) return std::optional<LocalPart>();
  ++next_;
  return std::exchange(half_, std::nullopt);
}

}  // namespace gearbox::cli
