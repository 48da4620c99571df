// How children with a memory limit get their cgroups, and what becomes of those.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "supervisor/children.hpp"

namespace gearbox::supervisor {

namespace {

constexpr int kMostAncestors = 32;

/// 0: it is gone, or nobody can say.
int parent_of(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    int parent = 0;
    if (std::sscanf(line.c_str(), "PPid: %d", &parent) == 1) return parent;
  }
  return 0;
}

}  // namespace

void Children::use(MemoryGroups groups, std::string why_not) {
  groups_ = std::move(groups);
  no_groups_ = std::move(why_not);
}

/// This process, a child, or what one of them has started: as a sub-reaper we are above all of it.
bool Children::is_ours(int pid) const {
  for (int i = 0; pid > 1 && i < kMostAncestors; ++i, pid = parent_of(pid)) {
    if (pid == ::getpid() || children_.contains(pid)) return true;
  }
  return pid == ::getpid();  // that of a container may be the first of all
}

/// The child waits for us meanwhile: it has run nothing yet.
void Children::make_group(Child& child, int pid, std::uint64_t memory_limit) {
  Outcome<void> ready = no_groups_.empty() ? groups_.prepare([&](int other) { return other == pid || is_ours(other); })
                                           : Outcome<void>(Error{Errc::not_found, no_groups_});
  if (ready) {
    const auto group = groups_.make(child.record.role, pid, memory_limit);
    ready = group ? MemoryGroups::enter(group.value(), pid) : Outcome<void>(group.error());
    if (group && ready) child.record.cgroup = group.value().string();
    if (group && !ready) leftovers_.push_back(group.value());
  }
  if (std::exchange(limits_said_, ready.has_value()) == ready.has_value()) return;
  say_(ready ? "memory limits: each worker with one has a cgroup of its own (" + child.record.cgroup + ")"
             : "memory limits: resident memory is watched, for no cgroup can be made: " + ready.error().detail);
}

void Children::limit(int pid, std::uint64_t memory_limit) {
  const auto at = children_.find(pid);
  if (at == children_.end()) return;
  if (at->second.record.cgroup.empty()) {
    // Not moved into a group now: the kernel counts what a process takes from then on, so what it has already would be
    // beyond the limit. Where no group can be made for anybody, that has been said.
    const bool first = memory_limit > 0 && limits_said_ != std::optional(false);
    if (first && !std::exchange(at->second.late_limit_said, true)) {
      say_("the memory limit of " + at->second.record.role + " (pid " + std::to_string(pid) +
           ") is watched by the node alone until it is started anew: it was started without one");
    }
    return;
  }
  const Outcome<void> set = MemoryGroups::set_limit(at->second.record.cgroup, memory_limit);
  if (!set) say_("the memory limit of " + at->second.record.role + " stays as it was: " + set.error().detail);
}

void Children::give_groups_back() {
  sweep();
  groups_.give_back();
}

void Children::sweep() {
  std::erase_if(leftovers_, [&](const auto& group) { return groups_.remove(group); });
}

}  // namespace gearbox::supervisor
