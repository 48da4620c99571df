// nvml_abi.hpp: the few types and functions of NVML that are used here, as NVIDIA documents them; the library is opened
// at run time, so nothing of it is needed to build. All of its functions may be called from any thread.
#pragma once

#include <cstddef>

namespace gearbox::gpu::nvml {

using Return = int;  // nvmlReturn_t
inline constexpr Return kSuccess = 0;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kGpuIsLost = 15;

struct DeviceOf;
using Device = DeviceOf*;  // nvmlDevice_t

struct Memory {  // nvmlMemory_t, bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(Memory) == 24);

struct Utilization {  // nvmlUtilization_t, percent of the last sample period
  unsigned int gpu;
  unsigned int memory;
};
static_assert(sizeof(Utilization) == 8);

struct ProcessInfo {  // nvmlProcessInfo_v2_t, which the functions named _v3 fill
  unsigned int pid;
  unsigned long long used_gpu_memory;  // bytes, or kNotAvailable
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, used_gpu_memory) == 8);
inline constexpr unsigned long long kNotAvailable = ~0ULL;

inline constexpr unsigned int kTextBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE

struct Functions {
  Return (*init)() = nullptr;                                          // nvmlInit_v2
  Return (*shutdown)() = nullptr;                                      // nvmlShutdown
  const char* (*error_string)(Return) = nullptr;                       // nvmlErrorString
  Return (*count)(unsigned int*) = nullptr;                            // nvmlDeviceGetCount_v2
  Return (*handle)(unsigned int, Device*) = nullptr;                   // nvmlDeviceGetHandleByIndex_v2
  Return (*uuid)(Device, char*, unsigned int) = nullptr;               // nvmlDeviceGetUUID
  Return (*name)(Device, char*, unsigned int) = nullptr;               // nvmlDeviceGetName
  Return (*memory)(Device, Memory*) = nullptr;                         // nvmlDeviceGetMemoryInfo
  Return (*utilization)(Device, Utilization*) = nullptr;               // nvmlDeviceGetUtilizationRates
  Return (*processes)(Device, unsigned int*, ProcessInfo*) = nullptr;  // nvmlDeviceGetComputeRunningProcesses_v3,
                                                                       // null with drivers before 510
};

}  // namespace gearbox::gpu::nvml
