// trace.hpp: recorded or made traffic: when what came, and how large it was. The format is told in docs/replay.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "replay/request.hpp"

namespace gearbox::replay {

struct Trace {
  std::string name;
  std::string origin;                       // which format it was read from
  std::vector<std::string> models = {""};   // Arrival::model is an index; "" is the run's first
  std::vector<std::string> tenants = {""};  // Arrival::tenant is an index
  std::vector<Arrival> arrivals;            // sorted by time; the first one is at 0
  std::uint64_t left_out = 0;               // lines without any token

  double span_s() const { return arrivals.empty() ? 0 : in_seconds(arrivals.back().at - arrivals.front().at); }
};

inline constexpr std::size_t kMostTraceBytes = std::size_t{1} << 30;
inline constexpr std::uint32_t kMostTokens = 1 << 24;

/// Which of the formats it is, the first line tells: our own, the Azure LLM inference traces (CSV: TIMESTAMP,
/// ContextTokens, GeneratedTokens), the Mooncake traces (JSONL: timestamp in ms, input_length, output_length).
/// Errors: not_found, too_large, io_error; bad_input with file and line.
Outcome<Trace> read_trace(const std::filesystem::path& file);
Outcome<Trace> parse_trace(std::string_view text, const std::string& name);

/// In our own format.
std::string text_of(const Trace& trace);

}  // namespace gearbox::replay
