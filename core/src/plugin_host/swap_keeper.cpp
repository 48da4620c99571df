#include "plugin_host/swap_keeper.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "gearbox/base/text.hpp"

namespace gearbox::plugin_host {

namespace {

const Need* need_of(const Needs& needs, const PluginKey& key) {
  const auto found = std::find_if(needs.begin(), needs.end(),
                                  [&](const Need& need) { return need.kind == key.first && need.name == key.second; });
  return found == needs.end() ? nullptr : &*found;
}

/// Another name that the same key of the configuration gave before; empty: none, or the same.
std::string name_before(const Needs& before, const Need& now) {
  for (const Need& need : before) {
    if (need.by == now.by && need.kind == now.kind && need.name != now.name) return need.name;
  }
  return {};
}

Given fitting_options(const LoadedBuild& build, const config::PluginsConfig& config) {
  const auto given = config.options.find(build.info.name);
  std::vector<std::string> left_out;
  return OptionValues::fitting(
      build.info.options, merged(build.options, given == config.options.end() ? Given() : given->second), left_out);
}

SwapPart part_of(const BuildPtr& build, const Given& options) {
  return {build->info.kind, build->info.name, build->info.version, build->info.checksum, options};
}

std::string labels(const SwapPart& part) {
  return "kind=" + part.kind + " name=" + part.name + " version=" + escaped(part.version, 64) +
         " checksum=" + part.checksum.substr(0, 12);
}

}  // namespace

/// One plugin that the configuration uses.
struct SwapKeeper::Case {
  const Input& input;
  BuildBook& book;
  Instant& look_again;
  const config::GateConfig::Use& use;
  PluginKey key;
  const Need* own;  // this role's; null: it does not use the plugin
  std::vector<SwapPart> others;
};

void SwapKeeper::say(const std::string& about, const std::string& line, bool warns) {
  std::string& last = told_[about];
  if (last == line) return;
  last = line;
  spdlog::log(warns ? spdlog::level::warn : spdlog::level::info, "{}", line);
}

Outcome<void> SwapKeeper::apply(const Input& input, BuildBook& book, Resolved& resolved, Instant& look_again) {
  const config::GateConfig& gate = input.config->gate;
  if (!gate.on) return done();
  std::vector<SwapPart> others;
  for (const config::GateConfig::Use& use : gate.uses) {
    const auto there = input.in_force.find(PluginKey(use.kind, use.name));
    if (there != input.in_force.end()) others.push_back(part_of(there->second.build, there->second.options));
  }
  std::set<PluginKey> seen;
  for (const config::GateConfig::Use& use : gate.uses) {
    const PluginKey key(use.kind, use.name);
    if (!seen.insert(key).second || !resolved.serving.contains(key)) continue;
    const Case at{input, book, look_again, use, key, need_of(*input.needs, key), others};
    BOOST_OUTCOME_TRY(look_at(at, resolved));
  }
  return done();
}

/// What serves now, or, at a start and when that is barred, the last good build. False: there is nothing that could
/// stay, or `candidate` is the very one.
bool SwapKeeper::find_served(const Case& at, const BuildPtr& candidate, InForce& served) {
  const auto now = at.input.in_force.find(at.key);
  if (now != at.input.in_force.end() && at.book.bar_of(now->second.build->info.checksum) == nullptr) {
    served = now->second;
    return true;
  }
  if (now == at.input.in_force.end() && !at.input.in_force.empty()) return false;  // it did not serve
  const Build* last = at.book.last_good(at.key.first, at.key.second, {});
  if (last == nullptr || last->checksum == candidate->info.checksum) return false;
  auto loaded = at.input.reload(*last);
  if (!loaded) {
    say("reload " + last->checksum,
        "plugin not gated, what served last cannot be had kind=" + at.key.first + " name=" + at.key.second +
            " version=" + escaped(last->version, 64) + " reason=\"" + escaped(describe(loaded.error()), 200) + "\"",
        true);
    return false;
  }
  served.build = std::move(loaded).value();
  served.options = fitting_options(*served.build, *at.input.config);
  return true;
}

Outcome<void> SwapKeeper::look_at(const Case& at, Resolved& resolved) {
  Chosen& chosen = resolved.serving.at(at.key);
  const SwapPart candidate = part_of(chosen.build, fitting_options(*chosen.build, *at.input.config));
  // Does the configuration name another plugin than before?
  const std::string before = at.own == nullptr ? std::string() : name_before(*at.input.needs_before, *at.own);
  const auto named_before = at.input.in_force.find(PluginKey(at.key.first, before));
  const bool renamed = !before.empty() && named_before != at.input.in_force.end();
  InForce served;
  if (renamed) {
    served = named_before->second;
    if (at.book.bar_of(served.build->info.checksum) != nullptr) return done();
  } else if (!find_served(at, chosen.build, served)) {
    return done();
  }
  const SwapPart against = part_of(served.build, served.options);
  const bool same_build = !renamed && against.checksum == candidate.checksum;
  if (same_build && against.options == candidate.options) return done();
  if (same_build && at.own == nullptr) return done();  // options of what this role does not use
  const bool by_config = renamed || (same_build && at.input.is_new);
  const bool judges = by_config || same_build ||
                      std::any_of(at.input.needs->begin(), at.input.needs->end(),
                                  [&](const Need& need) { return need.by == at.use.by; });
  const Standing standing = judges ? judge(at, candidate, against) : follow(at, candidate);
  if (standing.what == Standing::What::passes) return done();
  at.look_again = std::min(at.look_again, standing.look_again);
  const bool waits = standing.what == Standing::What::waits;
  if (by_config) {
    return Error{Errc::bad_config, at.own->by + " = \"" + at.key.second + "\" " +
                                       (waits ? "waits for plugins.gate: " : "is refused by plugins.gate: ") +
                                       standing.reason};
  }
  PluginInfo info = chosen.build->info;
  info.state = waits ? "waiting" : "refused";
  info.reason = "gate: " + standing.reason;
  if (!same_build) resolved.others.push_back(std::move(info));
  if (waits) {
    say("swap " + candidate.kind + " " + candidate.name,
        "plugin waits for the gate " + labels(candidate) + " reason=\"" + standing.reason + "\"; version " +
            escaped(against.version, 64) + " of it stays",
        standing.look_again != Instant::max());
  }
  chosen = Chosen{served.build, "the gate has not let " + shown(candidate) + " through"};
  return done();
}

SwapKeeper::Standing SwapKeeper::judge(const Case& at, const SwapPart& candidate, const SwapPart& against) {
  Swap swap{candidate, against, at.others, at.input.config->gate};
  const std::string pair = swap.pair();
  Standing standing;
  if (const Ruling* ruling = at.book.ruling_on(candidate.kind, candidate.name);
      ruling != nullptr && ruling->pair == pair) {
    standing.what = ruling->passes ? Standing::What::passes : Standing::What::refused;
    standing.reason = ruling->reason;
    return standing;
  }
  standing = gate_.ask(swap);
  if (standing.what != Standing::What::waits) rule(at, candidate, against, pair, standing);
  return standing;
}

/// What another role has ruled: of the last build of that name that was judged.
SwapKeeper::Standing SwapKeeper::follow(const Case& at, const SwapPart& candidate) const {
  Standing standing;
  const Ruling* ruling = at.book.ruling_on(candidate.kind, candidate.name);
  if (ruling == nullptr || ruling->checksum != candidate.checksum) {
    standing.reason = "is judged by the role of " + at.use.by;
    return standing;
  }
  standing.what = ruling->passes ? Standing::What::passes : Standing::What::refused;
  standing.reason = ruling->reason;
  return standing;
}

void SwapKeeper::rule(const Case& at, const SwapPart& candidate, const SwapPart& against, const std::string& pair,
                      const Standing& standing) {
  Ruling ruling{candidate.kind, candidate.name, candidate.version, candidate.checksum, pair, false, standing.reason, 0};
  ruling.passes = standing.what == Standing::What::passes;
  ruling.since_unix_ms =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  told_.erase("swap " + candidate.kind + " " + candidate.name);
  const std::string between = " against=\"" + escaped(shown(against), 100) + "\"";
  if (ruling.passes) {
    spdlog::info("plugin passed the gate {}{} requests={}", labels(candidate), between, standing.requests);
  } else {
    spdlog::warn("plugin refused by the gate {}{} reason=\"{}\"; version {} of it stays", labels(candidate), between,
                 standing.reason, escaped(against.version, 64));
  }
  if (auto written = note_ruling(copies_, ruling)) {
    at.book = std::move(written).value();
    return;
  } else {
    say("ruling", "plugins: a ruling of the gate cannot be written: " + describe(written.error()), true);
  }
  std::erase_if(at.book.rulings,
                [&](const Ruling& other) { return other.kind == ruling.kind && other.name == ruling.name; });
  at.book.rulings.push_back(std::move(ruling));
}

}  // namespace gearbox::plugin_host
