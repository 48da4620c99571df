#include "plugin_host/swap_gate.hpp"

#include <pthread.h>
#include <signal.h>
#include <sodium.h>

#include <array>
#include <utility>

#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/gate_answer.hpp"
#include "plugin_host/gate_folder.hpp"
#include "plugin_host/limited_child.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

constexpr milliseconds kRecordWall{30'000};
constexpr milliseconds kTryAgain{30'000};
constexpr std::size_t kMostAnswerBytes = 256 * 1024;

SwapGate::Standing waits(std::string reason) {
  SwapGate::Standing standing;
  standing.reason = std::move(reason);
  standing.look_again = after(Clock::now(), kTryAgain);
  return standing;
}

SwapGate::Standing refused(std::string reason) {
  SwapGate::Standing standing;
  standing.what = SwapGate::Standing::What::refused;
  standing.reason = escaped(reason, 480);
  return standing;
}

/// The last line that somebody wrote, without the program's name.
std::string last_line(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::size_t line = text.rfind('\n');
  if (line != std::string_view::npos) text.remove_prefix(line + 1);
  constexpr std::string_view kName = "broker: ";
  if (text.starts_with(kName)) text.remove_prefix(kName.size());
  return escaped(text, 300);
}

}  // namespace

std::string shown(const SwapPart& part) {
  return part.version + " (" + part.checksum.substr(0, 12) + ")";
}

std::string Swap::pair() const {
  std::string text;
  for (const SwapPart* part : {&candidate, &against})
    text += part->kind + '\n' + part->name + '\n' + part->checksum + '\n' + options_text(part->options);
  text += gate.trace + '\n' + gate.cluster.string() + '\n' + std::to_string(gate.tolerance_percent) + '\n';
  for (const fs::path& model : gate.models) text += model.string() + '\n';
  std::array<std::byte, 32> hash{};
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  return to_hex(hash);
}

SwapGate::SwapGate(HostPaths paths, std::function<void()> ended) : paths_(std::move(paths)), ended_(std::move(ended)) {}

SwapGate::~SwapGate() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

SwapGate::Standing SwapGate::ask(const Swap& swap) {
  const std::string pair = swap.pair();
  Standing standing;
  {
    const std::lock_guard held(mutex_);
    if (running_) {
      standing.reason = pair == pair_ ? "is being replayed against " + shown(swap.against)
                                      : "is replayed when another plugin has been";
      return standing;
    }
    const bool known = pair == pair_ && standing_.look_again > Clock::now();
    // A judgement is given once: whoever asks again wants another one.
    if (known && standing_.what != Standing::What::waits) pair_.clear();
    if (known) return standing_;
    if (stop_) {
      standing.reason = "the broker is stopping";
      return standing;
    }
    running_ = true;
    pair_ = pair;
  }
  if (thread_.joinable()) thread_.join();  // it has ended, or is about to: its last act was to say so
  thread_ = std::thread([this, swap] { run(swap); });
  standing.reason = "is being replayed against " + shown(swap.against);
  return standing;
}

void SwapGate::run(const Swap& swap) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "gate");
  Standing standing = replay(swap);
  {
    const std::lock_guard held(mutex_);
    standing_ = std::move(standing);
    running_ = false;
  }
  ended_();
}

/// All that may go wrong on our side is waited for: it says nothing about the plugin. What the child does by itself
/// (crash, hang, nonsense) is held against the candidate.
SwapGate::Standing SwapGate::replay(const Swap& swap) {
  const GateFolder folder(paths_);
  if (const auto made = folder.fill(swap, paths_.copies); !made)
    return waits("the replay cannot be prepared: " + describe(made.error()));
  fs::path trace = swap.gate.trace;
  ChildTask task;
  task.program = paths_.checker;
  task.temporary = folder.path() / "tmp";
  if (swap.gate.trace.empty()) {
    trace = folder.path() / "traffic.csv";
    task.words = {"replay", "record", "--out", trace.string(), "--state", paths_.state.string()};
    task.wall = kRecordWall;
    task.errors_too = true;
    task.most_bytes = 4096;
    const Outcome<ChildEnd> ran = run_child(task, &stop_);
    if (!ran) return waits("the recorded traffic cannot be had: " + ran.error().detail);
    if (ran.value().how != ChildEnd::How::exited || ran.value().number != 0)
      return waits("the recorded traffic cannot be had: " + last_line(ran.value().output));
    const std::uint64_t there = requests_in(trace);
    if (there < swap.gate.least_requests) {
      return waits("nothing to replay: the node has recorded " + std::to_string(there) + " requests, " +
                   std::to_string(swap.gate.least_requests) + " are needed (plugins.gate_least_requests)");
    }
  }
  task.words = {"replay",
                "gate",
                "--child",
                "--trace",
                trace,
                "--cluster",
                swap.gate.cluster,
                "--candidate",
                folder.path() / "candidate",
                "--against",
                folder.path() / "against",
                "--tolerance",
                std::to_string(swap.gate.tolerance_percent)};
  for (const fs::path& model : swap.gate.models) {
    task.words.emplace_back("--model");
    task.words.push_back(model.string());
  }
  task.wall = std::chrono::duration_cast<milliseconds>(swap.gate.limit);
  task.errors_too = false;
  task.most_bytes = kMostAnswerBytes;
  const Outcome<ChildEnd> ran = run_child(task, &stop_);
  if (!ran) return waits("the replay cannot be started: " + ran.error().detail);
  const ChildEnd& end = ran.value();
  const GateAnswer answer = read_gate_answer(end.output);
  switch (end.how) {
    case ChildEnd::How::stopped:
      return waits("the broker is stopping");
    case ChildEnd::How::late:
      return refused(answer.while_text() + "no end within " + std::to_string(swap.gate.limit.count()) +
                     " s (plugins.gate_limit_s)");
    case ChildEnd::How::signalled:
      return refused(answer.while_text() + "crashed: " + signal_name(end.number));
    default:
      break;
  }
  if (!answer.setting_fault.empty()) return waits("the replay cannot be made: " + answer.setting_fault);
  if (!answer.candidate_fault.empty()) return refused(answer.candidate_fault);
  if (!answer.whole || end.number != 0) {
    return refused(answer.while_text() + "the replay ended with exit code " + std::to_string(end.number) +
                   " and no result");
  }
  // What is put in force is byte for byte what was judged, and held against what serves.
  if (!answer.took_part("candidate", swap.candidate) || !answer.took_part("against", swap.against)) {
    return waits("the replay did not run these builds of the " + swap.candidate.kind +
                 (swap.candidate.kind == "gear" ? "; of plugins.gate_model's kinds only a decoder has gears" : ""));
  }
  if (!answer.passes) return refused("worse: " + answer.worst);
  Standing standing;
  standing.what = Standing::What::passes;
  standing.requests = answer.requests;
  return standing;
}

}  // namespace gearbox::plugin_host
