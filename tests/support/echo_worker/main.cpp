// echo_worker: a worker without Python. It takes the command line of worker_shim, and more for tests:
//
//   --name NAME --version VERSION   what it says it loaded (default echo 1)
//   --do WHAT     echo (default): outputs are copies of the inputs · small: reads every byte, answers 8 · fail: each
//   call fails
//                 flaky: as echo, but of three calls with the same first byte the first two fail
//                 pace: as echo, after as many milliseconds of work as the first byte of its input says; 255: it waits
//                 at the gate first; 254: it waits there when it has answered (see gate.hpp)
//                 pairs: as pace, and says of each call that the model got it together with another one
//                 split: each byte of the first input becomes one tensor of the list 'parts'
//                 stream: answers in parts (see streamer.hpp)
//                 hang: never answers a call · die: ends itself in a call · no_start: reports why and exits · exit:
//                 exits at once never_attach · lie:HOW (see liar.hpp) · mute: works, but gives no sign of life · deaf:
//                 the other way round, after its first answer · grow: each call takes 24 MiB for good · swell: a call
//                 takes memory and does not end · swell_on: as that, but it takes 96 MiB, waits at the gate, and then
//                 takes 64 MiB more
//   --digest HEX  of the record it says it loaded
//   --stay MS     dials again for so long when its node has gone (default 0: it ends)
//   --seed N      for lie:random
//   --pin CPU     runs there only
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gearbox/shm/attach.hpp"
#include "gearbox/shm/endpoint.hpp"
#include "liar.hpp"
#include "streamer.hpp"
#include "support/gate.hpp"

namespace {
using namespace gearbox;

std::uint64_t read_once(ByteView bytes) {
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum += word;
  }
  for (; at < bytes.size(); ++at) sum += std::to_integer<std::uint64_t>(bytes[at]);
  return sum;
}

/// Memory that really is there, and never goes away.
void take_memory(std::size_t bytes) {
  static std::vector<std::vector<char>> kept;
  kept.emplace_back(bytes, 'x');
}

/// Until the test lets go of the other end.
void wait_at_gate(const std::string& folder) {
  const int gate = ::open((folder + "/gate").c_str(), O_RDONLY | O_CLOEXEC);
  char word = 0;
  while (gate >= 0 && ::read(gate, &word, 1) > 0) {
  }
  ::close(gate);
}

void work_for(milliseconds time) {
  const Instant end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

void serve(shm::WorkerEndpoint& endpoint, shm::Call& call, const std::string& what, const std::string& folder) {
  const Instant began = call.taken;
  std::vector<shm::OutputTensor> outputs;
  std::uint64_t sum = 0;
  unsigned char pace = 0;
  if (call.descriptor.kind == shm::CallKind::infer) {
    if (what == "hang") {
      for (;;) ::pause();
    }
    if (what == "die") ::raise(SIGKILL);
    if (what == "pairs") call.batch = 2;
    if ((what == "pace" || what == "pairs") && !call.inputs.empty() && !call.inputs.front().bytes.empty()) {
      pace = std::to_integer<unsigned char>(call.inputs.front().bytes.front());
      if (pace == test_support::kHeld) wait_at_gate(folder);
      if (pace < test_support::kAnswered) work_for(milliseconds(pace));
    }
    if (what == "grow" || what == "swell") take_memory(24U << 20);
    if (what == "swell_on") {
      take_memory(96U << 20);
      wait_at_gate(folder);
      take_memory(64U << 20);
    }
    if (what.starts_with("swell")) {
      for (;;) ::pause();
    }
    if (what == "fail")
      return endpoint.fail(call, Error{Errc::model_failed, "ValueError: as it was told"}, Clock::now() - began);
    static std::map<std::byte, unsigned> seen;
    if (what == "flaky" && seen[call.inputs.front().bytes.front()]++ % 3 != 2)
      return endpoint.fail(call, Error{Errc::model_failed, "ValueError: not this time"}, Clock::now() - began);
    if (what == "small") {
      for (const shm::InputTensor& input : call.inputs) sum += read_once(input.bytes);
      outputs.push_back({{"sum", wire::DType::uint64, {1}, 8}, 0, std::as_bytes(std::span(&sum, 1))});
    } else if (what == "split") {
      const ByteView all = call.inputs.front().bytes;
      for (std::size_t i = 0; i < all.size(); ++i) {
        outputs.push_back({{"parts", wire::DType::uint8, {1}, 1}, static_cast<std::uint32_t>(i), all.subspan(i, 1)});
      }
    } else {
      for (const shm::InputTensor& input : call.inputs) outputs.push_back({input.spec, input.item, input.bytes});
    }
  }
  auto sent = endpoint.answer(call, outputs, Clock::now() - began);
  if (!sent) endpoint.fail(call, sent.error(), Clock::now() - began);
  if (pace == test_support::kAnswered) wait_at_gate(folder);
}

/// Again and again for `stay`, as worker_shim does.
Outcome<std::unique_ptr<shm::WorkerEndpoint>> attach(const std::string& node, const shm::WorkerHello& hello,
                                                     milliseconds stay) {
  const Instant until = Clock::now() + stay;
  for (;;) {
    auto attached = shm::WorkerEndpoint::attach(node, hello);
    if (attached || attached.error().code == Errc::not_allowed || Clock::now() >= until) return attached;
    std::this_thread::sleep_for(milliseconds(20));
  }
}
}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--name", "echo"}, {"--version", "1"}, {"--do", "echo"}, {"--seed", "1"}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const std::string what = options["--do"];
  if (options.contains("--pin")) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(std::atoi(options["--pin"].c_str())), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) return 1;
  }
  shm::WorkerHello hello;
  hello.model = options["--name"];
  hello.version = options["--version"];
  hello.shim = "echo_worker";
  hello.pid = ::getpid();
  hello.slot = static_cast<std::uint32_t>(std::atoi(options["--slot"].c_str()));
  hello.digest = options["--digest"];
  hello.folder = options["--model"];
  hello.env = options["--env"];
  hello.python = options["--python"];
  hello.devices = options["--devices"];
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) hello.visible = visible;
  hello.threads = static_cast<std::uint32_t>(std::atoi(options["--threads"].c_str()));
  hello.origin = options["--origin"];
  if (what == "exit") return 3;
  if (what == "never_attach") {
    for (;;) ::pause();
  }
  if (what == "no_start") {
    const auto told = shm::report_failure(options["--node"], hello, "ModuleNotFoundError: No module named 'cheese'");
    return told ? 1 : 2;
  }
  if (what.starts_with("lie:")) {
    return echo::lie(options["--node"], hello, what.substr(4),
                     static_cast<unsigned>(std::atoi(options["--seed"].c_str())));
  }
  const milliseconds stay(std::atoi(options["--stay"].c_str()));
  for (;; ++hello.attached) {
    auto attached = attach(options["--node"], hello, stay);
    if (!attached) {
      std::fprintf(stderr, "echo_worker: %s\n", describe(attached.error()).c_str());
      ::_exit(1);
    }
    shm::WorkerEndpoint& endpoint = *attached.value();
    hello.unfinished.clear();
    std::atomic<bool> over{false};
    std::thread beats([&endpoint, &over, mute = what == "mute"] {
      for (; !over; std::this_thread::sleep_for(shm::WorkerEndpoint::kBeatEvery)) {
        if (!mute) endpoint.beat();
      }
    });
    if (what == "stream") ::_exit(echo::stream(endpoint, hello.slot));
    for (;;) {
      auto calls = endpoint.next(8, milliseconds(60000));
      if (!calls && (calls.error().code != Errc::closed || stay.count() == 0)) {
        // Not main()'s end: the other thread uses the endpoint.
        ::_exit(calls.error().code == Errc::closed || calls.error().code == Errc::not_allowed ? 0 : 1);
      }
      if (!calls) break;
      for (shm::Call& call : calls.value()) {
        serve(endpoint, call, what, options["--model"]);
        if (endpoint.node_gone()) hello.unfinished.push_back({call.descriptor.request, call.descriptor.attempt});
      }
      while (what == "deaf" && !calls.value().empty()) ::pause();
    }
    over = true;
    beats.join();
  }
}
