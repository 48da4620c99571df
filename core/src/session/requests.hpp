// requests.hpp: all requests of a node, from their announcement to the acknowledged answer. A request belongs to
// (device key, request id), not to a connection: a device that comes back and submits the same id again is told where
// its upload stands, or gets the answer that is already there.
//
// With a journal, what is acknowledged is durable: requests and answers outlive the process of the node
// (requests_journal.cpp).
//
// One strand. Bounded: open requests in all, for each tenant and for each device, the bytes of a tenant's, uploads at
// once, time, and the bytes of answers that wait for a device which went away.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gearbox/link/upload.hpp"
#include "gearbox/wire/frame.hpp"
#include "pipeline/run.hpp"
#include "session/collected.hpp"
#include "session/identity.hpp"
#include "session/ingest.hpp"
#include "session/parking.hpp"
#include "session/quarantine.hpp"
#include "session/service.hpp"
#include "session/stream_out.hpp"
#include "session/tenants.hpp"

namespace gearbox::session {

struct Request;
using RequestPtr = std::shared_ptr<Request>;

/// Who is told about a request's progress: the session that submitted it last. Calls come on the strand; none may
/// block.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void upload_at(const RequestId& id, std::uint64_t offset) = 0;
  virtual void accepted(const RequestId& id) = 0;
  virtual void failed(const RequestId& id, const Error& error, std::uint32_t retry_after_ms) = 0;
  virtual void finished(const RequestPtr& request) = 0;
  /// Of a request whose device takes parts: there are some to be sent, or its end is. In place of finished() and
  /// failed() once it was accepted: the end comes after the last part.
  virtual void streaming(const RequestPtr& request) = 0;
  /// Another session has taken the request over while this one was in the middle of a chunk.
  virtual void replaced() = 0;
};

struct Request {
  Request(RequestKey its_key, link::UploadReceiver receiver, Ingest its_ingest, boost::asio::io_context& io)
      : key(its_key), upload(std::move(receiver)), ingest(std::move(its_ingest)), timer(io) {}

  RequestKey key;
  Identity identity;
  config::Snapshot config;                         // of when it was announced; let go when it is over
  std::shared_ptr<const config::TaskConfig> task;  // of that snapshot, or the device's own steps
  wire::FrameHeader announced;
  std::uint8_t priority = 0;  // as far as its account may ask for it
  link::UploadReceiver upload;
  Ingest ingest;
  std::weak_ptr<Listener> listener;
  boost::asio::steady_timer timer;  // the deadline; later: how long the answer waits for its device
  Instant deadline{}, arrived{}, verified{}, ready{};
  std::shared_ptr<pipeline::Run> run;
  const Listener* reader = nullptr;  // who is reading a chunk straight into the slab
  Instant progress{};                // when bytes came last
  bool uploading = false;            // holds one of the places for uploads
  std::uint64_t acknowledged = 0;    // offset last told to the device
  explain::TracePtr trace;           // null: it is not remembered

  std::unique_ptr<StreamOut> stream;     // once it was accepted, if its device takes parts
  std::unique_ptr<Collected> collected;  // the parts that came, for the store, or for a device that takes none

  // once it is over
  std::optional<Error> error;
  std::uint32_t retry_ms = 0;  // of a failure: 0: trying again will not help, or nobody knows when
  wire::ResultMessage result;
  std::vector<pipeline::ResultTensor> tensors;

  bool over = false;  // answered or failed; the upload's state says which

  // of the journal
  bool durable = true;            // false: its acceptance is being written, and told after that
  bool ending = false;            // its end is being written, or fetched, and told after that
  bool on_disk = false;           // its end is in the journal
  bool no_row = false;            // the journal does not know it
  bool filled = false;            // its inputs are in memory, whole
  bool recovered = false;         // an earlier process accepted it
  std::string models;             // of a stream: see models_of(), when it was accepted
  bool waits_for_device = false;  // a recovered stream, which begins when its device is back
};

struct RequestCounters {
  std::uint64_t announced = 0, accepted = 0, answered = 0, failed = 0, refused = 0, repeated = 0, expired = 0;
  std::uint64_t recovered = 0;  // of an earlier process, begun again
  std::uint64_t wire_bytes = 0, plain_bytes = 0;
};

class Requests {
 public:
  explicit Requests(Service& service);
  ~Requests();

  /// A submit frame. Answers through `listener`: upload_at, or what is already known about this id.
  /// Errors: what refuses it; deadline_exceeded when its time is up already. `retry_ms`: how long the sender should
  /// wait before it tries again, as far as that is known; 0: trying again will not help.
  Outcome<void> announce(const Identity& identity, const wire::FrameHeader& header, wire::Submit submit,
                         const std::shared_ptr<Listener>& listener, std::uint32_t& retry_ms);

  /// The request, if it is in the receiving state and belongs to this listener.
  RequestPtr receiving(const RequestKey& key, const Listener* listener) const;
  /// A chunk has arrived whole: `bytes` as uploaded (for the digest); a coded one has been decoded already.
  void chunk(const RequestPtr& request, std::uint64_t offset, ByteView bytes);

  void cancel(const RequestKey& key);
  /// The device has the first `count` parts of a streamed answer. Of a session that does not serve it: ignored.
  void take_parts(const RequestKey& key, const Listener* listener, std::uint32_t count);
  /// The device has the whole answer.
  void acknowledge(const RequestKey& key);
  /// The answer was sent, or a piece of it: the time to acknowledge it counts from here.
  void sent(const RequestPtr& request);
  /// A session of `device` begins. Errors: overloaded when it has too many already. Each success is followed by left().
  Outcome<void> joined(const PublicKey& device);
  /// The session ended. `lost`: its device may come back, so that what is open lingers for a while before it is
  /// cancelled. `for_good`: it is cancelled now. Answers that are there wait to be acknowledged in either case.
  enum class End { lost, for_good };
  void left(const Listener* listener, const PublicKey* device, End end);
  void fail(const RequestPtr& request, Error error);

  /// No new ones from here on. `idle` is called once, when no request is open and no connected device still has an
  /// answer to acknowledge.
  void drain(std::function<void()> idle);
  struct Rest {
    std::size_t failed = 0;  // or had an answer that its device has not taken, and nobody keeps
    std::size_t kept = 0;    // in the journal: open, or with an answer that its device has not taken
  };
  /// This process ends: nothing is announced, begun or finished from here on. With a journal, what was acknowledged
  /// stays open there and its device hears nothing: the next process finishes it. All else that is open ends with
  /// `error`. A second call finds nothing to do.
  Rest end_all(const Error& error);
  /// Uploads that wait for memory or a place may go on. Called by the node when memory was freed.
  void admit();

  std::size_t open() const { return open_; }
  std::size_t known() const { return table_.size(); }  // open ones, and those that are over and in memory
  const RequestCounters& counters() const { return counters_; }
  /// With the calls of a request that runs as they stand.
  explain::Trace as_of_now(const explain::Trace& trace) const;
  bool draining() const { return draining_; }

  const Quarantine& quarantine() const { return quarantine_; }
  /// That request may be sent again. Errors: those of Quarantine::release.
  Outcome<RequestKey> release(std::string_view id);

 private:
  void note_begin(const RequestPtr& request);
  void note_end(const RequestPtr& request);
  std::optional<recording::Payload> recorded_payload(const Request& request) const;
  Outcome<RequestPtr> make(const Identity& identity, const wire::FrameHeader& header, wire::Submit submit,
                           milliseconds& wait);
  Outcome<void> check_limits(const Identity& identity, const config::LimitsConfig& limits, std::uint64_t bytes,
                             milliseconds& wait) const;
  Outcome<void> check_queues(const config::Config& config, const config::TaskConfig& task, std::string_view pool,
                             milliseconds& wait) const;
  milliseconds backlog_of(const config::Config& config, const config::TaskConfig& task, std::string_view pool) const;
  /// That a request of `identity` with inputs of `bytes` belongs to; empty: none.
  static std::string pool_of(const config::Config& config, const Identity& identity, std::uint64_t bytes);
  std::uint32_t retry_after(const Request& request, const Error& error) const;
  void repeat(const RequestPtr& request, const std::shared_ptr<Listener>& listener);
  void take_in(const RequestPtr& request);
  void complete(const RequestPtr& request);
  void start(const RequestPtr& request);
  void finish(const RequestPtr& request, Outcome<pipeline::RunResult> outcome);
  void tell_end(const RequestPtr& request, Listener& listener);
  void settle(const RequestPtr& request, link::UploadState state);
  // requests_journal.cpp
  void write_acceptance(const RequestPtr& request);
  void acceptance_written(const RequestPtr& request, const Outcome<void>& outcome);
  void tell_accepted(const RequestPtr& request);
  void conclude(const RequestPtr& request);
  void write_end(const RequestPtr& request, bool tell);
  void end_written(const RequestPtr& request, const Outcome<bool>& first, bool tell);
  void lay_aside(const RequestPtr& request);
  void recover();
  Outcome<RequestPtr> remake(const journal::Kept& kept);
  void give_up(const journal::Kept& kept, const Error& error);
  void begin_stream_again(const RequestPtr& request, std::uint32_t parts);
  std::string models_of(const Request& request) const;
  void read_back(const RequestPtr& request);
  void shelve(const RequestKey& key, milliseconds age = milliseconds{0});
  void clear_shelf(Instant now);
  Outcome<void> bring_back(const RequestKey& key, const wire::FrameHeader& header, wire::Submit submit,
                           const std::shared_ptr<Listener>& listener);
  void brought_back(const RequestPtr& request, const wire::Submit& submit, Outcome<journal::Found> found);
  Outcome<void> fill_from(const RequestPtr& request, const wire::Submit& submit, Outcome<journal::Found> found);
  // streaming.cpp
  void came(const RequestPtr& request, pipeline::RunPart part);
  void put_together(const RequestPtr& request, pipeline::RunResult& result);
  static void keep_parts(const Request& request, store::Item& item, std::vector<pipeline::ResultTensor>& held);
  // requests_sinks.cpp
  void tell_sinks(const RequestPtr& request);
  void tell_sinks(const journal::Kept& kept, const Error& error);
  void compare_with_sinks();
  void tell_next_untold();
  void let_journal_forget(const RequestKey& key);
  void quarantine(const RequestPtr& request, const Error& error);
  void keep(const RequestPtr& request);
  void linger(const RequestPtr& request);
  void await_device(const RequestPtr& request);
  void forget(const RequestPtr& request);
  void forget_for_good(const RequestKey& key);
  void remember(const RequestKey& key);
  void let_go(const RequestPtr& request);
  void watch_deadline(const RequestPtr& request);
  void expire(const RequestPtr& request);
  static bool is_owed(const Request& request);
  void check_idle();
  static boost::asio::awaitable<void> sweep(std::shared_ptr<bool> alive, Requests* self);
  void sweep_once(Instant now);
  bool arena_is_short() const;
  void release_upload(const RequestPtr& request);
  void leave_open(const RequestPtr& request);

  Service& service_;
  std::unordered_map<RequestKey, RequestPtr, RequestKeyHash> table_;
  /// What one device has of the node; every part is bounded, so that it cannot crowd out others.
  struct DeviceShare {
    std::uint32_t sessions = 0;
    std::uint32_t open = 0;              // requests
    std::uint32_t places = 0;            // uploads under way
    std::uint64_t held_bytes = 0;        // of the input arena
    std::vector<RequestKey> remembered;  // answered, not acknowledged; oldest first
    bool empty() const { return sessions == 0 && open == 0 && remembered.empty(); }
  };
  std::map<PublicKey, DeviceShare> devices_;
  Tenants tenants_;
  std::unordered_map<RequestKey, Instant, RequestKeyHash> shelved_;  // answers that only the journal has, since when
  std::deque<std::pair<Instant, RequestKey>> shelf_order_;           // the same, oldest first; and some that are gone
  std::deque<std::weak_ptr<Request>> waiting_;                       // announced, without memory or a place yet
  /// Answers of an earlier process of which no sink may have heard, and those of them that were acknowledged meanwhile.
  std::unordered_set<RequestKey, RequestKeyHash> untold_, forget_when_told_;
  std::uint32_t uploads_ = 0;
  std::size_t open_ = 0;
  RequestCounters counters_;
  Parking parking_;
  Quarantine quarantine_;
  std::function<void()> idle_;
  bool draining_ = false;
  bool ending_ = false;  // end_all() was called
  bool admitting_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // false: the sweeper's coroutine outlived us
};

/// How long a sender should wait before it tries again after `error`, where nothing was measured that says more; 0 when
/// trying again will not help.
std::uint32_t retry_after_ms(const Error& error);

}  // namespace gearbox::session
