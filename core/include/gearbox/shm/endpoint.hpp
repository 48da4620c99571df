// endpoint.hpp: a worker's side of the attachment to its node: socket, mapped memory, the two rings. worker_shim and
// the C++ echo worker are built on it. One thread, except where said.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/layout.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::shm {

/// A call as its node numbered it.
struct CallKey {
  std::uint64_t request = 0;
  std::uint32_t attempt = 0;
};

/// What a worker says of itself when it attaches; sent as JSON over the SOCK_SEQPACKET socket, together with nothing.
struct WorkerHello {
  std::string model, version, digest;  // of the record it loaded
  std::string shim;                    // "worker_shim 0.1.0 (Python 3.11.2)"
  std::uint32_t layout_version = kLayoutVersion;
  int pid = 0;
  std::uint32_t slot = 0;  // given by whoever started it (--slot); 0: none
  // What it was started with. A node that did not start it takes it only where all of this is wanted.
  std::string folder{}, env{}, python{}, devices{};
  std::string visible{};       // CUDA_VISIBLE_DEVICES as it found it
  std::uint32_t threads = 0;   // what the numeric libraries were told
  std::string origin{};        // the life of a node that had it started (--origin)
  std::uint32_t attached = 0;  // how many nodes it has served before this one
  /// Calls of its last node that nobody can be answered any more. For people: the next node gave them other numbers,
  /// and takes no answer to a call that it did not hand out.
  std::vector<CallKey> unfinished{};
};
inline constexpr std::size_t kMaxUnfinished = 64;  // told of in a hello

/// One input tensor: a read-only view into mapped memory, valid until the call is answered.
struct InputTensor {
  wire::TensorSpec spec;
  std::uint32_t item = 0;
  ByteView bytes;
};

struct Call {
  Descriptor descriptor{};
  Instant taken{};
  Instant handed{};                 // by the node, as it says; taken when it does not say
  std::vector<InputTensor> inputs;  // checked against the mappings
  ByteView block;                   // the call block, for is_cancelled(); empty: it has none
  ByteSpan grant;                   // where the answer's block and bytes go
  std::size_t reserved = 0;         // bytes of the grant that are taken, the block's room included
  PartRooms rooms;                  // of a streaming call; rooms.rooms is 0 otherwise
  std::uint32_t parts = 0;          // of a streaming call: published so far
  std::uint32_t batch = 1;          // calls that the model got together, this one included; told with the answer
  std::uint32_t input_tokens = 0;   // told with the end: how long the model found its prompt; 0: not told
  std::uint32_t again_ms = 0;       // told with a failure that says overloaded: when it is worth to ask again
};

/// One output: where its bytes are (spec.bytes of them). When they already lie inside the call's grant they are not
/// copied.
struct OutputTensor {
  wire::TensorSpec spec;
  std::uint32_t item = 0;
  ByteView bytes;
};

class WorkerEndpoint {
 public:
  /// Dials the node's workers socket, says hello, maps what comes back.
  /// Errors: unreachable; not_allowed with the node's reason ("exit": do not try again); unsupported_version; io_error.
  static Outcome<std::unique_ptr<WorkerEndpoint>> attach(const std::filesystem::path& socket, const WorkerHello& hello);
  ~WorkerEndpoint();

  /// The next call: polls, spins up to the node's spin budget while the node runs on another CPU, then sleeps on the
  /// doorbell and the socket; new arenas that the node sends meanwhile are mapped. Pings are answered inside. Errors:
  /// closed when the node has gone; not_allowed when it said "exit": do not dial again; bad_frame when the ring is
  /// broken. Returns an empty vector after `within` without a call.
  /// Takes up to `most` calls that are already there.
  Outcome<std::vector<Call>> next(std::size_t most, milliseconds within);
  /// The same, but it only spins, for `within` at most and not at all while the node runs on this CPU; for a caller
  /// that holds something which it would have to let go of before it sleeps. Errors: those of next().
  Outcome<std::vector<Call>> look(std::size_t most, std::chrono::nanoseconds within);

  /// Room for an output's bytes inside the grant (64-byte aligned), for models that write in place; empty when it does
  /// not fit.
  ByteSpan reserve(Call& call, std::size_t bytes);

  /// Writes block and bytes into the grant and publishes the answer; takes call.inputs back, to be filled again.
  /// Errors: result_too_large, bad_result (a tensor
  /// whose name, shape and bytes do not fit, or too many); then nothing is published: send a failure instead.
  Outcome<void> answer(Call& call, const std::vector<OutputTensor>& outputs, std::chrono::nanoseconds run);
  /// `text` is cut to fit one line of 1,000 bytes.
  void fail(Call& call, const Error& error, std::chrono::nanoseconds run);

  // Streaming calls, those with rooms: parts, then end() or fail().

  /// May the next part be published now? It needs a room of the grant that the node has let go of, and a place in the
  /// ring beside those that are kept for answers.
  bool has_room(const Call& call) const;
  /// Publishes the next part, as answer() does an answer. Precondition: has_room(). Errors: those of answer(); nothing
  /// is published then.
  Outcome<void> part(Call& call, const std::vector<OutputTensor>& outputs);
  /// All parts have been published. Takes call.inputs back.
  void end(Call& call, std::chrono::nanoseconds run);
  /// next(), for a caller with open streams: returns an empty vector also as soon as `due()` is true, which is asked
  /// again and again: it looks at has_room() and is_cancelled() of the calls. `most` may be 0: no new call is taken.
  Outcome<std::vector<Call>> next_or(std::size_t most, milliseconds within, const std::function<bool()>& due);

  /// Ends the present or the next sleep of next() and next_or(), which look then, and may sleep again. Never blocks.
  /// Any thread, while the endpoint lives and has not hung up.
  void nudge();

  /// While `keep`, memory of arenas that the node takes back stays mapped: the model holds views of earlier calls.
  void keep_gone_arenas(bool keep);

  /// Closes socket, ring and doorbells, but leaves the arenas mapped: for a model that looks at them still. Nothing but
  /// the end may follow.
  void hang_up();

  /// A sign of life for the node, which takes a worker that gives none for frozen: from a thread that nothing of the
  /// worker's own work can hold up, every kBeatEvery, from attach() on. Any thread.
  void beat();
  static constexpr milliseconds kBeatEvery{200};

  /// Has the node closed the attachment? Looks only; any thread.
  bool node_gone() const;

 private:
  struct State;
  explicit WorkerEndpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::shm
