#include "gpu/monitor.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "gpu/nvml.hpp"

namespace gearbox::gpu {

const Gpu* find(const Look& look, std::string_view name) {
  const auto found = std::find_if(look.gpus.begin(), look.gpus.end(), [&](const Gpu& gpu) {
    return (!gpu.uuid.empty() && gpu.uuid == name) || std::to_string(gpu.index) == name;
  });
  return found == look.gpus.end() ? nullptr : &*found;
}

void bar_invisible(std::vector<Gpu>& gpus, std::string_view visible) {
  const auto is_named = [&](const Gpu& gpu) {
    for (std::string_view rest = visible; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view one = rest.substr(0, comma);
      if (one == std::to_string(gpu.index) || (one.starts_with("GPU-") && gpu.uuid.starts_with(one))) return true;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return false;
  };
  for (Gpu& gpu : gpus) {
    if (gpu.error.empty() && !is_named(gpu)) gpu.error = "the node's own CUDA_VISIBLE_DEVICES does not name it";
  }
}

/// Shared with the thread, which may outlive the monitor.
struct Monitor::State {
  explicit State(Setup given) : setup(std::move(given)) {}

  const Setup setup;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable woken;
  bool hurry = false;
  bool stopping = false;
  bool ended = false;

  // The thread's own.
  std::unique_ptr<Nvml> nvml;
  bool ever_seen = false;

  void run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the strand's
    pthread_setname_np(pthread_self(), "gpus");
    while (wait(tell(look()))) {
    }
    nvml.reset();
    const std::lock_guard lock(mutex);
    ended = true;
    woken.notify_all();
  }

  Look look() {
    Look now;
    now.at = Clock::now();  // before the figures: what ends or comes from here on may be missing from them
    Outcome<std::vector<Gpu>> read = std::vector<Gpu>();
    if (!nvml) {
      Outcome<std::unique_ptr<Nvml>> opened = Nvml::open(setup.library);
      if (opened) {
        nvml = std::move(opened).value();
      } else {
        read = opened.error();
      }
    }
    if (nvml) read = nvml->read();
    if (!read) {
      nvml.reset();
      now.sight = ever_seen ? Sight::lost : Sight::none;
      now.why = read.error().detail;
      return now;
    }
    ever_seen = true;
    now.sight = Sight::seen;
    now.gpus = std::move(read).value();
    if (setup.visible) bar_invisible(now.gpus, *setup.visible);
    return now;
  }

  /// Returns for how long it holds.
  milliseconds tell(Look now) {
    const milliseconds pause = now.sight == Sight::seen ? setup.every : setup.again;
    const std::lock_guard lock(mutex);
    if (!stopping) setup.told(std::move(now));
    return pause;
  }

  /// False: it is over.
  bool wait(milliseconds pause) {
    std::unique_lock lock(mutex);
    const bool may_hurry = nvml != nullptr;
    woken.wait_for(lock, pause, [&] { return stopping || (may_hurry && hurry); });
    hurry = false;
    return !stopping;
  }
};

Monitor::Monitor(std::shared_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<Monitor>> Monitor::start(Setup setup) {
  auto state = std::make_shared<State>(std::move(setup));
  try {
    state->thread = std::thread([state] { state->run(); });
  } catch (const std::system_error& error) {
    return Error{Errc::no_space, std::string("no thread to look at the GPUs: ") + error.what()};
  }
  return std::unique_ptr<Monitor>(new Monitor(std::move(state)));
}

Monitor::~Monitor() {
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->woken.notify_all();
    ended = state_->woken.wait_for(lock, kPatience, [&] { return state_->ended; });
  }
  if (ended) {
    state_->thread.join();
  } else {
    state_->thread.detach();
  }
}

void Monitor::look_now() {
  const std::lock_guard lock(state_->mutex);
  state_->hurry = true;
  state_->woken.notify_all();
}

}  // namespace gearbox::gpu
