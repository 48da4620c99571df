// fake_node.hpp: central and a node in one thread of the test's process, real to the last byte of the protocol, with a
// script of misdeeds. It is what tests of clients talk to; the broker's own parts are not used, beyond link, net and
// the transport.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gearbox/link/keys.hpp"
#include "gearbox/link/upload.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/wire/messages.hpp"
#include "transport_tcp/tcp_transport.hpp"

namespace gearbox::test {

/// What the node answers with, made from a whole upload.
struct FakeResult {
  wire::ResultMessage message;
  Bytes payload;
};

class FakeNode;

/// What goes wrong, and how often. Everything at its default: a good node.
struct FakeScript {
  std::string name = "fake";               // the node's
  std::string task = "echo";               // the only one that central knows
  std::string node_url;                    // told to devices instead of the real one, when set
  std::uint64_t max_upload_bytes = 0;      // told in hello_ok
  std::uint64_t limit_bytes = 1ULL << 30;  // enforced at submit
  std::uint32_t idle_ms = 30'000;
  std::uint32_t ticket_ttl_ms = 60'000;
  std::size_t hold_results = 0;       // answer nobody before so many requests are accepted
  bool never_answer = false;          // accept, then no result
  int busy_submits = 0;               // so many submits are answered `overloaded`
  Errc busy_code = Errc::overloaded;  // or with this
  int takes = -1;                     // so many requests; others are answered busy_code; -1: all
  std::uint32_t retry_after_ms = 0;   // said with it
  int drop_before_accepted = 0;       // so many times: the upload is whole, the connection ends instead of `accepted`
  int drop_before_result = 0;         // so many times: after `accepted`
  int busy_after_restart = 0;         // each drop is a restart: nothing is known any more, so many submits are refused
  int no_node = 0;                    // so many locates are answered no_node, with retry_after_ms
  bool silent_node = false;           // after hello_ok nothing is answered or read
  std::optional<Error> refuse_login;  // at central
  std::optional<Error> fail_request;  // after accepted
  std::size_t result_part_bytes = 256 * 1024;
  std::function<FakeResult(const wire::Submit&, const Bytes&)> make_result;  // default: one BYTES line for each input
  std::function<void()> on_accepted;                                         // on the fake's thread
  /// As central: whose node it names; null: its own. On the fake's thread.
  std::function<const FakeNode*(const wire::Locate&)> place;
};

/// What was seen; read it after stop().
struct FakeCounts {
  int logins = 0;
  int locates = 0;
  int submits = 0;
  int connections = 0;
  int runs = 0;  // requests that were run: each id once, however often it was submitted
  int cancels = 0;
  int acks = 0;
  int pings = 0;
  int bad_chunks = 0;              // chunks at an offset where the node was not
  std::uint64_t upload_bytes = 0;  // payload of upload_data and inline submits, all connections together
  std::size_t held = 0;            // most requests accepted and unanswered at once
  std::map<RequestId, std::string> digests;
  std::vector<std::string> enrolled;  // "user/device/password"
};

class FakeNode {
 public:
  explicit FakeNode(FakeScript script);
  ~FakeNode();
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;

  const std::string& central_url() const { return central_url_; }
  const std::string& node_url() const { return node_url_; }
  std::array<std::byte, 32> central_key() const { return central_keys_.public_key; }
  /// The device says that it has an answer just before it goes: waits until so many such words have come, at most 20 s.
  bool wait_for_acks(int count) const {
    const Instant limit = Clock::now() + seconds(20);
    while (acknowledged_ < count && Clock::now() < limit) std::this_thread::yield();
    return acknowledged_ >= count;
  }
  int acks() const { return acknowledged_; }
  /// Sends the answers that hold_results has held back, and holds none from then on.
  void answer_held();
  /// Ends everything; counts() is final then. Called by the destructor too.
  void stop();
  const FakeCounts& counts() const { return counts_; }

 private:
  struct Entry;
  struct Session;
  using Stream = std::shared_ptr<net::FrameStream>;
  int listen(std::string& url);
  static net::asio::awaitable<void> accept_loop(FakeNode* self, int listening, bool central);
  static net::asio::awaitable<void> serve_central(FakeNode* self, Stream stream);
  static net::asio::awaitable<void> serve_node(FakeNode* self, Stream stream);
  static net::asio::awaitable<bool> on_frame(FakeNode* self, Stream stream, wire::Frame frame);
  static net::asio::awaitable<bool> on_submit(FakeNode* self, Stream stream, wire::Frame frame);
  static net::asio::awaitable<bool> whole(FakeNode* self, Stream stream, RequestId id);
  static net::asio::awaitable<bool> answer(FakeNode* self, Stream stream, RequestId id);
  static net::asio::awaitable<bool> send_held(FakeNode* self, Stream asking);
  static net::asio::awaitable<bool> send_result(FakeNode* self, Stream stream, RequestId id);

  FakeScript script_;
  FakeCounts counts_;
  std::atomic<int> acknowledged_{0};  // as counts_.acks, readable while it runs
  link::ChannelKeys central_keys_;
  link::ChannelKeys node_keys_;
  transport_tcp::TcpTransport transport_;
  net::asio::io_context context_;
  std::string central_url_ = "tcp://127.0.0.1:0";
  std::string node_url_ = "tcp://127.0.0.1:0";
  std::map<RequestId, std::unique_ptr<Entry>> entries_;
  std::vector<std::pair<Stream, RequestId>> holding_;
  std::vector<std::weak_ptr<net::FrameStream>> streams_;
  std::vector<Stream> silent_;
  std::vector<std::shared_ptr<net::asio::posix::stream_descriptor>> listeners_;
  std::thread thread_;
};

/// A listener that answers whatever connects with `greeting` (empty: nothing) and holds the connection until the end.
class Greeter {
 public:
  explicit Greeter(std::string greeting);
  ~Greeter();
  Greeter(const Greeter&) = delete;
  Greeter& operator=(const Greeter&) = delete;
  const std::string& url() const { return url_; }

 private:
  void serve();
  std::string greeting_;
  transport_tcp::TcpTransport transport_;
  std::string url_;
  int listening_ = -1;
  int wake_ = -1;
  std::thread thread_;
};

/// Carries bytes between clients and `target`, and resets connection number i once it has carried cut_after[i] bytes
/// towards the target; later connections are carried whole.
class CuttingRelay {
 public:
  CuttingRelay(std::string target, std::vector<std::uint64_t> cut_after);
  ~CuttingRelay();
  CuttingRelay(const CuttingRelay&) = delete;
  CuttingRelay& operator=(const CuttingRelay&) = delete;
  const std::string& url() const { return url_; }
  /// Connections carried so far.
  std::size_t connections() const { return connections_; }

 private:
  void serve();
  std::string target_;
  std::vector<std::uint64_t> cut_after_;
  transport_tcp::TcpTransport transport_;
  std::string url_;
  int listening_ = -1;
  int wake_ = -1;
  std::atomic<std::size_t> connections_{0};
  std::thread thread_;
};

}  // namespace gearbox::test
