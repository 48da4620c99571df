// gate_answer.hpp: what the gate's child process says, in lines of JSON (written by cli/replay_gate_command.cpp):
//   {"replays":"against"}                    it is about to do so; then the same with "candidate"
//   {"error":"...","side":"candidate"}       that one failed; "setting": the replay cannot be made, whatever is judged
//   {"passes":false,"requests":120,"tolerance_percent":5,"figures":[{"figure":"p99_s","against":0.2,"candidate":3.4,
//    "worse":true}],"parts":[{"side":"candidate","kind":"balancer","name":"x","checksum":"..."}]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plugin_host/swap_gate.hpp"

namespace gearbox::plugin_host {

struct GateAnswer {
  std::string replays;  // the side that was under way last
  std::string setting_fault, candidate_fault;
  bool whole = false;  // the last line is there
  bool passes = false;
  std::uint64_t requests = 0;
  std::string worst;  // "p99_s 0.2 -> 3.4 (+1600 %; 5 % are tolerated)"
  struct Part {
    std::string side, kind, name, checksum;
  };
  std::vector<Part> parts;

  bool took_part(std::string_view side, const SwapPart& build) const;
  /// "while the candidate was replayed: "
  std::string while_text() const;
};

/// Lines that are none of these are passed over. Texts are escaped.
GateAnswer read_gate_answer(std::string_view output);

/// Lines of a recording that are requests; 0 when it cannot be read.
std::uint64_t requests_in(const std::filesystem::path& recording);

}  // namespace gearbox::plugin_host
