// test_node.hpp: as much of a node as a worker needs: it starts worker_shim, lets it attach, hands it calls over the
// ring and reads the answers. Everything it makes is gone when it is destroyed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/error.hpp"
#include "gearbox/shm/arena.hpp"
#include "gearbox/shm/attach.hpp"
#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/doorbell.hpp"
#include "gearbox/shm/ring.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::test {

using namespace std::chrono_literals;

struct Tensor {
  std::string name;
  wire::DType dtype = wire::DType::uint8;
  std::vector<std::int64_t> shape;
  std::string bytes;
  std::uint32_t item = 0;
};

/// A BYTES tensor of shape [1].
Tensor text_tensor(std::string name, std::string_view text);
Tensor uint8_tensor(std::string name, std::string bytes);

struct Answer {
  std::uint64_t request = 0;
  bool failed = false;
  bool is_part = false;    // of a stream: more follows
  std::uint32_t part = 0;  // its number; of the end, how many there were
  Errc code{};             // of a failure
  std::string text;        // of a failure
  std::uint32_t batch = 0;
  std::uint32_t again_ms = 0;  // of a failure
  std::vector<Tensor> outputs;
  const Tensor* find(std::string_view name, std::uint32_t item = 0) const;
};

class TestNode {
 public:
  TestNode();
  ~TestNode();
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  /// Starts the shim with one of the models in models/; `more` goes behind the usual arguments.
  void start(const std::string& model, std::vector<std::string> more = {}, std::vector<std::string> env = {});
  /// Its first message; nothing when it ended or said nothing within the time.
  std::optional<shm::AttachBody> first_message(std::chrono::milliseconds within = 30s);
  /// Takes its hello and gives it memory. False when it did not come to that.
  bool attach(std::chrono::milliseconds within = 30s);

  /// Publishes a call; `remaining` < 0: no deadline. Returns its number.
  std::uint64_t call(const std::vector<Tensor>& inputs, std::chrono::microseconds remaining = -1us);
  /// Several calls, seen by the worker at once.
  std::vector<std::uint64_t> calls(const std::vector<std::vector<Tensor>>& inputs);
  /// Says to the worker that nobody waits for the last call any more.
  void cancel_last();
  /// A streaming call with `rooms` rooms; parts are let go of by credit().
  std::uint64_t stream(const std::vector<Tensor>& inputs, std::uint32_t rooms);
  /// Of the calls from here on.
  void seed(std::uint64_t seed) { seed_ = seed; }
  /// So many parts of that call have been let go of.
  void credit(std::uint64_t request, std::uint32_t parts);
  void cancel(std::uint64_t request);
  std::uint64_t probe();
  /// Has the worker taken the call from the ring and put it aside?
  bool is_aside(std::uint64_t request) const;
  /// The next answer; nothing when none came within the time or the worker ended.
  std::optional<Answer> answer(std::chrono::milliseconds within = 20s);
  std::optional<Answer> ask(const std::vector<Tensor>& inputs);

  /// Tells the worker to end.
  void say_exit();
  /// Closes the attachment and the listening socket, as a node that dies does.
  void vanish();
  void listen();
  void signal(int number);
  pid_t pid() const { return pid_; }
  /// The wait status once it has ended; nothing when it still runs after that time.
  std::optional<int> ended(std::chrono::milliseconds within = 20s);
  /// What it wrote on stdout and stderr so far.
  std::string log() const;

 private:
  void put(const std::vector<Tensor>& inputs, shm::CallKind kind, std::int64_t remaining_us, std::uint32_t rooms = 0);
  ByteSpan block_of(std::uint64_t request);
  void publish();

  std::filesystem::path folder_;
  shm::Fd listener_, socket_, input_memory_, output_memory_, ring_memory_;
  shm::Mapping input_, output_, ring_map_;
  shm::RingProducer requests_;
  shm::RingConsumer answers_;
  shm::Doorbell worker_bell_, node_bell_;
  std::uint64_t next_request_ = 1;
  std::uint64_t seed_ = 0;
  pid_t pid_ = -1;
  int pid_fd_ = -1;
  std::optional<int> status_;
};

}  // namespace gearbox::test
