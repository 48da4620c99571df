#include "gearbox/wire/frame.hpp"

namespace gearbox::wire {

// 0 type · 1 flags · 2 priority · 3 zero · 4 json_bytes · 8 payload_bytes · 12 request (16) · 28 attempt · 32 part ·
// 36 remaining_ms · 40 tenant · 44 epoch · 48 offset (8) · 56 zero (8)

HeaderBytes encode(const FrameHeader& header) {
  HeaderBytes out{};
  out[0] = static_cast<std::byte>(header.type);
  out[1] = static_cast<std::byte>(header.flags);
  out[2] = static_cast<std::byte>(header.priority);
  store_le(&out[4], header.json_bytes);
  store_le(&out[8], header.payload_bytes);
  std::memcpy(&out[12], header.request.bytes.data(), 16);
  store_le(&out[28], header.attempt);
  store_le(&out[32], header.part);
  store_le(&out[36], header.remaining_ms);
  store_le(&out[40], header.tenant);
  store_le(&out[44], header.epoch);
  store_le(&out[48], header.offset);
  return out;
}

Outcome<FrameHeader> parse_header(ByteView bytes) {
  if (bytes.size() < kHeaderBytes) return Error{Errc::short_frame, {}};
  FrameHeader header;
  header.type = static_cast<FrameType>(bytes[0]);
  header.flags = std::to_integer<std::uint8_t>(bytes[1]);
  header.priority = std::to_integer<std::uint8_t>(bytes[2]);
  header.json_bytes = load_le<std::uint32_t>(&bytes[4]);
  header.payload_bytes = load_le<std::uint32_t>(&bytes[8]);
  std::memcpy(header.request.bytes.data(), &bytes[12], 16);
  header.attempt = load_le<std::uint32_t>(&bytes[28]);
  header.part = load_le<std::uint32_t>(&bytes[32]);
  header.remaining_ms = load_le<std::uint32_t>(&bytes[36]);
  header.tenant = load_le<std::uint32_t>(&bytes[40]);
  header.epoch = load_le<std::uint32_t>(&bytes[44]);
  header.offset = load_le<std::uint64_t>(&bytes[48]);
  if (header.json_bytes > kMaxJsonBytes || header.payload_bytes > kMaxPayloadBytes) {
    return Error{Errc::frame_too_large, "JSON of " + std::to_string(header.json_bytes) + " and payload of " +
                                            std::to_string(header.payload_bytes) +
                                            " bytes; limits are 65536 and 1048576"};
  }
  return header;
}

}  // namespace gearbox::wire
