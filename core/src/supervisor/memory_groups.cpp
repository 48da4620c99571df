#include "supervisor/memory_groups.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace gearbox::supervisor {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "gearbox-";

/// A quarter above the limit, at which the node begins to replace the worker in peace: one that leaks slowly loses no
/// call, nor do several of its kind kill the same request one after another. What the kernel ends is what takes much at
/// once.
std::uint64_t hard(std::uint64_t limit_bytes) {
  return limit_bytes + limit_bytes / 4;
}
std::uint64_t limit_of(std::uint64_t hard_bytes) {
  return hard_bytes / 5 * 4;
}

std::string read_all(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

/// One write(2): the kernel takes or refuses what is asked as a whole.
Outcome<void> write_to(const fs::path& file, const std::string& text) {
  std::FILE* const out = std::fopen(file.c_str(), "we");
  if (out == nullptr) return Error{Errc::io_error, file.string() + ": " + std::strerror(errno)};
  std::setvbuf(out, nullptr, _IONBF, 0);
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const int why = errno;
  std::fclose(out);
  if (!written) return Error{Errc::io_error, file.string() + ": " + std::strerror(why)};
  return done();
}

bool has_word(const fs::path& file, std::string_view wanted) {
  std::istringstream words(read_all(file));
  for (std::string word; words >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

/// The path of `group` from the one that the mount shows as its top: a container's groups may have their names of
/// outside. Empty: it lies elsewhere.
std::string seen_through(const std::string& top, const std::string& group) {
  if (top == "/") return group;
  if (group == top) return "/";
  return group.starts_with(top + "/") ? group.substr(top.size()) : std::string();
}

std::vector<int> processes_in(const fs::path& group) {
  std::vector<int> pids;
  std::ifstream in(group / "cgroup.procs");
  for (int pid = 0; in >> pid;) pids.push_back(pid);
  return pids;
}

}  // namespace

Outcome<GroupPlace> own_group(const fs::path& proc) {
  GroupPlace place;
  std::string shown;  // the group that the mount shows as its top
  std::istringstream mounts(read_all(proc / "mountinfo"));
  for (std::string line; place.root.empty() && std::getline(mounts, line);) {
    // "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS ... - TYPE SOURCE OPTIONS"
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos || !line.substr(dash + 3).starts_with("cgroup2 ")) continue;
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 3; ++i) words >> word;
    words >> shown >> word;
    place.root = word;
  }
  if (place.root.empty()) return Error{Errc::not_found, "cgroup v2 is not mounted here"};
  std::istringstream groups(read_all(proc / "cgroup"));
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) place.path = seen_through(shown, line.substr(3));
  }
  // "/../x": it lies outside of what this container can see.
  if (place.path.empty() || place.path.find("..") != std::string::npos) {
    return Error{Errc::not_found, "cgroup v2 does not show the group of this process"};
  }
  return place;
}

std::string installation_of(const fs::path& state_root) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(state_root, error);
  if (error) whole = state_root;
  std::uint32_t mixed = 2166136261U;  // FNV-1a
  for (const char letter : whole.string()) mixed = (mixed ^ static_cast<unsigned char>(letter)) * 16777619U;
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", mixed);
  return text.data();
}

MemoryGroups::MemoryGroups(GroupPlace place, std::string installation)
    : place_(std::move(place)), installation_(std::move(installation)) {}

/// Where groups are made: our place, or, when that is the group into which one of us was moved, the one above.
fs::path MemoryGroups::parent() const {
  fs::path base = place_.root / place_.path.substr(std::min<std::size_t>(1, place_.path.size()));
  if (!base.has_filename()) base = base.parent_path();
  return base.filename() == leaf() ? base.parent_path() : base;
}

fs::path MemoryGroups::leaf() const {
  return std::string(kPrefix) + installation_ + "-broker";
}

Outcome<void> MemoryGroups::prepare(const std::function<bool(int)>& is_ours) {
  if (installation_.empty() || asked_) return answer_;
  asked_ = true;
  answer_ = try_prepare(is_ours);
  return answer_;
}

Outcome<void> MemoryGroups::try_prepare(const std::function<bool(int)>& is_ours) {
  const fs::path base = parent();
  if (!has_word(base / "cgroup.controllers", "memory")) {
    return Error{Errc::not_found, base.string() + " has no memory controller"};
  }
  if (has_word(base / "cgroup.subtree_control", "memory")) {
    if (::access(base.c_str(), W_OK) != 0) {
      return Error{Errc::not_allowed, base.string() + ": " + std::strerror(errno)};
    }
    return done();
  }
  return move_down(base, is_ours);
}

Outcome<void> MemoryGroups::move_down(const fs::path& base, const std::function<bool(int)>& is_ours) {
  const std::vector<int> there = processes_in(base);
  for (const int pid : there) {
    if (is_ours(pid)) continue;
    return Error{Errc::not_allowed, "another process (pid " + std::to_string(pid) + ") is in " + base.string()};
  }
  std::error_code failed;
  fs::create_directory(base / leaf(), failed);
  if (failed) return Error{Errc::not_allowed, (base / leaf()).string() + ": " + failed.message()};
  Outcome<void> outcome = done();
  for (const int pid : there) {
    outcome = enter(base / leaf(), pid);
    // One that has ended meanwhile need not be moved.
    if (!outcome && ::access(("/proc/" + std::to_string(pid)).c_str(), F_OK) == 0) break;
    outcome = done();
  }
  // Refused when a process has come to be there since.
  if (outcome) outcome = write_to(base / "cgroup.subtree_control", "+memory");
  moved_ = true;
  if (!outcome) give_back();
  return outcome;
}

Outcome<fs::path> MemoryGroups::make(const std::string& role, int pid, std::uint64_t limit_bytes) const {
  const fs::path group = parent() / (std::string(kPrefix) + installation_ + "-" + role + "." + std::to_string(pid));
  std::error_code failed;
  fs::create_directory(group, failed);
  if (failed) return Error{Errc::io_error, group.string() + ": " + failed.message()};
  const Outcome<void> limited = set_limit(group, limit_bytes);
  if (!limited) {
    remove(group);
    return limited.error();
  }
  // What is swapped out counts no more, so there shall be none. Without swap there is no such file.
  std::error_code none;
  if (fs::exists(group / "memory.swap.max", none)) {
    [[maybe_unused]] const auto no_swap = write_to(group / "memory.swap.max", "0");
  }
  // With what it has started: half a worker is none.
  if (fs::exists(group / "memory.oom.group", none)) {
    [[maybe_unused]] const auto whole = write_to(group / "memory.oom.group", "1");
  }
  return group;
}

Outcome<void> MemoryGroups::enter(const fs::path& group, int pid) {
  return write_to(group / "cgroup.procs", std::to_string(pid));
}

Outcome<void> MemoryGroups::set_limit(const fs::path& group, std::uint64_t limit_bytes) {
  return write_to(group / "memory.max", limit_bytes == 0 ? "max" : std::to_string(hard(limit_bytes)));
}

std::uint64_t MemoryGroups::outgrown_limit(const fs::path& group) {
  std::istringstream events(read_all(group / "memory.events"));
  std::string name;
  std::uint64_t count = 0;
  while (events >> name >> count) {
    if (name != "oom_kill" || count == 0) continue;
    std::uint64_t most = 0;
    std::istringstream text(read_all(group / "memory.max"));
    return text >> most ? limit_of(most) : 0;
  }
  return 0;
}

bool MemoryGroups::is_ours(const fs::path& group) const {
  const std::string start = std::string(kPrefix) + installation_ + "-worker-";
  return !installation_.empty() && group.filename().string().starts_with(start);
}

std::vector<fs::path> MemoryGroups::list() const {
  std::vector<fs::path> all;
  if (installation_.empty()) return all;
  std::error_code failed;
  for (fs::directory_iterator at(parent(), failed), end; !failed && at != end; at.increment(failed)) {
    if (is_ours(at->path())) all.push_back(at->path());
  }
  return all;
}

bool MemoryGroups::remove(const fs::path& group) const {
  if (!is_ours(group)) return true;
  std::error_code none;
  if (fs::exists(group / "cgroup.kill", none) && !processes_in(group).empty()) {
    [[maybe_unused]] const auto killed = write_to(group / "cgroup.kill", "1");
  }
  return ::rmdir(group.c_str()) == 0 || errno == ENOENT;
}

void MemoryGroups::give_back() {
  if (!std::exchange(moved_, false)) return;
  const fs::path base = parent();
  // The other way round than it was made. What is refused stays as it is: the next supervisor finds it so.
  [[maybe_unused]] const auto none = write_to(base / "cgroup.subtree_control", "-memory");
  for (const int pid : processes_in(base / leaf())) {
    [[maybe_unused]] const auto up = enter(base, pid);
  }
  ::rmdir((base / leaf()).c_str());
}

}  // namespace gearbox::supervisor
