// Frames in bursts to a consumer that sleeps whenever it finds nothing: a lost wake-up leaves it asleep, which its time
// limit shows; payload that is not visible with its frame has the wrong content.
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include "gearbox/shm/arena.hpp"
#include "gearbox/shm/doorbell.hpp"
#include "gearbox/shm/ring.hpp"
#include "gearbox/shm/spin.hpp"

namespace gearbox::shm {

namespace {
constexpr std::uint64_t kFrames = STRESS_FRAMES;                                      // between processes
constexpr std::uint64_t kThreadFrames = std::min<std::uint64_t>(kFrames, 1'000'000);  // for the thread sanitizer
constexpr std::uint32_t kCapacity = 64;
constexpr std::uint64_t kPlaces = 2 * kCapacity;  // of payload: more than can be on the way
constexpr int kLostAfterMs = 5'000;

struct Shared {
  Fd memory;
  Mapping mapping;
  RingMemory* ring = nullptr;
  std::uint64_t* payload = nullptr;
  Doorbell bell;

  /// The consumer found that it had been left asleep; said through the ring's magic, which nothing else needs here.
  bool given_up() const { return std::atomic_ref(ring->magic).load() == 0; }
  void give_up() { std::atomic_ref(ring->magic).store(0); }

  Shared() {
    const std::uint64_t bytes = ring_bytes(kCapacity) + kPlaces * sizeof(std::uint64_t);
    memory = create_memory("stress", bytes).value();
    mapping = Mapping::map(memory, bytes, Access::read_write).value();
    ring = make_ring(mapping.data(), kCapacity);
    payload = reinterpret_cast<std::uint64_t*>(mapping.data() + ring_bytes(kCapacity));
    bell = Doorbell::create().value();
  }
};

std::uint64_t content(std::uint64_t number) {
  return number * 0x9E3779B97F4A7C15ULL + 1;
}

/// False when the ring is broken.
bool produce(Shared& shared, std::uint64_t frames) {
  RingProducer producer(shared.ring->to_worker, to_worker_entries(shared.ring), kCapacity);
  std::minstd_rand random(7);
  for (std::uint64_t sent = 0; sent < frames;) {
    const std::uint64_t end = std::min<std::uint64_t>(sent + 1 + random() % 6, frames);
    while (sent < end) {
      Descriptor frame{};
      frame.request = sent;
      frame.block_offset = sent % kPlaces;
      // Written before the push fails or not: a place is not in use when its frame is kPlaces behind.
      shared.payload[frame.block_offset] = content(sent);
      auto pushed = producer.push(frame);
      if (pushed) {
        ++sent;
        continue;
      }
      if (pushed.error().code != Errc::overloaded) return false;
      if (producer.publish()) shared.bell.ring();
      std::this_thread::yield();
    }
    if (producer.publish()) shared.bell.ring();
    // Now and then nothing more comes before all is taken: no later frame's doorbell makes up for a lost one.
    if (random() % 4 == 0) {
      while (shared.ring->to_worker.tail.load(std::memory_order_acquire) != sent) {
        if (shared.given_up()) return false;
        std::this_thread::yield();
      }
    }
    // Pauses of all lengths around the consumer's way to sleep.
    for (std::uint64_t pause = random() % 64; pause > 0; --pause) cpu_relax();
  }
  return true;
}

struct Seen {
  std::uint64_t frames = 0, wrong = 0, sleeps = 0;
  bool lost = false;
};

Seen consume(Shared& shared, std::uint64_t frames) {
  RingConsumer consumer(shared.ring->to_worker, to_worker_entries(shared.ring), kCapacity);
  std::minstd_rand random(11);
  Seen seen;
  while (seen.frames < frames) {
    auto there = consumer.ready();
    if (!there) {
      ++seen.wrong;
      shared.give_up();
      return seen;
    }
    for (std::uint64_t i = 0; i < there.value(); ++i) {
      const Descriptor frame = consumer.take();
      if (frame.request != seen.frames || shared.payload[frame.block_offset % kPlaces] != content(seen.frames))
        ++seen.wrong;
      ++seen.frames;
    }
    if (there.value() > 0) {
      consumer.release();
      continue;
    }
    // Widens the moment between the last look and the flag, in which a frame must not be missed.
    for (std::uint64_t pause = random() % 32; pause > 0; --pause) cpu_relax();
    if (consumer.may_sleep()) {
      ++seen.sleeps;
      pollfd bell{shared.bell.fd(), POLLIN, 0};
      if (::poll(&bell, 1, kLostAfterMs) != 1) {
        seen.lost = true;
        shared.give_up();
        return seen;
      }
      std::uint64_t rings = 0;
      if (::read(shared.bell.fd(), &rings, sizeof rings) != sizeof rings) ++seen.wrong;
    }
    consumer.wake();
  }
  return seen;
}

void expect_all(const Seen& seen, std::uint64_t frames) {
  EXPECT_FALSE(seen.lost) << "asleep after " << seen.frames << " frames: a wake-up was lost";
  EXPECT_EQ(seen.frames, frames);
  EXPECT_EQ(seen.wrong, 0U);
  EXPECT_GT(seen.sleeps, frames / 10'000) << "the consumer hardly slept: this run tested little";
}
}  // namespace

TEST(RingStress, NoFrameAndNoWakeUpIsLostBetweenThreads) {
  Shared shared;
  bool produced = false;
  std::thread producer([&] { produced = produce(shared, kThreadFrames); });
  const Seen seen = consume(shared, kThreadFrames);
  producer.join();
  EXPECT_TRUE(produced);
  expect_all(seen, kThreadFrames);
}

TEST(RingStress, NoFrameAndNoWakeUpIsLostBetweenProcesses) {
  Shared shared;
  const int child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(produce(shared, kFrames) ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  const Seen seen = consume(shared, kFrames);
  if (seen.lost || seen.frames < kFrames) ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_all(seen, kFrames);
}

}  // namespace gearbox::shm
