#include "node/gpu_watch.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gearbox/base/text.hpp"
#include "gpu/nvml.hpp"

namespace gearbox::node {

namespace asio = boost::asio;

/// What belongs to the strand; the monitor's thread only posts to it.
struct GpuWatch::Strand {
  std::function<void(gpu::Look)> seen;
  std::optional<gpu::Sight> sight;
  std::map<std::uint32_t, std::string> errors;  // by GPU

  /// Each state once.
  void say(const gpu::Look& look) {
    const bool news = sight != look.sight;
    sight = look.sight;
    if (look.sight != gpu::Sight::seen) {
      if (!news) return;
      const std::string why = escaped(look.why);
      if (look.sight == gpu::Sight::lost) return spdlog::warn("node: NVML answers no more reason=\"{}\"", why);
      return spdlog::info("node: no figures of GPUs, there is no NVML reason=\"{}\"", why);
    }
    if (news)
      spdlog::info("node: NVML tells of {}",
                   look.gpus.size() == 1 ? "one GPU" : std::to_string(look.gpus.size()) + " GPUs");
    for (const gpu::Gpu& gpu : look.gpus) {
      std::string& before = errors[gpu.index];
      if (before == gpu.error) continue;
      before = gpu.error;
      if (gpu.error.empty()) {
        spdlog::info("node: GPU {} can be used again", gpu.index);
      } else {
        spdlog::warn("node: GPU {} gets no workers reason=\"{}\"", gpu.index, escaped(gpu.error));
      }
    }
  }
};

GpuWatch::GpuWatch(std::shared_ptr<Strand> strand) : strand_(std::move(strand)) {}
GpuWatch::~GpuWatch() = default;

Outcome<std::unique_ptr<GpuWatch>> GpuWatch::start(asio::io_context& io, std::function<void(gpu::Look)> seen) {
  std::unique_ptr<GpuWatch> watch(new GpuWatch(std::make_shared<Strand>()));
  watch->strand_->seen = std::move(seen);
  gpu::Monitor::Setup setup;
  const char* const library = std::getenv(kLibraryVariable);
  setup.library = library != nullptr && *library != '\0' ? library : gpu::Nvml::kLibrary;
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) setup.visible = visible;
  setup.told = [&io, strand = std::weak_ptr(watch->strand_)](gpu::Look look) {
    asio::post(io, [strand, look = std::move(look)]() mutable {
      const auto there = strand.lock();
      if (!there) return;
      there->say(look);
      there->seen(std::move(look));
    });
  };
  BOOST_OUTCOME_TRY(watch->monitor_, gpu::Monitor::start(std::move(setup)));
  return watch;
}

void GpuWatch::look_now() {
  monitor_->look_now();
}

}  // namespace gearbox::node
