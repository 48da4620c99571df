// monitor.hpp: looks at the GPUs once a second, on a thread of its own: NVML may take its time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gpu/gpu.hpp"

namespace gearbox::gpu {

class Monitor {
 public:
  struct Setup {
    std::string library;  // Nvml::kLibrary, or where else it lies
    /// CUDA_VISIBLE_DEVICES of this process: workers are put on no other GPU. Nothing: all may be used.
    std::optional<std::string> visible;
    milliseconds every{1000};    // between two looks
    milliseconds again{10'000};  // after an error, until the library is opened anew
    /// Told each look, on the monitor's thread; must not wait. Not called any more once the monitor's destructor has
    /// begun to return.
    std::function<void(Look)> told;
  };
  /// Errors: no_space, when there is no thread to be had.
  static Outcome<std::unique_ptr<Monitor>> start(Setup setup);
  /// Waits at most kPatience for a look that is under way: a driver in trouble does not hold the node; the thread then
  /// ends by itself, or with the process.
  ~Monitor();
  static constexpr milliseconds kPatience{2000};

  /// Looks again soon, if there is an NVML. Any thread.
  void look_now();

 private:
  struct State;
  explicit Monitor(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Sets the error of each GPU that `visible`, a CUDA_VISIBLE_DEVICES, does not name by index or by the beginning of its
/// UUID.
void bar_invisible(std::vector<Gpu>& gpus, std::string_view visible);

}  // namespace gearbox::gpu
