#include "gpu/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <cstring>

namespace gearbox::gpu {

namespace {
constexpr unsigned int kMostGpus = 256;       // what a count may be before it is taken for nonsense
constexpr unsigned int kMostProcesses = 512;  // of one GPU; beyond that none is told of

template <class Function>
bool find(void* library, const char* name, Function& into) {
  void* const found = ::dlsym(library, name);
  std::memcpy(&into, &found, sizeof found);  // POSIX has both of one size; a cast between them is no C++
  return found != nullptr;
}
}  // namespace

Outcome<std::unique_ptr<Nvml>> Nvml::open(const std::string& library) {
  std::unique_ptr<Nvml> opened(new Nvml);
  opened->library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened->library_ == nullptr) {
    const char* const why = ::dlerror();
    return Error{Errc::not_found, why != nullptr ? why : library + " cannot be opened"};
  }
  BOOST_OUTCOME_TRY(opened->find_functions(library));
  const nvml::Return started = opened->call_.init();
  if (started != nvml::kSuccess) return Error{Errc::io_error, opened->failure("nvmlInit_v2", started)};
  opened->initialised_ = true;
  return opened;
}

Outcome<void> Nvml::find_functions(const std::string& library) {
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& into) {
    if (!find(library_, name, into) && missing == nullptr) missing = name;
  };
  need("nvmlInit_v2", call_.init);
  need("nvmlShutdown", call_.shutdown);
  need("nvmlErrorString", call_.error_string);
  need("nvmlDeviceGetCount_v2", call_.count);
  need("nvmlDeviceGetHandleByIndex_v2", call_.handle);
  need("nvmlDeviceGetUUID", call_.uuid);
  need("nvmlDeviceGetName", call_.name);
  need("nvmlDeviceGetMemoryInfo", call_.memory);
  need("nvmlDeviceGetUtilizationRates", call_.utilization);
  if (missing != nullptr) return Error{Errc::unsupported_version, library + " has no function " + missing};
  find(library_, "nvmlDeviceGetComputeRunningProcesses_v3", call_.processes);  // older drivers do without
  return done();
}

Nvml::~Nvml() {
  if (initialised_) call_.shutdown();
  if (library_ != nullptr) ::dlclose(library_);
}

std::string Nvml::failure(const char* what, nvml::Return code) const {
  const char* const words = call_.error_string(code);
  return std::string(what) + ": " + (words != nullptr ? words : "error " + std::to_string(code));
}

Outcome<std::vector<Gpu>> Nvml::read() {
  unsigned int count = 0;
  const nvml::Return counted = call_.count(&count);
  if (counted != nvml::kSuccess) return Error{Errc::io_error, failure("nvmlDeviceGetCount_v2", counted)};
  if (count > kMostGpus) return Error{Errc::io_error, "nvmlDeviceGetCount_v2: " + std::to_string(count) + " GPUs"};
  std::vector<Gpu> gpus;
  gpus.reserve(count);
  known_.resize(count);
  for (unsigned int index = 0; index < count; ++index) gpus.push_back(read_one(index));
  return gpus;
}

Gpu Nvml::read_one(unsigned int index) {
  Gpu gpu;
  gpu.index = index;
  Gpu& known = known_[index];
  nvml::Device device = nullptr;
  const nvml::Return handed = call_.handle(index, &device);
  if (handed != nvml::kSuccess) {
    gpu.uuid = known.uuid;
    gpu.name = known.name;
    gpu.error = failure("nvmlDeviceGetHandleByIndex_v2", handed);
    return gpu;
  }
  std::array<char, nvml::kTextBytes> text{};
  const auto read_text = [&](auto function, std::string& into) {
    text.fill('\0');
    if (function(device, text.data(), nvml::kTextBytes - 1) == nvml::kSuccess) into = text.data();
  };
  read_text(call_.uuid, known.uuid);
  read_text(call_.name, known.name);
  gpu.uuid = known.uuid;
  gpu.name = known.name;
  nvml::Memory memory{};
  const nvml::Return weighed = call_.memory(device, &memory);
  if (weighed == nvml::kSuccess) {
    gpu.total_bytes = memory.total;
    gpu.used_bytes = memory.used;
  } else if (weighed != nvml::kNotSupported) {  // where memory is shared with the CPU there is no such figure
    gpu.error = failure("nvmlDeviceGetMemoryInfo", weighed);
  }
  nvml::Utilization busy{};
  if (call_.utilization(device, &busy) == nvml::kSuccess) gpu.busy_percent = busy.gpu;
  read_processes(device, gpu);
  return gpu;
}

/// None when that is not told, or processes come faster than they can be listed: the figures of the whole GPU do then.
void Nvml::read_processes(nvml::Device device, Gpu& gpu) const {
  if (call_.processes == nullptr) return;
  std::vector<nvml::ProcessInfo> list(16);
  unsigned int count = 0;
  for (;;) {
    count = static_cast<unsigned int>(list.size());
    const nvml::Return listed = call_.processes(device, &count, list.data());
    if (listed == nvml::kSuccess) break;
    if (listed != nvml::kInsufficientSize || list.size() >= kMostProcesses) return;
    list.resize(list.size() * 2);
  }
  if (count > list.size()) return;
  for (unsigned int i = 0; i < count; ++i) {
    Process& process = gpu.processes.emplace_back();
    process.pid = static_cast<int>(list[i].pid);
    if (list[i].used_gpu_memory != nvml::kNotAvailable) process.used_bytes = list[i].used_gpu_memory;
  }
}

}  // namespace gearbox::gpu
