// node_connection.hpp: one logged-in connection to a node with many requests on it. It reads, sorts what arrives into
// each request's Inbox, pushes uploads, keeps the line alive, and says so when it is dead. It never retries: node_link
// does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dial.hpp"
#include "gearbox/link/upload.hpp"
#include "gearbox/wire/frame.hpp"
#include "gearbox/wire/messages.hpp"
#include "rate_limit.hpp"
#include "tasks.hpp"

namespace gearbox::client {

/// A result over this is refused (result_too_large), whatever the node announces.
inline constexpr std::uint64_t kMaxResultBytes = 256ULL * 1024 * 1024;
/// A stored upload up to this travels with its submit and saves a round trip.
inline constexpr std::uint64_t kInlineBytes = 64 * 1024;

/// How the line is kept alive.
struct Pace {
  milliseconds ping_every{5'000};  // at most; a third of the node's idle limit when that is shorter
  milliseconds silence{15'000};    // nothing read and no upload progress for so long: the connection is dead
};

/// A request as it goes to a node; the same through all attempts.
struct Outgoing {
  RequestId id;
  wire::Submit submit;
  std::shared_ptr<link::UploadSender> sender;
  std::optional<Bytes> inline_payload;  // set: travels with the submit
  Instant expires;                      // the node may drop it then
  std::uint8_t priority = 0;            // wished for; the account decides
  std::shared_ptr<RateLimit> rate;      // of bytes, shared with other requests; none: as fast as it goes
};

/// One part of a streamed answer, whole.
struct Part {
  std::uint32_t number = 0;
  std::vector<wire::TensorSpec> tensors;
  std::uint64_t bytes = 0;
  Bytes payload;  // the tensors' bytes, one after the other
};

/// What has been heard of one request on one connection.
struct Inbox {
  explicit Inbox(asio::any_io_executor executor) : bell(std::move(executor)) {}
  Bell bell;
  // said by the node
  std::optional<std::uint64_t> upload_at;  // the last one
  bool accepted = false;
  std::optional<wire::ResultMessage> result;
  Bytes payload;
  bool whole = false;           // the result is complete
  std::deque<Part> parts;       // that came, in order; the listener takes them out
  std::optional<Part> half;     // of which not all bytes are here
  std::uint32_t next_part = 0;  // number of the one that comes next; set before begin(): those before are known
  std::optional<wire::ErrorMessage> refused;
  // noted here
  std::optional<Error> lost;   // the connection ended first
  bool abandoned = false;      // nobody listens any more
  std::uint64_t uploaded = 0;  // bytes of the upload handed to the socket
  std::optional<Instant> submitted_at;
  std::optional<Instant> accepted_at;
  std::uint64_t sent = 0;  // frames with all their overhead
  std::uint64_t received = 0;
};

/// Sorts a result_part into its inbox: whole parts in order, each once. Errors: bad_frame, result_too_large.
Outcome<void> take_part(Inbox& inbox, const wire::Frame& frame);

class NodeConnection : public std::enable_shared_from_this<NodeConnection> {
 public:
  /// `stream` has been logged in on. Starts reading at once.
  static std::shared_ptr<NodeConnection> start(asio::any_io_executor executor, std::shared_ptr<net::FrameStream> stream,
                                               std::string node, const wire::HelloOk& welcome, Pace pace);

  /// Submits `request` and uploads what the node asks for; all that is heard comes to `inbox` until forget().
  void begin(std::shared_ptr<const Outgoing> request, std::uint32_t attempt, std::shared_ptr<Inbox> inbox);
  void forget(const RequestId& id);
  /// Small frames about a request, sent in the background: cancel, result_ack, part_ack.
  void tell(wire::FrameType type, const RequestId& id, std::uint32_t part = 0);

  bool is_open() const { return !why_; }
  const Error& why_closed() const { return *why_; }  // precondition: not open
  const std::string& node() const { return node_; }
  /// When bytes of the node came last.
  Instant heard() const { return heard_; }
  std::uint64_t max_upload_bytes() const { return max_upload_bytes_; }

  void close(Error why);
  /// Sends what is still to be said (acknowledgements) for at most `within`, closes, and waits for its coroutines.
  asio::awaitable<void> finish(milliseconds within);

 private:
  using Self = std::shared_ptr<NodeConnection>;
  NodeConnection(asio::any_io_executor executor, std::shared_ptr<net::FrameStream> stream, std::string node,
                 const wire::HelloOk& welcome, Pace pace);
  static asio::awaitable<void> read(Self self);
  static asio::awaitable<void> watch(Self self);
  static asio::awaitable<void> push(Self self, std::shared_ptr<const Outgoing> request, std::uint32_t attempt,
                                    std::shared_ptr<Inbox> inbox);
  static asio::awaitable<void> push_chunks(Self self, std::shared_ptr<const Outgoing> request, std::uint32_t attempt,
                                           std::shared_ptr<Inbox> inbox);
  static asio::awaitable<void> write_small(Self self, wire::FrameHeader header);
  /// Waits until the rate lets `bytes` go. False: the request is settled.
  static asio::awaitable<bool> wait_turn(std::shared_ptr<const Outgoing> request, std::size_t bytes,
                                         std::shared_ptr<Inbox> inbox);
  asio::awaitable<bool> write(wire::FrameHeader header, std::string json, ByteView payload,
                              std::shared_ptr<Inbox> inbox);
  void sort(wire::Frame frame);
  Outcome<void> take_result(Inbox& inbox, const wire::Frame& frame);
  std::uint64_t acknowledged() const;

  asio::any_io_executor executor_;
  std::shared_ptr<net::FrameStream> stream_;
  std::string node_;
  std::uint64_t max_upload_bytes_;
  Pace pace_;
  std::optional<Error> why_;
  std::map<RequestId, std::shared_ptr<Inbox>> inboxes_;
  Bell closed_;
  TaskGroup tasks_;         // read, watch, push
  TaskGroup small_writes_;  // ping, pong, cancel, result_ack
  bool ping_pending_ = false;
  Instant heard_ = Clock::now();
};

}  // namespace gearbox::client
