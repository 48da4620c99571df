// replay run: traffic, a cluster and a model through the simulator, under each policy that is asked for.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/replay_commands.hpp"
#include "cli/replay_options.hpp"
#include "cli/replay_page.hpp"
#include "cli/replay_plugins.hpp"
#include "gearbox/base/text.hpp"
#include "replay/hindsight.hpp"
#include "replay/report.hpp"

namespace gearbox::cli {

namespace {

struct RunAsked {
  ReplayTraffic traffic;
  std::vector<std::string> policies;
  std::vector<unsigned> gears;
  bool saturation = false;
  std::string json, html, requests;
};

/// One line of stderr, where that is a terminal.
void show_progress(std::size_t over, std::size_t all) {
  if (::isatty(2) != 1) return;
  constexpr std::size_t kWidth = 30;
  const std::size_t full = all == 0 ? kWidth : kWidth * over / all;
  const std::string bar = std::string(full, '#') + std::string(kWidth - full, '.');
  std::fprintf(stderr, "\r[%s] %zu of %zu runs%s", bar.c_str(), over, all, over == all ? "\r\033[K" : "");
  std::fflush(stderr);
}

Outcome<std::vector<replay::Contender>> contenders_of(const RunAsked& asked, const replay::Experiment& experiment,
                                                      const replay::PluginMakers& makers) {
  std::vector<replay::Contender> all;
  for (const std::string& name : asked.policies) {
    replay::Contender contender;
    if (name == "best-gear") {
      BOOST_OUTCOME_TRY(contender, replay::best_gear(experiment, makers));
    } else if (name == "best-layout") {
      BOOST_OUTCOME_TRY(contender, replay::best_layout(experiment, makers));
    } else if (name != "clairvoyant") {
      BOOST_OUTCOME_TRY(makers.policy(name));  // before anything runs
      contender.name = contender.policy = name;
    } else {
      continue;
    }
    all.push_back(std::move(contender));
  }
  for (const unsigned gear : asked.gears) {
    replay::Contender contender;
    contender.name = "gear " + std::to_string(gear);
    contender.gears.assign(experiment.cluster.sets.size(), static_cast<std::uint8_t>(gear));
    all.push_back(std::move(contender));
  }
  return all;
}

Outcome<void> write(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) return Error{Errc::io_error, file + " cannot be written"};
  return done();
}

/// One line for each request of a run, in the order of arrival; the columns are those of a node's recording.
std::string lines_of(std::vector<replay::Ended> ended) {
  std::sort(ended.begin(), ended.end(),
            [](const replay::Ended& a, const replay::Ended& b) { return a.number < b.number; });
  std::string text = "number,at_us,first_us,latency_us\n";
  for (const replay::Ended& each : ended) {
    char line[128];
    std::snprintf(line, sizeof line, "%llu,%.0f,%.0f,%.0f\n", static_cast<unsigned long long>(each.number),
                  1e6 * replay::in_seconds(each.arrived), 1e6 * each.first_token_s, 1e6 * each.latency_s);
    text += line;
  }
  return text;
}

Outcome<void> run(CliContext& context, RunAsked& asked) {
  BOOST_OUTCOME_TRY(ReplaySetting setting, replay_setting_of(context));
  BOOST_OUTCOME_TRY(replay::Experiment experiment, experiment_of(asked.traffic, setting));
  experiment.saturation = asked.saturation;
  BOOST_OUTCOME_TRY(const auto plugins, ReplayPlugins::open(setting.plugins));
  const replay::PluginMakers makers = plugins->makers();
  BOOST_OUTCOME_TRY(makers.balancer(experiment.balancer));
  BOOST_OUTCOME_TRY(replay::settle_rate(experiment, makers));
  if (asked.policies.empty() && asked.gears.empty()) asked.policies = {setting.gears.policy};
  BOOST_OUTCOME_TRY(const std::vector<replay::Contender> contenders, contenders_of(asked, experiment, makers));
  BOOST_OUTCOME_TRY(const std::vector<replay::Scored> all,
                    replay::compare(experiment, contenders, makers, show_progress));
  std::optional<replay::Clairvoyant> bound;
  if (std::count(asked.policies.begin(), asked.policies.end(), "clairvoyant") > 0) {
    BOOST_OUTCOME_TRY(bound, replay::clairvoyant(experiment, makers, experiment.first_seed));
  }
  const replay::Report report{experiment, all, bound, asked.traffic.trace};
  if (asked.json != "-") {
    const std::string page = replay_page(all, colour_wanted());
    std::printf("%s\n%s", replay::headline_of(report).c_str(), page.c_str());
    if (bound) {
      std::printf("\nclairvoyant: mean %s, p99 %s (best of %zu fixed layouts in each window of 20 s, changes free)\n",
                  seconds_text(bound->mean_s).c_str(), seconds_text(bound->p99_s).c_str(), bound->layouts);
    }
  }
  for (const replay::Scored& scored : all) {
    if (!scored.first.policy_fault.empty())
      std::fprintf(stderr, "broker: %s: %s\n", scored.contender.name.c_str(),
                   escaped(scored.first.policy_fault).c_str());
  }
  if (asked.json == "-") std::printf("%s\n", replay::json_of(report).c_str());
  if (!asked.json.empty() && asked.json != "-") {
    BOOST_OUTCOME_TRY(write(asked.json, replay::json_of(report) + "\n"));
  }
  if (!asked.html.empty()) {
    BOOST_OUTCOME_TRY(write(asked.html, replay::html_of(report)));
  }
  if (!asked.requests.empty()) {
    if (contenders.empty()) return Error{Errc::bad_input, "--requests needs a contender"};
    BOOST_OUTCOME_TRY(replay::Result once,
                      replay::run_once(experiment, contenders.front(), makers, experiment.first_seed, false, true));
    BOOST_OUTCOME_TRY(write(asked.requests, lines_of(std::move(once.ended))));
  }
  return done();
}

constexpr const char* kRunFooter =
    "\nDESCRIPTION\n"
    "  Each contender meets the same requests on the same simulated cluster: a policy plugin with the governor,\n"
    "  or fixed gears. Nothing live is asked or touched. Balancer and policies are the plugin files that a broker\n"
    "  would load, with the options and [gears] rules of --config where that is given.\n\n"
    "TRAFFIC (--trace)\n"
    "  FILE            a recording, or an Azure LLM inference (CSV) or Mooncake (JSONL) trace\n"
    "  make:reference  60 % short, 30 % medium, 10 % long requests of users who wait for their answers;\n"
    "                  concurrent=120 at the peak\n"
    "  make:day        the same mix, rate swinging from low=0.15 of the peak to it and back in period\n"
    "  make:bursts     bursts of 30 s, then a wave of long documents;  make:night  only the wave;  make:steady\n"
    "  make:cameras    pictures for a pipeline, by day and night\n"
    "  with ,rate=REQUESTS_PER_S or ,load=SHARE of what the cluster carries at most, ,duration=SECONDS\n\n"
    "CONTENDERS\n"
    "  --policy NAME         a gear plugin: cost_model, flexpipe, fixed, or one of your own\n"
    "  --policy best-gear    the best single gear, known afterwards;  best-layout  the best one for each node set\n"
    "  --policy clairvoyant  a yardstick: for each 20 s the layout that served them best, changes free\n"
    "  --gear N              one gear throughout\n\n"
    "SEEDS\n"
    "  A generator makes other requests with each seed. Of a recording, seed 0 is the recording; others deal out\n"
    "  anew, within each minute, who asks for what. Intervals are of 95 % (Student's t) over seeds.\n\n"
    "What is simulated, and how far it can be relied on: docs/replay.md.\n\n"
    "Example:\n"
    "  broker replay run --trace make:reference --cluster examples/replay/mixed-8.toml \\\n"
    "    --model examples/replay/llm-7b.toml --policy cost_model --policy best-gear --gear 1 --seeds 5 --html "
    "report.html\n"
    "Exit codes: 0 done, 1 the work failed, 2 wrong usage or configuration.";

}  // namespace

void add_replay_commands(CLI::App& app, CliContext& context) {
  CLI::App* replay =
      app.add_subcommand("replay", "try a policy, a balancer or a cluster on recorded traffic before it goes live");
  replay->require_subcommand(1);
  CLI::App* command =
      add_command(*replay, context, "run", "simulate traffic on a cluster under each policy, and compare", "", false);
  const auto asked = std::make_shared<RunAsked>();
  add_traffic_options(*command, asked->traffic);
  command
      ->add_option("--policy", asked->policies,
                   "a gear policy plugin, best-gear, best-layout or clairvoyant; may be repeated")
      ->type_name("NAME");
  command->add_option("--gear", asked->gears, "one gear throughout, 1 to 6; may be repeated")->check(CLI::Range(1, 6));
  command->add_flag("--saturation", asked->saturation,
                    "also tell the throughput while everything waits (one more run each)");
  command->add_option("--json", asked->json, "write all figures as JSON; - for stdout")->type_name("FILE");
  command->add_option("--html", asked->html, "write a report with plots, one file that needs nothing else")
      ->type_name("FILE");
  command
      ->add_option("--requests", asked->requests,
                   "write what became of each request of the first contender's first run, as CSV")
      ->type_name("FILE");
  command->footer(kRunFooter);
  command->callback([&context, asked] {
    const Outcome<void> ran = run(context, *asked);
    if (!ran) fail(context, ran.error());
  });
  add_replay_gate_command(*replay, context);
  add_replay_record_command(*replay, context);
  add_replay_trace_commands(*replay, context);
}

}  // namespace gearbox::cli
