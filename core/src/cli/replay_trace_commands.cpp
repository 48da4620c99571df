// replay convert and replay calibration: recordings in our own format; how far the price model is off.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "cli/json_facts.hpp"
#include "cli/replay_commands.hpp"
#include "cli/table.hpp"
#include "replay/calibration.hpp"
#include "replay/trace.hpp"

namespace gearbox::cli {

namespace {

Outcome<void> convert(const std::string& from, const std::string& to) {
  BOOST_OUTCOME_TRY(const replay::Trace trace, replay::read_trace(from));
  const std::string text = replay::text_of(trace);
  if (to.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return done();
  }
  std::ofstream out(to, std::ios::binary);
  out << text;
  out.close();
  if (!out) return Error{Errc::io_error, to + " cannot be written"};
  std::printf("%s: %zu requests in %.0f s, from a %s\n", to.c_str(), trace.arrivals.size(), trace.span_s(),
              trace.origin.c_str());
  return done();
}

void show_calibration(CliContext& context) {
  const auto points = replay::calibration();
  if (context.json) {
    boost::json::array all;
    for (const replay::CalibrationPoint& point : points) {
      all.push_back(boost::json::object{{"what", point.what},
                                        {"published_ms", point.published_ms},
                                        {"simulated_ms", point.simulated_ms},
                                        {"error", point.error()}});
    }
    return print_json(boost::json::object{{"error", replay::calibration_error(points)}, {"points", std::move(all)}});
  }
  Table table({"7B model on one A100", ">published", ">simulated", ">error"});
  for (const replay::CalibrationPoint& point : points) {
    char published[32], simulated[32], error[32];
    std::snprintf(published, sizeof published, "%.1f", point.published_ms);
    std::snprintf(simulated, sizeof simulated, "%.1f", point.simulated_ms);
    std::snprintf(error, sizeof error, "%+.1f %%", 100 * point.error());
    table.add({point.what, published, simulated, error});
  }
  std::printf("%smean error %.1f %%\n", table.text(colour_wanted()).c_str(), 100 * replay::calibration_error(points));
}

}  // namespace

void add_replay_trace_commands(CLI::App& replay, CliContext& context) {
  CLI::App* command = add_command(replay, context, "convert", "write a public trace in the broker's own format",
                                  "broker replay convert AzureLLMInferenceTrace_conv.csv --out conv.trace", false);
  struct Files {
    std::string from, to;
  };
  const auto files = std::make_shared<Files>();
  command->add_option("FILE", files->from, "the trace")->required();
  command->add_option("--out", files->to, "where to (default: stdout)")->type_name("FILE");
  command->callback([&context, files] {
    const Outcome<void> ran = convert(files->from, files->to);
    if (!ran) fail(context, ran.error());
  });
  add_command(replay, context, "calibration", "published measurements beside what the simulator says of the same",
              "broker replay calibration", true)
      ->callback([&context] { show_calibration(context); });
}

}  // namespace gearbox::cli
