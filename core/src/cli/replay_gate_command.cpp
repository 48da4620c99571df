// replay gate: a new configuration against the one in force, on the same traffic: exit code 0 when it is not worse.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/json_facts.hpp"
#include "cli/replay_commands.hpp"
#include "cli/replay_options.hpp"
#include "cli/replay_plugins.hpp"
#include "cli/table.hpp"
#include "replay/gate.hpp"

namespace gearbox::cli {

namespace {

struct GateAsked {
  ReplayTraffic traffic;
  std::string candidate, against;
  double tolerance_percent = 5;
  bool saturation = false;
};

/// The configuration's policy and balancer, with its rules and options, on the traffic.
Outcome<replay::Scored> score_of(const GateAsked& asked, const std::string& folder) {
  BOOST_OUTCOME_TRY(const ReplaySetting setting, replay_setting_of(std::filesystem::path(folder)));
  BOOST_OUTCOME_TRY(replay::Experiment experiment, experiment_of(asked.traffic, setting));
  experiment.saturation = asked.saturation;
  BOOST_OUTCOME_TRY(const auto plugins, ReplayPlugins::open(setting.plugins));
  BOOST_OUTCOME_TRY(replay::settle_rate(experiment, plugins->makers()));
  replay::Contender contender;
  contender.name = folder;
  contender.policy = setting.gears.policy;
  auto scored = replay::score(experiment, contender, plugins->makers(), [] {});
  // A policy that fails decides nothing, which a comparison of times may well forgive.
  if (scored && !scored.value().first.policy_fault.empty())
    return Error{Errc::plugin_fault, folder + ": " + scored.value().first.policy_fault};
  return scored;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

void print_table(const std::vector<replay::Verdict>& verdicts, const GateAsked& asked) {
  Table table({"figure", ">" + asked.against, ">" + asked.candidate, ">change", "verdict"});
  for (const replay::Verdict& verdict : verdicts) {
    char change[32] = "";
    if (verdict.against > 0)
      std::snprintf(change, sizeof change, "%+.1f %%", 100 * (verdict.candidate / verdict.against - 1));
    table.add({verdict.tolerance.figure, number(verdict.against), number(verdict.candidate), change,
               verdict.worse ? "worse" : "good"});
  }
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

Outcome<void> run(CliContext& context, const GateAsked& asked) {
  BOOST_OUTCOME_TRY(const replay::Scored candidate, score_of(asked, asked.candidate));
  BOOST_OUTCOME_TRY(const replay::Scored against, score_of(asked, asked.against));
  const auto verdicts = replay::judge(candidate, against, replay::usual_tolerances(asked.tolerance_percent / 100));
  const bool passes = replay::passes(verdicts);
  if (!passes) context.exit_code = kFailed;
  if (context.json) {
    boost::json::array all;
    for (const replay::Verdict& verdict : verdicts) {
      all.push_back(boost::json::object{{"figure", verdict.tolerance.figure},
                                        {"against", verdict.against},
                                        {"candidate", verdict.candidate},
                                        {"worse", verdict.worse}});
    }
    print_json(boost::json::object{{"passes", passes}, {"figures", std::move(all)}});
    return done();
  }
  print_table(verdicts, asked);
  std::printf("%s\n", passes ? "not worse" : "worse: it does not pass");
  return done();
}

}  // namespace

void add_replay_gate_command(CLI::App& replay, CliContext& context) {
  CLI::App* command = add_command(
      replay, context, "gate", "is a new configuration no worse than another one? exit code 0 or 1",
      "broker replay gate --trace last-hour.trace --cluster cluster.toml --model model.toml --candidate configs-new "
      "--against configs\nThe policy, balancer, [gears] rules and plugin options of each folder meet the same "
      "requests.",
      true);
  const auto asked = std::make_shared<GateAsked>();
  add_traffic_options(*command, asked->traffic);
  command->add_option("--candidate", asked->candidate, "folder of the new configuration")->required()->type_name("DIR");
  command->add_option("--against", asked->against, "folder of the one that it must not be worse than")
      ->required()
      ->type_name("DIR");
  command
      ->add_option(
          "--tolerance", asked->tolerance_percent,
          "percent by which each figure may be worse (default: 5); what is refused or left may not grow at all")
      ->check(CLI::Range(0.0, 1000.0));
  command->add_flag("--saturation", asked->saturation, "compare the throughput while everything waits, too");
  command->callback([&context, asked] {
    const Outcome<void> ran = run(context, *asked);
    if (!ran) fail(context, ran.error());
  });
}

}  // namespace gearbox::cli
