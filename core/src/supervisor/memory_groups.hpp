// memory_groups.hpp: a cgroup of its own for each worker that has a memory limit: the kernel ends the worker that takes
// more, and nobody else. Only files of cgroup v2: the folder it is mounted at is a parameter, so any folder will do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::supervisor {

/// The cgroup that a process is in.
struct GroupPlace {
  std::filesystem::path root;  // where cgroup v2 is mounted
  std::string path;            // from there: "/system.slice/gearbox.service"
};

/// Of this process, from /proc/self/{mountinfo,cgroup}; `proc` is another folder in tests. Errors: not_found: cgroup v2
/// is not mounted, or does not have us.
Outcome<GroupPlace> own_group(const std::filesystem::path& proc = "/proc/self");

/// Eight digits that tell one state folder from another; the same for the same one. Part of the names of groups.
std::string installation_of(const std::filesystem::path& state_root);

/// The groups of one installation. One thread. cgroup v2 lets a group have groups with limits below it only when no
/// process is in it itself. So processes of ours that are in the place are moved to a group below it, which is done
/// only when all that are there are ours; nobody else's process is ever moved.
class MemoryGroups {
 public:
  /// Never usable.
  MemoryGroups() = default;
  explicit MemoryGroups(GroupPlace place, std::string installation);

  /// Makes the place ready for groups with limits; asked again, it repeats its first answer. `is_ours`: may that
  /// process be moved? Errors, all with the reason for people: not_found, not_allowed, io_error. Nothing is changed
  /// then.
  Outcome<void> prepare(const std::function<bool(int pid)>& is_ours);

  /// A new group for the process that will do `role`. The kernel ends what takes a quarter more than this limit: what
  /// lies between is for whoever watches the worker to end it in peace. Errors: io_error.
  Outcome<std::filesystem::path> make(const std::string& role, int pid, std::uint64_t limit_bytes) const;
  /// Errors: io_error.
  static Outcome<void> enter(const std::filesystem::path& group, int pid);
  /// 0: none. Errors: io_error.
  static Outcome<void> set_limit(const std::filesystem::path& group, std::uint64_t limit_bytes);
  /// What was it ended for? The limit in bytes when the kernel has killed in it; else 0.
  static std::uint64_t outgrown_limit(const std::filesystem::path& group);

  /// Is that the name of a group which some supervisor of this installation has made?
  bool is_ours(const std::filesystem::path& group) const;
  /// All there are.
  std::vector<std::filesystem::path> list() const;
  /// Kills what is left in it and removes it. False: what was killed has not ended yet; to be asked again.
  bool remove(const std::filesystem::path& group) const;
  /// Undoes what prepare() has changed; only this process may be left.
  void give_back();

 private:
  std::filesystem::path parent() const;
  std::filesystem::path leaf() const;
  Outcome<void> try_prepare(const std::function<bool(int pid)>& is_ours);
  Outcome<void> move_down(const std::filesystem::path& base, const std::function<bool(int pid)>& is_ours);

  GroupPlace place_;
  std::string installation_;
  bool asked_ = false;
  bool moved_ = false;  // by us, into leaf()
  Outcome<void> answer_ = Error{Errc::not_found, "there are no cgroups here"};
};

}  // namespace gearbox::supervisor
