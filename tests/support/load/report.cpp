#include "gearbox/base/text.hpp"
#include "load.hpp"
#include "tensor_text.hpp"

namespace gearbox::load {

std::string to_json(const Tally& tally) {
  std::uint64_t failed = 0;
  std::string reasons;
  for (const auto& [reason, times] : tally.failures) {
    failed += times;
    if (!reasons.empty()) reasons += ", ";
    client::append_json_string(reasons, escaped(reason, 500));
    reasons += ": " + std::to_string(times);
  }
  failed -= tally.wrong;  // told apart
  std::string line = "{\"requests\": " + std::to_string(tally.requests) + ", \"failed\": " + std::to_string(failed) +
                     ", \"wrong\": " + std::to_string(tally.wrong) + ", \"reasons\": {" + reasons + "}, \"samples\": [";
  for (std::size_t i = 0; i < tally.samples.size(); ++i) {
    const Sample& sample = tally.samples[i];
    line += (i == 0 ? "[" : ", [") + std::to_string(sample.start_us) + ", " + std::to_string(sample.took_us) + ", \"" +
            sample.sort + "\", " + std::to_string(sample.node_us) + ", " + std::to_string(sample.ran_us) + "]";
  }
  return line + "]}";
}

}  // namespace gearbox::load
