// swap_gate.hpp: plugins.gate: a balancer or gear policy that would take another one's place is replayed against it
// first, by a child process (`broker replay gate`) on copies of both files. Here is only what prepares that, waits for
// it and reads what came out, on a thread of its own: nothing of it runs where requests are served.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugin_host/option_values.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

/// One build with its options. Its private copy lies in the folder of copies.
struct SwapPart {
  std::string kind, name, version, checksum;
  Given options;
};

/// May `candidate` take the place of `against`?
struct Swap {
  SwapPart candidate, against;   // of the same kind
  std::vector<SwapPart> others;  // what else a replay needs: the balancers and the policy that are in force
  config::GateConfig gate;

  /// Tells this question from others: both builds, their options, and what they are replayed on. 64 hexadecimal digits.
  std::string pair() const;
};

/// "2.0 (3f9a01c26b7e)"
std::string shown(const SwapPart& part);

class SwapGate {
 public:
  /// `ended` is called from the gate's thread when there is something new to be asked for; must not block.
  SwapGate(HostPaths paths, std::function<void()> ended);
  /// Ends a replay under way.
  ~SwapGate();
  /// The same, and lets no other begin. Any thread.
  void interrupt() { stop_ = true; }

  struct Standing {
    enum class What { passes, refused, waits } what = What::waits;
    std::string reason;                   // why it is refused, or what it waits for
    Instant look_again = Instant::max();  // of one that waits for traffic, or for what was wrong with the replay
    std::uint64_t requests = 0;           // of one that passes: that were replayed
  };
  /// Begins a replay of `swap` unless there was one, or another one runs. The looking thread's.
  Standing ask(const Swap& swap);

 private:
  void run(const Swap& swap);
  Standing replay(const Swap& swap);

  HostPaths paths_;
  std::function<void()> ended_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::mutex mutex_;  // of what follows
  bool running_ = false;
  std::string pair_;  // of the replay that runs or ran last
  Standing standing_;
};

}  // namespace gearbox::plugin_host
