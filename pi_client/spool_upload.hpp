// spool_upload.hpp: works off a spool: each item is submitted under its id until it has its one answer, which is
// written down before the node and the spool may forget it. It does not give up; what is refused waits while others go.
//
// What a node has acknowledged stays with it (task_places.hpp). Only when that node has been silent for long does the
// item go to another one as well, under the same id; then the first answer is the answer, and the others are called
// off.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "homes.hpp"
#include "rate_limit.hpp"
#include "report.hpp"
#include "spool.hpp"
#include "task_places.hpp"
#include "tasks.hpp"

namespace gearbox::client {

struct UploadSettings {
  unsigned parallel = 4;             // requests under way at once; those of silent nodes do not count
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
  /// `spool` outlives it. `known`: what `homes` had about the spool's items.
  SpoolUpload(Dialler dialler, CentralAddress central, Identity identity, LinkSettings link, UploadSettings settings,
              Spool* spool, Homes homes, NodesByRequest known, Ends ends);

  /// Returns after stop(), or when nothing is left if the settings say so; all connections are closed then.
  asio::awaitable<void> run();
  /// From the next request on. 0: no limit.
  void set_max_rate(std::uint64_t bytes_per_second);
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
  /// An item that was refused, and waits.
  struct Waiting {
    unsigned refusals = 0;
    Instant not_before{};
  };
  /// One try to get one item answered over one route. An item that was moved may have several at once.
  struct Turn {
    std::shared_ptr<const Spooled> item;
    TaskPlaces* task = nullptr;  // all items of one task, or of the same own steps
    Route* route = nullptr;
    std::shared_ptr<NodeConnection> connection;  // null: not yet
    std::shared_ptr<Inbox> inbox;                // likewise
    bool superseded = false;                     // another one has the answer
    const RequestId& id() const { return item->item.id; }
    std::string node() const { return connection ? connection->node() : std::string(); }
  };
  enum class Fate { answered, again, gone };
  struct Attempt {
    Fate fate = Fate::again;
    milliseconds advised{0};
    std::shared_ptr<NodeConnection> connection;  // where the answer came from
    bool link_waits = false;                     // there is no connection, or none any more: the link makes the pauses
  };
  struct Choice {
    std::shared_ptr<const Spooled> item;
    TaskPlaces* task = nullptr;
    Route* route = nullptr;
  };

  // spool_upload.cpp: which item has its turn, and where
  asio::awaitable<void> begin_turns();
  asio::awaitable<void> watch_links();
  Choice choose(Instant* next);
  Route* route_for(const SpoolItem& item, TaskPlaces& task, Instant* from);
  bool holds(const std::string& node) const;
  std::size_t busy() const;
  std::vector<const Turn*> turns_of(const RequestId& id) const;
  void forget_waiting();
  void call_off_dropped(const std::vector<std::shared_ptr<const Spooled>>& before);

  // spool_tasks.cpp: which tasks have connections
  struct Placed {
    std::unique_ptr<TaskPlaces> places;
    Instant opened{};
    Instant used{};        // the last moment with an item or a turn
    bool holds = false;    // a node has acknowledged some of it
    bool leaving = false;  // begins nothing new: others wait for its place
  };
  TaskPlaces* task_of(const SpoolItem& item);
  bool is_away(const Placed& task, Instant now) const;
  std::size_t places_taken() const;
  void rest_tasks(Instant* next);
  void rest(const std::string& key);
  asio::awaitable<void> close(std::unique_ptr<TaskPlaces> places);

  // spool_turn.cpp: one turn
  asio::awaitable<void> take_turn(std::shared_ptr<Turn> turn);
  asio::awaitable<Attempt> try_once(std::shared_ptr<Turn> turn, Report* report);
  asio::awaitable<Attempt> converse(std::shared_ptr<Turn> turn, std::shared_ptr<Outgoing> outgoing, Report* report);
  bool may_begin_at(const RequestId& id, const TaskPlaces& task, const std::string& node);
  Attempt after_refusal(const Turn& turn, Report* report);
  bool has_lost(const Turn& turn) const;
  asio::awaitable<void> forget_home(std::shared_ptr<Turn> turn);
  void complain_of_homes(const Outcome<void>& noted);
  void unpin_if_free(const RequestId& id);
  asio::awaitable<void> note_home(RequestId id, std::string node);
  asio::awaitable<bool> finish(std::shared_ptr<Turn> turn, Report report, Attempt attempt);
  void call_off_elsewhere(const Turn& winner, const std::string& node);
  asio::awaitable<bool> remove(RequestId id);

  Dialler dialler_;
  CentralAddress central_;
  Identity identity_;
  LinkSettings link_settings_;
  UploadSettings settings_;
  Spool* spool_;
  Homes homes_file_;
  NodesByRequest homes_;  // of items in the spool: who has acknowledged them
  /// Who may have acknowledged them unheard: the connection was lost when something of them had been sent.
  NodesByRequest perhaps_homes_;
  Ends ends_;
  std::vector<std::shared_ptr<const Spooled>> items_;  // as the spool had them last
  std::map<std::string, Placed> tasks_;
  std::vector<std::string> queue_;                                 // tasks that wait for a place
  std::map<std::string, Troubles> rested_;                         // of those that had one
  std::map<std::pair<RequestId, const Route*>, Waiting> waiting_;  // a null route: before its task gave its place up
  std::vector<std::shared_ptr<Turn>> under_way_;
  std::set<RequestId> claimed_;    // an answer is being written
  std::set<RequestId> unremoved_;  // answered, and still in the spool
  std::shared_ptr<RateLimit> rate_;
  RateLimit begins_;
  TaskGroup turns_;
  TaskGroup watching_;
  TaskGroup closing_;
  Bell bell_;
  bool writing_ = false;  // an answer, or a home: one at a time
  bool stirred_ = false;  // since the spool was looked at last
  bool stopping_ = false;
  bool over_ = false;
  std::string homes_told_;
  std::string move_told_;
  std::size_t answered_ = 0;
  std::uint32_t attempts_ = 0;
};

}  // namespace gearbox::client
