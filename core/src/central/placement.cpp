#include "central/placement.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "config/versions.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::central {

namespace {

const wire::TaskReport* task_of(const NodeState& node, std::string_view task) {
  const auto& tasks = node.report.tasks;
  const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const auto& entry) { return entry.name == task; });
  return found == tasks.end() ? nullptr : &*found;
}

/// What one model of a task ("name", "name@version", or "name@range") has on a node, all matching versions together.
struct Share {
  std::uint32_t workers = 0;
  std::uint64_t step_p95_us = 0;
};

Share share_of(const wire::NodeReport& report, std::string_view model) {
  const std::size_t at = model.find('@');
  const std::string_view name = model.substr(0, at);
  const std::string_view version = at == std::string_view::npos ? std::string_view() : model.substr(at + 1);
  Share share;
  for (const wire::ModelReport& entry : report.models) {
    if (entry.name != name || (!version.empty() && !config::admits(version, entry.version))) continue;
    share.workers += entry.workers;
    share.step_p95_us = std::max(share.step_p95_us, entry.step_p95_us);
  }
  return share;
}

/// As its last report tells.
plugin::CandidateView view_of(const NodeState& node, const wire::TaskReport& task) {
  plugin::CandidateView view{};
  view.id = node.id;
  view.queued = node.report.queued;
  view.running = node.report.running;
  std::uint32_t scarcest = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t p95_us = 0;
  for (const std::string& model : task.models) {
    const Share share = share_of(node.report, model);
    scarcest = std::min(scarcest, share.workers);
    p95_us += std::min<std::uint64_t>(share.step_p95_us, 3'600'000'000ULL);
  }
  view.capacity = task.models.empty() ? 1 : std::max(1U, scarcest);
  view.step_p95 = std::chrono::microseconds(static_cast<std::int64_t>(p95_us));
  return view;
}

/// `offered`: devices that were sent there since that report.
plugin::CandidateView with_offered(plugin::CandidateView view, std::uint32_t offered) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  view.queued = view.queued > kMost - offered ? kMost : view.queued + offered;
  return view;
}

/// Why a node that knows the task cannot run it now: "node-1: model 'reader@4' has no ready worker".
std::string obstacle(const Registry& registry, const NodeState& node, const wire::TaskReport& task, Instant now) {
  const std::string name = node.name + ": ";
  if (!node.connected) return name + "not connected";
  if (!registry.alive(node, now)) {
    return name + "silent for " + std::to_string(elapsed(node.last_report, now).count() / 1000) + " ms";
  }
  if (node.report.draining) return name + "is being drained";
  for (const std::string& model : task.models) {
    if (share_of(node.report, model).workers == 0) return name + "model '" + escaped(model) + "' has no ready worker";
  }
  return name + "not ready";
}

/// `view`: as reported.
NodeSeen seen_of(const NodeState& node, const plugin::CandidateView& view, Instant now) {
  NodeSeen seen;
  seen.node = node.name;
  seen.queued = view.queued;
  seen.running = view.running;
  seen.offered = node.offered;
  seen.capacity = view.capacity;
  seen.p95_us = static_cast<std::uint64_t>(view.step_p95.count());
  seen.report_age_ms = static_cast<std::uint64_t>(elapsed(node.last_report, now).count() / 1000);
  return seen;
}

}  // namespace

bool may_use(const User& user, std::string_view task) {
  return std::any_of(user.tasks.begin(), user.tasks.end(),
                     [&](const auto& allowed) { return allowed == "*" || allowed == task; });
}

Placement::Placement(std::shared_ptr<plugin::Balancer> balancer, std::set<std::string> configured_tasks,
                     Instant started, milliseconds settle)
    : balancer_(std::move(balancer)),
      configured_tasks_(std::move(configured_tasks)),
      started_(started),
      settle_(settle) {}

Outcome<const NodeState*> Placement::place(Registry& registry, std::string_view task, const User& user, Instant now,
                                           PlacementNote& note, const std::vector<std::string>& avoid) {
  BOOST_OUTCOME_TRY(check_name("task", task));
  std::vector<Able> knowing;
  std::set<std::string> known = configured_tasks_;
  for (const auto& [key, node] : registry.nodes()) {
    for (const wire::TaskReport& entry : node.report.tasks) known.insert(entry.name);
    const wire::TaskReport* entry = task_of(node, task);
    if (entry != nullptr) knowing.emplace_back(&node, entry);
  }
  const std::string quoted = "'" + std::string(task) + "'";

  if (!known.contains(std::string(task))) {
    if (now - started_ < settle_) {
      return Error{Errc::no_node,
                   "central has just started and no node has reported task " + quoted + " yet: try again"};
    }
    // Only names that this account may use are suggested: the others are none of its business.
    std::vector<std::string> usable;
    std::copy_if(known.begin(), known.end(), std::back_inserter(usable),
                 [&](const auto& name) { return may_use(user, name); });
    const std::string_view near = nearest(task, usable);
    return Error{Errc::unknown_task,
                 "no node knows a task " + quoted +
                     (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?")};
  }
  if (!may_use(user, task)) {
    return Error{Errc::not_allowed, "task " + quoted + " is not among those of the account '" + user.name + "'"};
  }
  return choose(registry, task, knowing, user, now, note, avoid);
}

Outcome<const NodeState*> Placement::place_steps(Registry& registry, const std::vector<std::string>& models,
                                                 const User& user, Instant now, PlacementNote& note,
                                                 const std::vector<std::string>& avoid) {
  if (models.empty()) return Error{Errc::bad_input, "own steps name at least one model"};
  if (!user.own_steps) {
    return Error{Errc::not_allowed, "the account '" + user.name + "' may not send its own steps"};
  }
  for (const std::string& model : models) {
    const std::size_t at = std::min(model.find('@'), model.size());
    BOOST_OUTCOME_TRY(check_name("model", model.substr(0, at)));
    const std::string wrong = at == model.size() ? std::string() : config::asked_fault(model.substr(at + 1));
    if (!wrong.empty()) return Error{Errc::bad_input, "model '" + escaped(model, 128) + "': " + wrong};
  }
  std::set<std::string> known;
  // What each node would report of a task with these models.
  std::vector<std::unique_ptr<wire::TaskReport>> entries;
  std::vector<Able> knowing;
  for (const auto& [key, node] : registry.nodes()) {
    auto entry = std::make_unique<wire::TaskReport>();
    entry->models = models;
    bool knows = true;
    entry->ready = true;
    for (const std::string& model : models) {
      entry->ready = entry->ready && share_of(node.report, model).workers > 0;
      knows = knows && std::any_of(node.report.models.begin(), node.report.models.end(), [&](const auto& one) {
                return one.name == std::string_view(model).substr(0, model.find('@'));
              });
    }
    for (const wire::ModelReport& one : node.report.models) known.insert(one.name);
    if (!knows) continue;
    knowing.emplace_back(&node, entry.get());
    entries.push_back(std::move(entry));
  }
  for (const std::string& model : models) {
    const std::string name = model.substr(0, model.find('@'));
    if (known.contains(name)) continue;
    if (now - started_ < settle_) {
      return Error{Errc::no_node,
                   "central has just started and no node has reported model '" + name + "' yet: try again"};
    }
    const std::string_view near = nearest(name, {known.begin(), known.end()});
    return Error{Errc::not_found, "no node has a model '" + name + "'" +
                                      (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?")};
  }
  return choose(registry, {}, knowing, user, now, note, avoid);
}

Outcome<const NodeState*> Placement::holder(const Registry& registry, const wire::Locate& asked, const User& user) {
  if (asked.task.empty() ? !user.own_steps : !may_use(user, asked.task)) {
    return Error{Errc::not_allowed, "the account '" + user.name + "' may not use this task"};
  }
  if (!asked.task.empty()) {
    BOOST_OUTCOME_TRY(check_name("task", asked.task));
  }
  for (const auto& [key, node] : registry.nodes()) {
    if (node.name == asked.node && node.reported) return &node;
  }
  return Error{Errc::no_node, "node '" + escaped(asked.node, 64) + "' has not reported here"};
}

Outcome<const NodeState*> Placement::choose(Registry& registry, std::string_view task, const std::vector<Able>& knowing,
                                            const User& user, Instant now, PlacementNote& note,
                                            const std::vector<std::string>& avoid) {
  std::vector<plugin::CandidateView> candidates;
  std::vector<plugin::CandidateView> as_reported;
  const auto is_able = [&](const Able& one) {
    return one.second->ready && registry.alive(*one.first, now) && !one.first->report.draining;
  };
  const auto is_avoided = [&](const Able& one) {
    return std::find(avoid.begin(), avoid.end(), one.first->name) != avoid.end();
  };
  const bool others_can =
      std::any_of(knowing.begin(), knowing.end(), [&](const Able& one) { return is_able(one) && !is_avoided(one); });
  for (const Able& one : knowing) {
    const auto& [node, entry] = one;
    const plugin::CandidateView view = view_of(*node, *entry);
    NodeSeen seen = seen_of(*node, view, now);
    bool able = is_able(one);
    if (!able) seen.obstacle = obstacle(registry, *node, *entry, now).substr(node->name.size() + 2);
    if (able && others_can && is_avoided(one)) {
      able = false;
      seen.obstacle = "the device does not reach it";
    }
    note.see(std::move(seen));
    if (!able) continue;
    candidates.push_back(with_offered(view, node->offered));
    as_reported.push_back(view);
  }
  if (candidates.empty()) {
    std::string detail =
        task.empty() ? "no node can do these steps now" : "no node can do task '" + std::string(task) + "' now";
    for (const auto& [node, entry] : knowing) detail += "; " + obstacle(registry, *node, *entry, now);
    if (knowing.empty()) detail += task.empty() ? ": no single node has all their models" : ": no node has reported it";
    return Error{Errc::no_node, escaped(detail, 1024)};
  }

  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::sort(candidates.begin(), candidates.end(), by_id);
  std::sort(as_reported.begin(), as_reported.end(), by_id);
  plugin::RequestView request{};
  request.task = task;
  request.tenant = user.tenant;
  Outcome<plugin::CandidateId> picked = pick(request, candidates, now, note);
  // Whom central has sent there may be done by now: that guess turns nobody away. The node itself knows when it is
  // full.
  if (!picked && picked.error().code == Errc::overloaded) {
    note.ignoring_offered = true;
    picked = pick(request, as_reported, now, note);
  }
  if (!picked) return picked.error();
  const plugin::CandidateId chosen = picked.value();
  for (const auto& [node, entry] : knowing) {
    if (node->id != chosen) continue;
    const auto view = std::lower_bound(as_reported.begin(), as_reported.end(), chosen,
                                       [](const auto& one, plugin::CandidateId id) { return one.id < id; });
    note.choose(seen_of(*node, *view, now));
    registry.offered(chosen);
    return node;
  }
  return Error{Errc::internal, "the chosen node is gone"};
}

Outcome<plugin::CandidateId> Placement::pick(const plugin::RequestView& request,
                                             const std::vector<plugin::CandidateView>& candidates, Instant now,
                                             PlacementNote& note) {
  note.chooser = chooser_;
  // A plugin's throw or invalid answer is its fault, not the device's: counted, and the first of the least loaded
  // serves.
  try {
    Outcome<plugin::CandidateId> picked = balancer_->pick(request, candidates, now);
    if (!picked && picked.error().code == Errc::overloaded) return picked;
    const bool valid = picked && std::any_of(candidates.begin(), candidates.end(),
                                             [&](const auto& candidate) { return candidate.id == picked.value(); });
    if (valid) return picked;
  } catch (const std::exception&) {  // counted below like any other fault
  } catch (...) {
  }
  ++faults_;
  note.stood_in = true;
  return std::min_element(candidates.begin(), candidates.end(),
                          [](const auto& a, const auto& b) {
                            return std::uint64_t{a.queued} + a.running < std::uint64_t{b.queued} + b.running;
                          })
      ->id;
}

}  // namespace gearbox::central
