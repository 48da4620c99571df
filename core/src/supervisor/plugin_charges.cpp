#include "supervisor/plugin_charges.hpp"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "gearbox/base/text.hpp"
#include "plugin_host/build_book.hpp"
#include "serving/exit_codes.hpp"

namespace gearbox::supervisor {

using plugin_host::CallBeing;

namespace {

constexpr std::size_t kShortChecksum = 12;

/// A signal that a process brings on itself. SIGKILL and SIGTERM come from outside: from people, or from a kernel that
/// is out of memory.
bool is_crash(int signal) {
  constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
  return std::find(kCrashes.begin(), kCrashes.end(), signal) != kCrashes.end();
}

std::string name_of_signal(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

/// A connect waits for somebody far away, as long as its deadline allows: while other calls are under way it is never
/// the one to blame.
bool waits_for_others(const CallBeing& call) {
  return call.kind == "transport" && call.function == "connect";
}

/// Of `calls` (the last begun first) the one to blame; nullptr when there are none.
const CallBeing* last_begun(const std::vector<CallBeing>& calls) {
  const auto found =
      std::find_if(calls.begin(), calls.end(), [](const CallBeing& call) { return !waits_for_others(call); });
  if (found != calls.end()) return &*found;
  return calls.empty() ? nullptr : &calls.front();
}

const CallBeing* past_its_time(const std::vector<CallBeing>& calls, Instant now) {
  const bool others =
      std::any_of(calls.begin(), calls.end(), [](const CallBeing& call) { return !waits_for_others(call); });
  const auto found = std::find_if(calls.begin(), calls.end(), [&](const CallBeing& call) {
    return call.hung_after < now && !(others && waits_for_others(call));
  });
  return found == calls.end() ? nullptr : &*found;
}

std::string text_of(Clock::duration time) {
  const auto ms = std::chrono::duration_cast<milliseconds>(time).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

std::int64_t unix_ms_now() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string how_it_ended(const Ended& ended, const CallBeing& call) {
  if (ended.signal != 0)
    return "crashed " + ended.role + " (" + name_of_signal(ended.signal) + " in " + call.function + ")";
  return "ended " + ended.role + " (exit code " + std::to_string(ended.exit_code) + " in " + call.function + ")";
}

}  // namespace

void PluginCharges::role_starts(const std::string& role) {
  suspects_.erase(role);
  hung_.erase(role);
  std::error_code error;  // one that cannot be removed is made anew by the role
  std::filesystem::remove(state_.calling_record(role), error);
}

PluginCharges::Verdict PluginCharges::role_ended(const Ended& ended) {
  const std::filesystem::path file = state_.calling_record(ended.role);
  const auto calls = plugin_host::calls_under_way(file);
  std::error_code error;
  std::filesystem::remove(file, error);
  suspects_.erase(ended.role);
  const auto hung = hung_.find(ended.role);
  if (hung != hung_.end()) {
    const Hung before = hung->second;
    hung_.erase(hung);
    // The blame was laid when it was killed.
    if (before.pid == ended.pid) return {.to_blame = false, .at_once = before.at_once, .line = {}};
  }
  // Of an adopted role neither signal nor exit code is known (both went to its new parent): a crash looks like a kill,
  // and nobody is charged. It is started again as a child of ours, whose next crash is known. That it hangs is known.
  // One that ended because its lead was over did so on a thread of its own, beside whatever call was under way.
  const bool lead_lost = ended.signal == 0 && ended.exit_code == serving::kExitLeadLost;
  const bool own_doing = is_crash(ended.signal) || (ended.signal == 0 && ended.exit_code >= 0 && !lead_lost);
  if (ended.asked || !own_doing || !calls) return {};
  const CallBeing* call = last_begun(calls.value());
  if (call == nullptr) return {};
  return charge(*call, how_it_ended(ended, *call));
}

PluginCharges::Verdict PluginCharges::look(const std::string& role, int pid, Instant now) {
  const auto calls = plugin_host::calls_under_way(state_.calling_record(role));
  const CallBeing* call = calls ? past_its_time(calls.value(), now) : nullptr;
  if (call == nullptr || is_stopped(pid)) {
    suspects_.erase(role);
    return {};
  }
  const auto killed = hung_.find(role);
  if (killed != hung_.end() && killed->second.pid == pid) return {};  // its end is under way
  // Looked at twice: after a stop (of the process or of the whole machine) a call may be past its time and yet go on.
  Suspect& before = suspects_[role];
  const bool same = before.pid == pid && before.place == call->place && before.turn == call->turn;
  before = {pid, call->place, call->turn};
  if (!same) return {};
  suspects_.erase(role);
  Verdict verdict = charge(*call, "hung " + role + " (" + call->function + " did not return for " +
                                      text_of(call->hung_after - call->begun) + ")");
  hung_[role] = {pid, verdict.at_once};
  return verdict;
}

PluginCharges::Verdict PluginCharges::charge(const CallBeing& call, const std::string& reason) {
  Verdict verdict;
  verdict.to_blame = true;
  verdict.line = "plugin " + call.name + " " + call.version + " (" + call.kind + ", " +
                 call.checksum.substr(0, kShortChecksum) + ") " + reason;
  const std::filesystem::path copies = state_.plugin_copies();
  const auto book = plugin_host::read_book(copies);
  // Without a bar that is new, the role would take the same build again: then it gets the usual, growing pause.
  if (book && book.value().bar_of(call.checksum) != nullptr) {
    verdict.line += ", although it is barred";
    return verdict;
  }
  plugin_host::Bar bar;
  bar.kind = call.kind;
  bar.name = call.name;
  bar.version = call.version;
  bar.checksum = call.checksum;
  bar.reason = reason;
  bar.since_unix_ms = unix_ms_now();
  const auto written = plugin_host::bar(copies, bar);
  verdict.at_once = written.has_value();
  verdict.line += written ? " and is barred" : " and cannot be barred: " + escaped(written.error().detail, 512);
  return verdict;
}

}  // namespace gearbox::supervisor
