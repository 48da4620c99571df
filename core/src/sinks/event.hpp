// event.hpp: what sinks hear of a request that is over, and the JSON text that it becomes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/sink.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::sinks {

/// Outputs up to this size are in the event with their values; together at most kValuesBytes, the first ones.
inline constexpr std::uint64_t kValueBytes = 4096;
inline constexpr std::uint64_t kValuesBytes = 64 * 1024;

struct Event {
  RequestKey key;
  std::string user, task;
  std::uint32_t tenant = 0;
  std::optional<Error> error;  // of a failed one
  std::int64_t accepted_unix_ms = 0, finished_unix_ms = 0;
  std::uint64_t input_bytes = 0;
  wire::ResultMessage result;
  std::vector<std::pair<std::size_t, Bytes>> values;  // of small outputs: index in result.tensors, payload
};

/// "done" or "failed".
std::string_view state_of(const Event& event);

/// One JSON object on one line; see plugin::EventView for its members.
std::string to_json(const Event& event, std::string_view node, std::string_view stored_in);

/// An event's JSON text taken apart, for a plugin. Owns what the view points to; not movable for that.
class ParsedEvent {
 public:
  explicit ParsedEvent(std::string json);
  ParsedEvent(const ParsedEvent&) = delete;
  ParsedEvent& operator=(const ParsedEvent&) = delete;
  /// Members that the text does not have are empty.
  const plugin::EventView& view() const { return view_; }

 private:
  std::string json_, key_, state_, node_, device_, request_, user_, task_, error_, result_, stored_in_;
  plugin::EventView view_;
};

}  // namespace gearbox::sinks
