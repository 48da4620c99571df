// skewed_clock.c: preloaded into every process of an installation, it puts the wall clock forward or back by what a file
// holds (an int64 of seconds), and leaves all other clocks alone. For test_clock_jumps.py.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* skew_;

__attribute__((constructor)) static void open_skew(void) {
  const char* file = getenv("GEARBOX_SKEW_FILE");
  if (file == NULL) return;
  const int descriptor = open(file, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  void* memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (memory != MAP_FAILED) skew_ = memory;
}

static int64_t skew(void) {
  return skew_ == NULL ? 0 : *skew_;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec* at) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int failed = real(clock, at);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += skew();
  return failed;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval* restrict at, void* restrict zone) {
  (void)zone;
  struct timespec now;
  const int failed = clock_gettime(CLOCK_REALTIME, &now);
  if (failed == 0) {
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
  }
  return failed;
}

__attribute__((visibility("default"))) time_t time(time_t* at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}
