#include "cli/doctor_checks.hpp"

#include <netdb.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "cli/json_facts.hpp"
#include "cli/run_program.hpp"
#include "cli/table.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace fs = std::filesystem;

namespace {

/// A line "KEY:   N kB" of /proc/meminfo, in bytes; 0 when it is not there.
std::uint64_t meminfo(std::string_view key) {
  std::ifstream in("/proc/meminfo");
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    const std::size_t digits = line.find_first_of("0123456789");
    std::uint64_t kib = 0;
    if (digits != std::string::npos) std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return kib * 1024;
  }
  return 0;
}

/// What this control group may still take; nothing when there is no limit.
std::optional<std::uint64_t> group_memory_left() {
  const auto number = [](const char* file) -> std::optional<std::uint64_t> {
    std::ifstream in(file);
    std::uint64_t value = 0;
    if (in >> value) return value;
    return std::nullopt;  // "max", or no such file
  };
  for (const auto& [limit_file, used_file] :
       {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const auto limit = number(limit_file);
    const auto used = number(used_file);
    if (limit && used && *limit < (1ULL << 60)) return *limit > *used ? *limit - *used : 0;
  }
  return std::nullopt;
}

std::string import_of(const std::string& framework) {
  if (framework == "onnxruntime") return "onnxruntime";
  if (framework == "pytorch" || framework == "torch") return "torch";
  if (framework == "tensorflow") return "tensorflow";
  return {};
}

struct HostPort {
  std::string host, port;
};

/// Of "tcp://host:port" and "tcp://[v6]:port"; nothing for other schemes.
std::optional<HostPort> host_port(const std::string& url) {
  constexpr std::string_view kScheme = "tcp://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  std::string rest = url.substr(kScheme.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = rest.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return HostPort{host, rest.substr(colon + 1)};
}

/// 0 when the address can be had, else the reason's errno.
int try_to_listen(const HostPort& at) {
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(at.host.empty() || at.host == "*" ? nullptr : at.host.c_str(), at.port.c_str(), &wanted, &found) !=
      0) {
    return EADDRNOTAVAIL;
  }
  const int descriptor = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  int reason = 0;
  if (descriptor < 0) {
    reason = errno;
  } else {
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 || ::listen(descriptor, 1) != 0) reason = errno;
    ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return reason;
}

Finding check_port(const std::string& role, const std::string& url, const fs::path& socket) {
  Finding finding{.check = "port of " + role, .verdict = Verdict::ok, .what = url, .advice = {}};
  const std::optional<HostPort> at = host_port(url);
  if (!at) {
    finding.what += ": not a tcp:// address, not looked at";
    return finding;
  }
  const int reason = try_to_listen(*at);
  if (reason == 0) {
    finding.what += " is free";
    return finding;
  }
  const Outcome<std::string> status = serving::ask_control_now(socket, R"({"command":"status"})", milliseconds(2000));
  if (reason == EADDRINUSE && status) {
    finding.what += ": our own " + role + " listens there";
    return finding;
  }
  finding.verdict = Verdict::fail;
  finding.what += ": " + std::string(std::strerror(reason));
  finding.advice = reason == EADDRINUSE
                       ? "another program listens there (ss -ltnp shows which): change [" + role + "] listen"
                       : "change [" + role + "] listen in gearbox.toml";
  return finding;
}

}  // namespace

std::vector<Finding> check_kernel() {
  std::vector<Finding> out;
  const int memory = ::memfd_create("gearbox-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  out.push_back(
      {"memfd", memory >= 0 ? Verdict::ok : Verdict::fail,
       memory >= 0 ? "shared memory is passed, not named; /dev/shm does not matter" : std::strerror(errno),
       memory >= 0 ? "" : "a Linux kernel of 3.17 or later is needed, and a sandbox that allows memfd_create"});
  if (memory >= 0) ::close(memory);
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  out.push_back({"pidfd", process >= 0 ? Verdict::ok : Verdict::fail,
                 process >= 0 ? "processes can be watched" : std::strerror(errno),
                 process >= 0 ? "" : "a Linux kernel of 5.3 or later is needed, and a sandbox that allows pidfd_open"});
  if (process >= 0) ::close(process);
  return out;
}

std::vector<Finding> check_descriptors(const config::Config& config) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::uint64_t wanted =
      (config.node.enabled ? config.node.limits.max_connections : config.central.max_connections) + 256ULL;
  Finding finding{.check = "descriptors", .verdict = Verdict::ok, .what = {}, .advice = {}};
  finding.what = std::to_string(limit.rlim_max) + " allowed, " + std::to_string(wanted) + " wanted for all connections";
  if (limit.rlim_max < wanted) {
    finding.verdict = Verdict::warn;
    finding.advice = "raise LimitNOFILE / ulimit -Hn, or lower max_connections: past the limit new connections wait";
  }
  return {finding};
}

std::vector<Finding> check_memory(const config::Config& config) {
  if (!config.node.enabled) return {};
  std::uint64_t workers = 0;
  for (const config::WorkerConfig& worker : config.workers) workers += worker.count;
  const std::uint64_t arenas = config.node.limits.input_arena_bytes + workers * config.node.limits.output_arena_bytes;
  std::uint64_t models = 0;
  for (const config::WorkerConfig& worker : config.workers) {
    const model::Record* record =
        config::find_model(config, worker.model, worker.version.empty() ? "latest" : worker.version);
    if (record != nullptr) models += worker.count * (record->memory_mb << 20);
  }
  std::uint64_t there = meminfo("MemAvailable");
  if (const auto left = group_memory_left()) there = std::min(there, *left);
  Finding finding{.check = "memory", .verdict = Verdict::ok, .what = {}, .advice = {}};
  finding.what =
      bytes_text(there) + " available; arenas take " + bytes_text(arenas) + ", models about " + bytes_text(models);
  if (arenas > there) {
    finding.verdict = Verdict::fail;
    finding.advice = "lower input_arena_mb, output_arena_mb or the number of workers: arenas are claimed at start";
  } else if (arenas + models > there) {
    finding.verdict = Verdict::warn;
    finding.advice = "the models may not fit beside the arenas: fewer workers, or more memory";
  }
  return {finding};
}

std::vector<Finding> check_environments(const config::Config& config, const config::StateDir& state) {
  std::vector<Finding> out;
  for (const auto& [name, env] : config.envs) {
    Finding finding{.check = "environment " + name, .verdict = Verdict::ok, .what = {}, .advice = {}};
    const fs::path python = fs::path(env.python).is_absolute() ? fs::path(env.python) : state.envs() / env.python;
    std::set<std::string> imports = {"numpy"};
    for (const config::WorkerConfig& worker : config.workers) {
      if (worker.env != name) continue;
      const model::Record* record =
          config::find_model(config, worker.model, worker.version.empty() ? "latest" : worker.version);
      if (record != nullptr && !import_of(record->framework).empty()) imports.insert(import_of(record->framework));
    }
    std::string program = "import sys";
    std::string names;
    for (const std::string& word : imports) {
      program += "\nimport " + word;
      names += (names.empty() ? "" : ", ") + word;
    }
    program += "\nprint(sys.version.split()[0])";
    std::error_code error;
    if (!fs::exists(python, error)) {
      finding.verdict = Verdict::fail;
      finding.what = python.string() + " does not exist";
      finding.advice = "make it: scripts/make-env NAME " + (state.envs() / name).string() +
                       " (NAME: one of configs/envs), or correct [env." + name + "] python";
    } else if (const Outcome<ProgramEnd> end = run_program({python.string(), "-I", "-c", program}, milliseconds(60000));
               !end) {
      finding.verdict = Verdict::fail;
      finding.what = end.error().detail;
      finding.advice = "correct [env." + name + "] python";
    } else if (end.value().exit_code != 0) {
      std::string_view text = end.value().output;
      while (text.ends_with('\n')) text.remove_suffix(1);
      finding.verdict = Verdict::fail;
      finding.what =
          end.value().timed_out ? "its Python did not answer in a minute" : escaped(text.substr(text.rfind('\n') + 1));
      finding.advice = "install what is missing into " + python.string();
    } else {
      std::string_view version = end.value().output;
      while (version.ends_with('\n')) version.remove_suffix(1);
      version = version.substr(version.rfind('\n') + 1);
      if (!version.starts_with("3.")) {  // it ended well and printed nothing of what was asked
        finding.verdict = Verdict::fail;
        finding.what = python.string() + " is no Python 3";
        finding.advice = "correct [env." + name + "] python";
      } else {
        finding.what = "Python " + escaped(version, 32) + " imports " + names;
      }
    }
    out.push_back(std::move(finding));
  }
  return out;
}

std::vector<Finding> check_ports(const config::Config& config, const config::StateDir& state) {
  std::vector<Finding> out;
  if (config.central.enabled) out.push_back(check_port("central", config.central.listen, state.central_socket()));
  if (config.node.enabled) out.push_back(check_port("node", config.node.listen, state.node_socket()));
  return out;
}

std::vector<Finding> check_state_folder(const config::StateDir& state) {
  std::vector<Finding> out;
  struct stat info {};
  Finding folder{.check = "state folder", .verdict = Verdict::ok, .what = state.root.string(), .advice = {}};
  if (::stat(state.root.c_str(), &info) != 0 || ::access(state.root.c_str(), W_OK) != 0) {
    folder.verdict = Verdict::fail;
    folder.what += ": " + std::string(std::strerror(errno));
    folder.advice = "give another one with --state, or make it writable for the broker's user";
  }
  out.push_back(std::move(folder));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(state.keys(), error)) {
    if (::stat(entry.path().c_str(), &info) != 0 || (info.st_mode & 077) == 0) continue;
    out.push_back({"key file", Verdict::fail, entry.path().string() + " can be read by others",
                   "chmod 600 " + entry.path().string() + ", and make new keys if somebody else had access"});
  }
  const fs::space_info space = fs::space(state.root, error);
  if (!error && space.available < (256ULL << 20)) {
    out.push_back({"disk", Verdict::warn, bytes_text(space.available) + " left for logs and results",
                   "lower [node.store] max_mb, or make room"});
  }
  return out;
}

std::vector<Finding> check_clock() {
  Finding finding{.check = "clock", .verdict = Verdict::ok, .what = "synchronised", .advice = {}};
  timex now{};
  const int state = ::adjtimex(&now);
  constexpr std::int64_t kYear2024 = 1'704'067'200;
  if (::time(nullptr) < kYear2024) {
    finding.verdict = Verdict::warn;
    finding.what = "the wall clock stands before 2024";
    finding.advice = "set it: tickets and results are dated by central's clock (no timeout depends on it)";
  } else if (state < 0 || state == TIME_ERROR) {
    finding.what = "not known to be synchronised; only dates depend on it, no timeout does";
  }
  return {finding};
}

}  // namespace gearbox::cli
