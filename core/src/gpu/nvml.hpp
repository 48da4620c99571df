// nvml.hpp: NVIDIA's management library, opened at run time where there is one, and what it says of the GPUs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gpu/gpu.hpp"
#include "gpu/nvml_abi.hpp"

namespace gearbox::gpu {

/// Threads: one at a time; its calls take milliseconds, with a GPU in trouble seconds, so never the node's strand.
class Nvml {
 public:
  /// What the dynamic linker looks for where nothing else is said.
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  /// Opens the library and initialises it. Errors: not_found (no such library), unsupported_version (it lacks a
  /// function, which is named), io_error (it cannot be initialised: its own words).
  static Outcome<std::unique_ptr<Nvml>> open(const std::string& library);
  ~Nvml();  // shuts it down and lets go of the library
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// All GPUs, by index. One that gives errors is told of with its `error`, and does not hide the others.
  /// Errors: io_error when not even their number is to be had: open it anew.
  Outcome<std::vector<Gpu>> read();

 private:
  Nvml() = default;
  Outcome<void> find_functions(const std::string& library);
  std::string failure(const char* what, nvml::Return code) const;
  Gpu read_one(unsigned int index);
  void read_processes(nvml::Device device, Gpu& gpu) const;

  void* library_ = nullptr;
  bool initialised_ = false;
  nvml::Functions call_;
  std::vector<Gpu> known_;  // uuid and name by index, so that a lost GPU can still be called by its name
};

}  // namespace gearbox::gpu
