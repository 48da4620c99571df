// replay gate: a new configuration against the one in force, on the same traffic: exit code 0 when it is not worse.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/gate_child.hpp"
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
  bool child = false;
};

/// A configuration, and its traffic on its cluster.
struct Side {
  std::string folder;
  ReplaySetting setting;
  replay::Experiment experiment;
  std::string policy;  // empty: no shifts
};

Outcome<Side> side_of(const GateAsked& asked, const std::string& folder) {
  Side side;
  side.folder = folder;
  BOOST_OUTCOME_TRY(side.setting, replay_setting_of(std::filesystem::path(folder)));
  BOOST_OUTCOME_TRY(side.experiment, experiment_of(asked.traffic, side.setting));
  side.experiment.saturation = asked.saturation;
  // A person asks what a policy would do; the gate of a running broker, what it does.
  if (!asked.child || side.setting.gears.enabled) side.policy = side.setting.gears.policy;
  return side;
}

/// Its policy and balancer, with its rules and options, on the traffic. `took_part` gets which builds they were.
Outcome<replay::Scored> score_of(const Side& side, boost::json::array* took_part = nullptr) {
  BOOST_OUTCOME_TRY(const auto plugins, ReplayPlugins::open(side.setting.plugins));
  replay::Experiment experiment = side.experiment;
  BOOST_OUTCOME_TRY(replay::settle_rate(experiment, plugins->makers()));
  replay::Contender contender;
  contender.name = side.folder;
  contender.policy = side.policy;
  auto scored = replay::score(experiment, contender, plugins->makers(), [] {});
  // A policy that fails decides nothing, which a comparison of times may well forgive.
  if (scored && !scored.value().first.policy_fault.empty())
    return Error{Errc::plugin_fault, side.folder + ": " + scored.value().first.policy_fault};
  const auto add = [&](const char* kind, const std::string& name) {
    if (took_part == nullptr || name.empty()) return;
    took_part->push_back(
        boost::json::object{{"kind", kind}, {"name", name}, {"checksum", plugins->checksum_of(kind, name)}});
  };
  add("balancer", experiment.balancer);
  // A pipeline's cards have no gears: nobody asks the policy.
  if (experiment.models.front().kind == replay::Model::Kind::decoder) add("gear", side.policy);
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

boost::json::array figures_json(const std::vector<replay::Verdict>& verdicts) {
  boost::json::array all;
  for (const replay::Verdict& verdict : verdicts) {
    all.push_back(boost::json::object{{"figure", verdict.tolerance.figure},
                                      {"against", verdict.against},
                                      {"candidate", verdict.candidate},
                                      {"worse", verdict.worse}});
  }
  return all;
}

std::vector<replay::Verdict> verdicts_of(const GateAsked& asked, const replay::Scored& candidate,
                                         const replay::Scored& against) {
  return replay::judge(candidate, against, replay::usual_tolerances(asked.tolerance_percent / 100));
}

/// For a running broker (plugin_host/gate_answer.hpp tells what is said). The one in force goes first: when that cannot
/// be replayed, the candidate is not to blame.
int run_child(const GateAsked& asked) {
  const auto answer = GateChild::begin();
  if (!answer) return kFailed;
  const auto failed = [&](const Error& error, const char* side) {
    answer->say(boost::json::object{{"error", describe(error)}, {"side", side}});
    return kFailed;
  };
  boost::json::array parts;
  std::optional<replay::Scored> scored[2];
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const char* const name = i == 0 ? "against" : "candidate";
    answer->say(boost::json::object{{"replays", name}});
    const Outcome<Side> side = side_of(asked, i == 0 ? asked.against : asked.candidate);
    if (!side) return failed(side.error(), "setting");
    boost::json::array took_part;
    Outcome<replay::Scored> its = score_of(side.value(), &took_part);
    if (!its) return failed(its.error(), i == 0 ? "setting" : "candidate");
    scored[i].emplace(std::move(its).value());
    for (boost::json::value& part : took_part) {
      part.as_object()["side"] = name;
      parts.push_back(std::move(part));
    }
  }
  const auto verdicts = verdicts_of(asked, *scored[1], *scored[0]);
  answer->say(boost::json::object{{"passes", replay::passes(verdicts)},
                                  {"requests", scored[0]->figure("arrived")},
                                  {"tolerance_percent", asked.tolerance_percent},
                                  {"figures", figures_json(verdicts)},
                                  {"parts", std::move(parts)}});
  return kDone;
}

Outcome<void> run(CliContext& context, const GateAsked& asked) {
  BOOST_OUTCOME_TRY(const Side new_side, side_of(asked, asked.candidate));
  BOOST_OUTCOME_TRY(const replay::Scored candidate, score_of(new_side));
  BOOST_OUTCOME_TRY(const Side old_side, side_of(asked, asked.against));
  BOOST_OUTCOME_TRY(const replay::Scored against, score_of(old_side));
  const auto verdicts = verdicts_of(asked, candidate, against);
  const bool passes = replay::passes(verdicts);
  if (!passes) context.exit_code = kFailed;
  if (context.json) {
    print_json(boost::json::object{{"passes", passes}, {"figures", figures_json(verdicts)}});
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
  command->add_flag("--child", asked->child, "answer a running broker (plugins.gate)")->group("");
  command->callback([&context, asked] {
    // Not through exit handlers: those of the plugins' libraries would still run, and have been answered for already.
    if (asked->child) ::_exit(run_child(*asked));
    const Outcome<void> ran = run(context, *asked);
    if (!ran) fail(context, ran.error());
  });
}

}  // namespace gearbox::cli
