#include "gearbox/base/text.hpp"
#include "gearbox/link/upload.hpp"
#include "link/invariant.hpp"

namespace gearbox::link {

namespace {

constexpr std::size_t kMaxCodecs = 8;
constexpr std::size_t kDigestDigits = 32;

Outcome<void> check_input(const wire::InputSpec& input) {
  BOOST_OUTCOME_TRY(wire::check(input.tensor));
  if (input.codecs.size() > kMaxCodecs) {
    return Error{Errc::bad_input, "input '" + input.tensor.name + "' has a chain of more than 8 codecs"};
  }
  for (const std::string& codec : input.codecs) {
    BOOST_OUTCOME_TRY(check_name("codec", codec));
  }
  if (input.codecs.empty() && input.wire_bytes != input.tensor.bytes) {
    return Error{Errc::bad_input, "input '" + input.tensor.name + "' is stored, but announces " +
                                      std::to_string(input.wire_bytes) + " bytes for a tensor of " +
                                      std::to_string(input.tensor.bytes)};
  }
  return gearbox::done();
}

Error too_large(std::uint64_t limit_bytes) {
  return Error{Errc::too_large, "the upload is over the limit of " + std::to_string(limit_bytes) + " bytes"};
}

/// Adds `bytes` to `sum`; false past `limit`, without wrapping.
bool add_within(std::uint64_t& sum, std::uint64_t bytes, std::uint64_t limit) {
  if (bytes > limit || sum > limit - bytes) return false;
  sum += bytes;
  return true;
}

bool is_step(UploadState from, UploadState next) {
  using enum UploadState;
  switch (from) {
    case normal:
      return next == announced || next == failed;
    case announced:
      return next == receiving || next == verifying || next == failed;
    case receiving:
      return next == verifying || next == failed;
    case verifying:
      return next == accepted || next == failed;
    case accepted:
      return next == running || next == failed;
    case running:
      return next == UploadState::done || next == failed;
    case UploadState::done:
    case failed:
      return false;
  }
  return false;
}

}  // namespace

std::string_view name_of(UploadState state) {
  switch (state) {
    case UploadState::normal:
      return "normal";
    case UploadState::announced:
      return "announced";
    case UploadState::receiving:
      return "receiving";
    case UploadState::verifying:
      return "verifying";
    case UploadState::accepted:
      return "accepted";
    case UploadState::running:
      return "running";
    case UploadState::done:
      return "done";
    case UploadState::failed:
      return "failed";
  }
  return "unknown";
}

Outcome<UploadReceiver> UploadReceiver::announce(wire::Submit submit, std::uint64_t limit_bytes) {
  if (!submit.task.empty() || submit.steps.empty()) {
    BOOST_OUTCOME_TRY(check_name("task", submit.task));
  }
  if (submit.inputs.empty()) return Error{Errc::bad_input, "no input is announced"};
  if (submit.inputs.size() > wire::kMaxInputs) {
    return Error{Errc::bad_input, "more than " + std::to_string(wire::kMaxInputs) + " inputs are announced"};
  }
  std::array<std::byte, kDigestDigits / 2> digest{};
  if (!from_hex(submit.digest, digest)) return Error{Errc::bad_input, "the digest is not 32 hexadecimal digits"};
  std::uint64_t wire_bytes = 0;
  std::uint64_t plain_bytes = 0;
  for (std::size_t i = 0; i < submit.inputs.size(); ++i) {
    const wire::InputSpec& input = submit.inputs[i];
    // The sizes first: an absurd one is "too large", whatever else is wrong with it.
    if (!add_within(wire_bytes, input.wire_bytes, limit_bytes) ||
        !add_within(plain_bytes, input.tensor.bytes, limit_bytes)) {
      return too_large(limit_bytes);
    }
    BOOST_OUTCOME_TRY(check_input(input));
    for (std::size_t k = 0; k < i; ++k) {
      if (submit.inputs[k].tensor.name == input.tensor.name) {
        return Error{Errc::bad_input, "two inputs are called '" + input.tensor.name + "'"};
      }
    }
  }
  if (wire_bytes != submit.wire_bytes) {
    return Error{Errc::bad_input, "wire_bytes says " + std::to_string(submit.wire_bytes) + ", the inputs add up to " +
                                      std::to_string(wire_bytes)};
  }
  UploadReceiver receiver(std::move(submit));
  receiver.state_ = UploadState::announced;
  receiver.skip_finished_inputs();
  return receiver;
}

Outcome<UploadReceiver> UploadReceiver::received_before(wire::Submit submit, std::uint64_t limit_bytes) {
  BOOST_OUTCOME_TRY(auto receiver, announce(std::move(submit), limit_bytes));
  receiver.offset_ = receiver.submit_.wire_bytes;
  receiver.input_ = receiver.submit_.inputs.size();
  receiver.to(UploadState::verifying);
  return receiver;
}

void UploadReceiver::skip_finished_inputs() {
  while (input_ < submit_.inputs.size() && offset_ - input_start_ == submit_.inputs[input_].wire_bytes) {
    input_start_ = offset_;
    ++input_;
  }
}

UploadReceiver::Place UploadReceiver::place() const {
  Place place;
  place.input = input_;
  if (input_ < submit_.inputs.size()) {
    place.offset_in_input = offset_ - input_start_;
    place.left_in_input = submit_.inputs[input_].wire_bytes - place.offset_in_input;
  }
  return place;
}

Outcome<void> UploadReceiver::received(std::uint64_t offset, ByteView bytes) {
  if (state_ != UploadState::announced && state_ != UploadState::receiving) {
    return Error{Errc::bad_frame, "no bytes are expected: the upload is " + std::string(name_of(state_))};
  }
  if (offset != offset_) {
    return Error{Errc::bad_frame,
                 "a chunk for offset " + std::to_string(offset) + ", the upload is at " + std::to_string(offset_)};
  }
  if (bytes.empty()) return Error{Errc::bad_frame, "an empty chunk"};
  if (bytes.size() > place().left_in_input) {
    return Error{Errc::bad_frame, "a chunk of " + std::to_string(bytes.size()) + " bytes where " +
                                      std::to_string(place().left_in_input) + " are left of the input"};
  }
  state_ = UploadState::receiving;
  digest_.update(bytes);
  offset_ += bytes.size();
  skip_finished_inputs();
  return gearbox::done();
}

Outcome<void> UploadReceiver::verify() {
  if (!complete()) broken_invariant("an upload is verified before it is complete");
  to(UploadState::verifying);
  const std::string found = digest_.hex();
  std::array<std::byte, kDigestDigits / 2> announced{};
  const bool same = from_hex(submit_.digest, announced) && to_hex(announced) == found;  // either case of digits is fine
  if (same) return gearbox::done();
  to(UploadState::failed);
  return Error{Errc::digest_mismatch,
               "the bytes that arrived have digest " + found + ", announced was " + submit_.digest};
}

bool UploadReceiver::matches(const wire::Submit& again) const {
  return wire::to_json(submit_) == wire::to_json(again);
}

void UploadReceiver::to(UploadState next) {
  if (!is_step(state_, next)) broken_invariant("an upload takes a step that its states do not have");
  state_ = next;
}

}  // namespace gearbox::link
