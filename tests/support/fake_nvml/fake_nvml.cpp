// fake_nvml: passes for libnvidia-ml.so.1. What it tells is read from the file $FAKE_NVML at each call that begins a
// look (nvmlInit_v2, nvmlDeviceGetCount_v2), so that a test can change it under a running broker:
//
//   init 9                         nvmlInit_v2 answers 9 (driver not loaded)
//   count_error 999                nvmlDeviceGetCount_v2 does
//   hang FIFO                      nvmlDeviceGetCount_v2 returns when who writes to that pipe has closed it
//   gpu UUID TOTAL_MB USED_MB BUSY one line each; BUSY "-": not supported
//   error INDEX CODE               that GPU's handle cannot be had
//   memory_error INDEX CODE        its memory cannot
//   process INDEX PID USED_MB      computes there; USED_MB "-": not told
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Process {
  unsigned int pid = 0;
  unsigned long long used = 0;
};
struct FakeGpu {
  std::string uuid;
  unsigned long long total = 0, used = 0;
  int busy = -1;
  int error = 0, memory_error = 0;
  std::vector<Process> processes;
};
struct State {
  int init = 0, count_error = 0;
  std::string hang;
  std::vector<FakeGpu> gpus;
};
// Never destroyed, since one that hangs may outlive main(); emptied by nvmlShutdown.
alignas(State) unsigned char storage[sizeof(State)];
State& state = *new (storage) State;
// As in the real library: a thread that hung in it may come back while another one looks.
std::mutex mutex;
constexpr unsigned long long kMb = 1ULL << 20;

void read_state() {
  state = State();
  const char* const path = std::getenv("FAKE_NVML");
  std::ifstream file(path != nullptr ? path : "");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    std::string text;
    unsigned int index = 0;
    words >> what;
    if (what == "init") words >> state.init;
    if (what == "count_error") words >> state.count_error;
    if (what == "hang") words >> state.hang;
    if (what == "gpu") {
      FakeGpu gpu;
      words >> gpu.uuid >> gpu.total >> gpu.used >> text;
      gpu.total *= kMb;
      gpu.used *= kMb;
      gpu.busy = text == "-" ? -1 : std::atoi(text.c_str());
      state.gpus.push_back(gpu);
    }
    if (what == "error" && words >> index && index < state.gpus.size()) words >> state.gpus[index].error;
    if (what == "memory_error" && words >> index && index < state.gpus.size()) words >> state.gpus[index].memory_error;
    if (what == "process" && words >> index && index < state.gpus.size()) {
      Process process;
      words >> process.pid >> text;
      process.used = text == "-" ? ~0ULL : std::strtoull(text.c_str(), nullptr, 10) * kMb;
      state.gpus[index].processes.push_back(process);
    }
  }
}

/// A handle is the index + 1. One that is gone meanwhile has no properties.
FakeGpu gpu_of(void* device) {
  const std::lock_guard lock(mutex);
  const std::size_t index = reinterpret_cast<std::size_t>(device) - 1;
  return index < state.gpus.size() ? state.gpus[index] : FakeGpu();
}

int put(const std::string& text, char* into, unsigned int bytes) {
  if (text.size() + 1 > bytes) return 7;
  std::memcpy(into, text.c_str(), text.size() + 1);
  return 0;
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE int nvmlInit_v2() {
  const std::lock_guard lock(mutex);
  read_state();
  return state.init;
}
FAKE int nvmlShutdown() {
  const std::lock_guard lock(mutex);
  state = State();
  return 0;
}
FAKE const char* nvmlErrorString(int code) {
  if (code == 9) return "Driver Not Loaded";
  if (code == 15) return "GPU is lost";
  return "Unknown Error";
}
FAKE int nvmlDeviceGetCount_v2(unsigned int* count) {
  std::string hang;
  {
    const std::lock_guard lock(mutex);
    read_state();
    hang = state.hang;
  }
  if (!hang.empty()) std::ifstream(hang).ignore(std::numeric_limits<std::streamsize>::max());
  const std::lock_guard lock(mutex);
  *count = static_cast<unsigned int>(state.gpus.size());
  return state.count_error;
}
FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  const std::lock_guard lock(mutex);
  if (index >= state.gpus.size()) return 2;
  *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
  return state.gpus[index].error;
}
#ifndef FAKE_NVML_WITHOUT_UUID
FAKE int nvmlDeviceGetUUID(void* device, char* into, unsigned int bytes) {
  return put(gpu_of(device).uuid, into, bytes);
}
#endif
FAKE int nvmlDeviceGetName(void* device, char* into, unsigned int bytes) {
  return put("Fake " + std::to_string(gpu_of(device).total / kMb), into, bytes);
}
FAKE int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  const FakeGpu gpu = gpu_of(device);
  memory[0] = gpu.total;
  memory[1] = gpu.total - gpu.used;
  memory[2] = gpu.used;
  return gpu.memory_error;
}
FAKE int nvmlDeviceGetUtilizationRates(void* device, unsigned int* busy) {
  const int percent = gpu_of(device).busy;
  busy[0] = static_cast<unsigned int>(percent);
  busy[1] = 0;
  return percent < 0 ? 3 : 0;
}
FAKE int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count, void* into) {
  struct Info {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
  };
  const std::vector<Process> processes = gpu_of(device).processes;
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(processes.size());
  if (processes.size() > room) return 7;
  auto* const infos = static_cast<Info*>(into);
  for (std::size_t i = 0; i < processes.size(); ++i) infos[i] = {processes[i].pid, processes[i].used, ~0U, ~0U};
  return 0;
}
