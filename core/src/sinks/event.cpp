#include "sinks/event.hpp"

#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::sinks {

namespace json = boost::json;

namespace {

std::string utf8_of(std::string_view text) {
  return is_utf8(text) ? std::string(text) : escaped(text, text.size() * 4);
}

/// JSON has no word for infinities and what is no number.
json::value number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const double fraction = (bits & 0x3FF) / 1024.0;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(fraction, -14);
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(1.0 + fraction, exponent - 15);
}

json::value element(wire::DType type, const std::byte* at) {
  switch (type) {
    case wire::DType::boolean:
      return *at != std::byte{0};
    case wire::DType::uint8:
      return std::to_integer<std::uint64_t>(*at);
    case wire::DType::uint16:
      return std::uint64_t{load_le<std::uint16_t>(at)};
    case wire::DType::uint32:
      return std::uint64_t{load_le<std::uint32_t>(at)};
    case wire::DType::uint64:
      return load_le<std::uint64_t>(at);
    case wire::DType::int8:
      return std::int64_t{static_cast<std::int8_t>(std::to_integer<std::uint8_t>(*at))};
    case wire::DType::int16:
      return std::int64_t{static_cast<std::int16_t>(load_le<std::uint16_t>(at))};
    case wire::DType::int32:
      return std::int64_t{static_cast<std::int32_t>(load_le<std::uint32_t>(at))};
    case wire::DType::int64:
      return static_cast<std::int64_t>(load_le<std::uint64_t>(at));
    case wire::DType::fp16:
      return number(from_half(load_le<std::uint16_t>(at)));
    case wire::DType::fp32:
      return number(double{std::bit_cast<float>(load_le<std::uint32_t>(at))});
    case wire::DType::fp64:
      return number(std::bit_cast<double>(load_le<std::uint64_t>(at)));
    case wire::DType::bytes:
      break;
  }
  return nullptr;
}

/// Row-major, in one list. BYTES: each element as a text.
json::array values_of(wire::DType type, ByteView bytes) {
  json::array values;
  if (type == wire::DType::bytes) {
    while (bytes.size() >= 4) {
      const std::size_t length = std::min<std::size_t>(load_le<std::uint32_t>(bytes.data()), bytes.size() - 4);
      values.emplace_back(utf8_of(text_of(bytes.subspan(4, length))));
      bytes = bytes.subspan(4 + length);
    }
    return values;
  }
  const std::size_t step = wire::element_bytes(type);
  for (; step > 0 && bytes.size() >= step; bytes = bytes.subspan(step)) values.push_back(element(type, bytes.data()));
  return values;
}

json::object result_of(const Event& event) {
  boost::system::error_code failure;
  const json::value parsed = json::parse(wire::to_json(event.result), failure);
  if (failure || !parsed.is_object()) return {};
  json::object result = parsed.get_object();
  json::value* const tensors = result.if_contains("tensors");
  for (const auto& [index, bytes] : event.values) {
    if (tensors == nullptr || !tensors->is_array() || index >= tensors->get_array().size()) break;
    json::value& tensor = tensors->get_array()[index];
    if (tensor.is_object()) tensor.get_object()["values"] = values_of(event.result.tensors[index].dtype, bytes);
  }
  return result;
}

std::string text_in(const json::object& object, std::string_view key) {
  const json::value* const found = object.if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
}

template <class Number>
Number number_in(const json::object& object, std::string_view key) {
  const json::value* const found = object.if_contains(key);
  if (found == nullptr) return 0;
  if (found->is_int64()) return static_cast<Number>(found->get_int64());
  if (found->is_uint64()) return static_cast<Number>(found->get_uint64());
  return 0;
}

}  // namespace

std::string_view state_of(const Event& event) {
  return event.error ? "failed" : "done";
}

std::string to_json(const Event& event, std::string_view node, std::string_view stored_in) {
  const std::string device = to_text(event.key.device);
  const std::string request = to_text(event.key.id);
  const std::string_view state = state_of(event);
  json::object all;
  all["key"] = device + "/" + request + "/" + std::string(state);
  all["state"] = state;
  all["node"] = node;
  all["device"] = device;
  all["request"] = request;
  all["user"] = utf8_of(event.user);
  all["tenant"] = event.tenant;
  all["task"] = utf8_of(event.task);
  all["accepted_unix_ms"] = event.accepted_unix_ms;
  all["finished_unix_ms"] = event.finished_unix_ms;
  all["error"] = event.error ? utf8_of(describe(*event.error)) : std::string();
  all["input_bytes"] = event.input_bytes;
  all["output_bytes"] = event.result.bytes;
  all["result"] = result_of(event);
  all["stored_in"] = utf8_of(stored_in);
  return json::serialize(all);
}

ParsedEvent::ParsedEvent(std::string text) : json_(std::move(text)) {
  boost::system::error_code failure;
  const json::value parsed = json::parse(json_, failure);
  const json::object all = !failure && parsed.is_object() ? parsed.get_object() : json::object();
  key_ = text_in(all, "key");
  state_ = text_in(all, "state");
  node_ = text_in(all, "node");
  device_ = text_in(all, "device");
  request_ = text_in(all, "request");
  user_ = text_in(all, "user");
  task_ = text_in(all, "task");
  error_ = text_in(all, "error");
  stored_in_ = text_in(all, "stored_in");
  const json::value* const result = all.if_contains("result");
  result_ = result == nullptr ? std::string("{}") : json::serialize(*result);
  view_.key = key_;
  view_.state = state_;
  view_.node = node_;
  view_.device = device_;
  view_.request = request_;
  view_.user = user_;
  view_.task = task_;
  view_.tenant = number_in<std::uint32_t>(all, "tenant");
  view_.accepted_unix_ms = number_in<std::int64_t>(all, "accepted_unix_ms");
  view_.finished_unix_ms = number_in<std::int64_t>(all, "finished_unix_ms");
  view_.error = error_;
  view_.input_bytes = number_in<std::uint64_t>(all, "input_bytes");
  view_.output_bytes = number_in<std::uint64_t>(all, "output_bytes");
  view_.result_json = result_;
  view_.stored_in = stored_in_;
  view_.json = json_;
}

}  // namespace gearbox::sinks
