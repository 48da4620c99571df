// gpu_watch.hpp: brings what NVML says of this host's GPUs to the node's strand, and says in the log when that changes.
#pragma once

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>

#include "gearbox/base/outcome.hpp"
#include "gpu/gpu.hpp"
#include "gpu/monitor.hpp"

namespace gearbox::node {

class GpuWatch {
 public:
  /// The environment variable that names another library than NVML's own. Tests bring theirs.
  static constexpr const char* kLibraryVariable = "GEARBOX_NVML";

  /// `seen` is called on the strand with each look, never after the watch is gone. Errors: no_space (no thread).
  static Outcome<std::unique_ptr<GpuWatch>> start(boost::asio::io_context& io, std::function<void(gpu::Look)> seen);
  /// Waits for a look that is under way, within a bound; see gpu::Monitor.
  ~GpuWatch();
  void look_now();

 private:
  struct Strand;
  explicit GpuWatch(std::shared_ptr<Strand> strand);
  std::shared_ptr<Strand> strand_;
  std::unique_ptr<gpu::Monitor> monitor_;
};

}  // namespace gearbox::node
