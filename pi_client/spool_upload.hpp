// spool_upload.hpp: works off a spool: each item is submitted under its id until it has its one answer, which is
// written down before the node and the spool may forget it. It does not give up; what is refused waits while others go.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "node_link.hpp"
#include "rate_limit.hpp"
#include "report.hpp"
#include "spool.hpp"
#include "tasks.hpp"

namespace gearbox::client {

struct UploadSettings {
  unsigned parallel = 4;             // requests under way at once
  std::uint64_t max_rate = 0;        // bytes uploaded in a second; 0: no limit
  std::uint64_t max_per_minute = 0;  // requests begun in a minute; 0: no limit
  bool newest_first = false;
  bool until_empty = false;            // run() ends when nothing is left
  milliseconds look_every{1'000};      // for what other processes add
  milliseconds retry_longest{60'000};  // between two tries of an item that was refused
};

/// All on one strand, but for what the pool does.
class SpoolUpload {
 public:
  struct Ends {
    /// Writes an answer down, durably; on the pool, one at a time. An error: the item stays and is asked for again.
    std::function<Outcome<void>(Report report)> write_answer;
    /// For people: something changed for the worse or the better.
    std::function<void(const std::string& text)> remark;
  };
  /// `spool` outlives it.
  SpoolUpload(Dialler dialler, CentralAddress central, Identity identity, LinkSettings link, UploadSettings settings,
              Spool* spool, Ends ends);

  /// Returns after stop(), or when nothing is left if the settings say so; all connections are closed then.
  asio::awaitable<void> run();
  /// Nothing is begun any more; what is under way is left where it is: the node goes on with what it has accepted, and
  /// the next process asks for the answers.
  void stop();
  /// Something was spooled.
  void look() {
    stirred_ = true;
    bell_.ring();
  }

  std::size_t answered() const { return answered_; }

 private:
  /// All items of one task, or of the same own steps.
  struct Task {
    std::unique_ptr<NodeLink> link;
    unsigned turns = 0;      // under way
    bool connected = false;  // at the last try
    unsigned failures = 0;   // to get a connection, in a row
    Instant not_before{};
    std::string told;  // the trouble that was remarked last
    Instant told_at{};
    std::string refusal_told;  // likewise, of a refusal by the node
  };
  /// An item that was refused, and waits.
  struct Waiting {
    unsigned refusals = 0;
    Instant not_before{};
  };
  enum class Fate { answered, again, gone };
  struct Attempt {
    Fate fate = Fate::again;
    milliseconds advised{0};
    std::shared_ptr<NodeConnection> connection;  // where the answer came from
    bool link_waits = false;                     // there is no connection, or none any more: the link makes the pauses
  };

  asio::awaitable<void> begin_turns();
  asio::awaitable<void> take_turn(std::shared_ptr<const Spooled> item);
  asio::awaitable<Attempt> try_once(const SpoolItem* item, Task* task, Report* report);
  asio::awaitable<Attempt> converse(std::shared_ptr<Outgoing> outgoing, std::shared_ptr<NodeConnection> connection,
                                    Task* task, Report* report);
  asio::awaitable<bool> finish(const SpoolItem* item, Report report, Attempt attempt);
  asio::awaitable<bool> remove(RequestId id);
  asio::awaitable<void> watch_links();
  std::shared_ptr<const Spooled> choose(Instant* next);
  void forget_waiting();
  Task& task_of(const SpoolItem& item);

  Dialler dialler_;
  CentralAddress central_;
  Identity identity_;
  LinkSettings link_settings_;
  UploadSettings settings_;
  Spool* spool_;
  Ends ends_;
  std::vector<std::shared_ptr<const Spooled>> items_;  // as the spool had them last
  std::map<std::string, std::unique_ptr<Task>> tasks_;
  std::map<RequestId, Waiting> waiting_;
  std::set<RequestId> under_way_;
  std::set<RequestId> unremoved_;  // answered, and still in the spool
  std::vector<std::shared_ptr<Inbox>> listening_;
  std::shared_ptr<RateLimit> rate_;
  RateLimit begins_;
  TaskGroup turns_;
  TaskGroup watching_;
  Bell bell_;
  bool writing_ = false;  // an answer: one at a time
  bool stirred_ = false;  // since the spool was looked at last
  bool stopping_ = false;
  bool over_ = false;
  std::size_t answered_ = 0;
  std::uint32_t attempts_ = 0;
};

}  // namespace gearbox::client
