#include "bare.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "gearbox/shm/arena.hpp"
#include "gearbox/shm/ring.hpp"
#include "gearbox/shm/spin.hpp"

namespace gearbox::bench {

namespace {
using BenchClock = std::chrono::steady_clock;

double us_since(BenchClock::time_point began) {
  return std::chrono::duration<double, std::micro>(BenchClock::now() - began).count();
}

/// The other side of a ping, in a process of its own; killed at the end.
class Peer {
 public:
  Peer(int cpu, const std::function<void()>& body) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      pin(cpu);
      body();
      ::_exit(0);
    }
    if (pid_ < 0) std::exit(1);
  }
  ~Peer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

 private:
  int pid_ = -1;
};

constexpr std::size_t kPayload = 64;

/// A ring on its own, with a futex on the consumer's flag for the way that never spins; beside it, in lines of their
/// own, one payload of 64 B for each entry.
struct Ends {
  shm::Fd memory;
  shm::Mapping mapping;
  shm::RingMemory* ring = nullptr;
  std::byte* payloads = nullptr;  // those to the peer, then those back

  Ends() {
    const std::uint64_t entries = shm::ring_bytes(shm::kRingCapacity);
    const std::uint64_t bytes = entries + 2 * shm::kRingCapacity * kPayload;
    memory = shm::create_memory("bare", bytes).value();
    mapping = shm::Mapping::map(memory, bytes, shm::Access::read_write).value();
    ring = shm::make_ring(mapping.data(), shm::kRingCapacity);
    payloads = mapping.data() + entries;
  }
};

void futex_wait(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, 1, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

struct Way {
  shm::RingProducer out;
  shm::RingConsumer in;
  shm::RingSide* out_side;
  shm::RingSide* in_side;
  bool spins;
  std::byte* out_payloads;
  const std::byte* in_payloads;
  std::uint64_t sent = 0, received = 0;

  using Payload = std::array<std::byte, kPayload>;

  void send(const shm::Descriptor& entry, const Payload& payload) {
    std::memcpy(out_payloads + sent++ % shm::kRingCapacity * kPayload, payload.data(), kPayload);
    if (!out.push(entry)) std::exit(1);
    if (out.publish() && !spins && out_side->consumer_sleeps.exchange(0) == 1) futex_wake(out_side->consumer_sleeps);
  }
  shm::Descriptor receive(Payload& payload) {
    for (;;) {
      auto there = in.ready();
      if (!there) std::exit(1);
      if (there.value() > 0) break;
      if (spins) {
        shm::cpu_relax();
      } else if (in.may_sleep()) {
        futex_wait(in_side->consumer_sleeps);
      }
    }
    const shm::Descriptor entry = in.take();
    std::memcpy(payload.data(), in_payloads + received++ % shm::kRingCapacity * kPayload, kPayload);
    in.release();
    return entry;
  }
};

Samples ring_ping(int times, int our_cpu, int peer_cpu, bool spins) {
  Ends ends;
  shm::RingMemory* ring = ends.ring;
  shm::Descriptor* there = shm::to_worker_entries(ring);
  shm::Descriptor* back = shm::to_node_entries(ring, shm::kRingCapacity);
  std::byte* const there_payloads = ends.payloads;
  std::byte* const back_payloads = ends.payloads + shm::kRingCapacity * kPayload;
  const Peer peer(peer_cpu, [&] {
    Way::Payload payload{};
    Way way{shm::RingProducer(ring->to_node, back, shm::kRingCapacity),
            shm::RingConsumer(ring->to_worker, there, shm::kRingCapacity),
            &ring->to_node,
            &ring->to_worker,
            spins,
            back_payloads,
            there_payloads};
    for (;;) {
      const shm::Descriptor entry = way.receive(payload);
      way.send(entry, payload);
    }
  });
  pin(our_cpu);
  Way way{shm::RingProducer(ring->to_worker, there, shm::kRingCapacity),
          shm::RingConsumer(ring->to_node, back, shm::kRingCapacity),
          &ring->to_worker,
          &ring->to_node,
          spins,
          there_payloads,
          back_payloads};
  Samples samples;
  Way::Payload payload{};
  Way::Payload echoed{};
  for (int i = 0; i < times; ++i) {
    payload[static_cast<std::size_t>(i) % kPayload] = static_cast<std::byte>(i);
    const auto began = BenchClock::now();
    shm::Descriptor entry{};
    entry.request = static_cast<std::uint64_t>(i);
    way.send(entry, payload);
    if (way.receive(echoed).request != entry.request || echoed != payload) std::exit(1);
    samples.push_back(us_since(began));
  }
  pin(-1);
  return samples;
}
}  // namespace

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (cpu < 0 || i == cpu) CPU_SET(static_cast<unsigned>(i), &set);
  }
  if (::sched_setaffinity(0, sizeof set, &set) != 0) std::perror("bench_ipc: pin");
}

Samples memcpy_of(std::size_t bytes, int times) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  Samples samples;
  for (int i = 0; i < times; ++i) {
    from[static_cast<std::size_t>(i) % bytes] = std::byte{3};
    const auto began = BenchClock::now();
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    samples.push_back(us_since(began));
  }
  return samples;
}

Samples ring_spin(int times) {
  return ring_ping(times, 0, 1, true);
}
Samples ring_spin_large(std::size_t bytes, int times) {
  Ends ends;
  shm::RingMemory* ring = ends.ring;
  shm::Descriptor* there = shm::to_worker_entries(ring);
  shm::Descriptor* back = shm::to_node_entries(ring, shm::kRingCapacity);
  const shm::Fd memory = shm::create_memory("bare-large", bytes).value();
  const shm::Mapping slab = shm::Mapping::map(memory, bytes, shm::Access::read_write).value();
  std::byte* const there_payloads = ends.payloads;
  std::byte* const back_payloads = ends.payloads + shm::kRingCapacity * kPayload;
  const Peer peer(1, [&] {
    Way::Payload payload{};
    Way way{shm::RingProducer(ring->to_node, back, shm::kRingCapacity),
            shm::RingConsumer(ring->to_worker, there, shm::kRingCapacity),
            &ring->to_node,
            &ring->to_worker,
            true,
            back_payloads,
            there_payloads};
    for (;;) {
      const shm::Descriptor entry = way.receive(payload);
      const auto* const words = reinterpret_cast<const std::uint64_t*>(slab.data());
      const std::uint64_t sum = std::accumulate(words, words + bytes / sizeof *words, std::uint64_t{0});
      std::memcpy(payload.data(), &sum, sizeof sum);
      way.send(entry, payload);
    }
  });
  pin(0);
  Way way{shm::RingProducer(ring->to_worker, there, shm::kRingCapacity),
          shm::RingConsumer(ring->to_node, back, shm::kRingCapacity),
          &ring->to_worker,
          &ring->to_node,
          true,
          there_payloads,
          back_payloads};
  Samples samples;
  Way::Payload payload{};
  for (int i = 0; i < times; ++i) {
    const auto began = BenchClock::now();
    const std::uint64_t sum = write_in_place(slab.bytes(), static_cast<std::uint64_t>(i));
    way.send(shm::Descriptor{}, payload);
    way.receive(payload);
    samples.push_back(us_since(began));
    if (std::memcmp(payload.data(), &sum, sizeof sum) != 0) std::exit(1);
  }
  pin(-1);
  return samples;
}

std::uint64_t write_in_place(std::span<std::byte> bytes, std::uint64_t seed) {
  auto* const words = reinterpret_cast<std::uint64_t*>(bytes.data());
  const std::uint64_t count = bytes.size() / sizeof *words;
  for (std::uint64_t i = 0; i < count; ++i) words[i] = seed + i;
  return count * seed + count * (count - 1) / 2;
}

Samples ring_futex_one_core(int times) {
  return ring_ping(times, 0, 0, false);
}

Samples uds_ping(int times, int gap_us) {
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) std::exit(1);
  const shm::Fd ours(pair[0]);
  const shm::Fd theirs(pair[1]);
  std::array<char, 64> bytes{};
  const Peer peer(1, [&] {
    std::array<char, 64> echo{};
    while (::read(theirs.get(), echo.data(), echo.size()) == 64) {
      if (::write(theirs.get(), echo.data(), echo.size()) != 64) break;
    }
  });
  pin(0);
  Samples samples;
  for (int i = 0; i < times; ++i) {
    if (gap_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(gap_us));
    const auto began = BenchClock::now();
    if (::write(ours.get(), bytes.data(), bytes.size()) != 64 || ::read(ours.get(), bytes.data(), bytes.size()) != 64) {
      std::exit(1);
    }
    samples.push_back(us_since(began));
  }
  pin(-1);
  return samples;
}

}  // namespace gearbox::bench
