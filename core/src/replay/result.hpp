// result.hpp: what one run gave.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gearbox/gears/six_gears.hpp"
#include "replay/event_queue.hpp"
#include "replay/histogram.hpp"
#include "replay/request.hpp"

namespace gearbox::replay {

struct ShiftDone {
  Nanos at = 0;  // of the decision
  std::uint32_t group = 0;
  std::uint8_t from = 0, to = 0;
  bool urgent = false;
  std::string rule;
  double pause_s = 0;            // in which the group gave no token
  double paused_requests_s = 0;  // that pause × requests in flight there
};

struct GearSpan {
  std::uint32_t group = 0;
  Nanos from = 0, until = 0;
  std::uint8_t gear = 0;  // 0: down
};

struct LoadPoint {
  Nanos at = 0;
  double arrivals_per_s = 0, ended_per_s = 0;
  std::uint32_t waiting = 0, running = 0;
};

struct Slo {
  double first_token_s = 2;
  double per_token_s = 0.1;
};

struct Result {
  Histogram latency, first_token, per_token;  // per_token: after the first one, of requests with several
  std::uint64_t arrived = 0, done = 0, unfinished = 0;
  std::uint64_t refused = 0;  // no group could ever hold it
  std::uint64_t retried = 0;  // begun anew after a failure
  std::uint64_t recomputed = 0;
  std::uint64_t good = 0;  // within the SLO
  std::uint64_t output_tokens = 0, input_tokens = 0;
  double span_s = 0;       // from the first arrival to the last end
  double busy_share = 0;   // of all cards' time
  double in_system_s = 0;  // requests × seconds, from counting who is there
  std::uint64_t request_steps = 0;
  std::uint64_t events = 0;
  bool all_returned = true;                        // no room of any cache is reserved at the end
  std::array<double, gears::kGears + 1> gear_s{};  // group-seconds in each gear; [0]: down
  std::vector<ShiftDone> shifts;
  std::vector<GearSpan> gears;
  std::vector<LoadPoint> load;
  std::map<std::string, std::uint64_t> held_back;  // decisions, by the governor's rule
  std::string policy_fault;                        // the first one
  std::vector<Ended> ended;                        // when asked for, in the order of ending
  std::vector<std::string> groups;                 // their names
  double host_s = 0;                               // that the simulation took, of the host's processor
};

}  // namespace gearbox::replay
