// task_places.hpp: where requests of one task are: the node that central names now, and nodes that have acknowledged
// some before. What a node has acknowledged stays with it, until it has been silent for so long that another may do it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gearbox/base/ids.hpp"
#include "node_link.hpp"

namespace gearbox::client {

/// How it went with a route so far.
struct Troubles {
  unsigned failures = 0;  // to get a connection, in a row
  Instant not_before{};
  std::string told;  // the trouble that was remarked last
  Instant told_at{};
  std::string refusal_told;  // likewise, of a refusal by the node
};

/// A way to a node, and how it went.
struct Route : Troubles {
  std::unique_ptr<NodeLink> link;
  unsigned turns = 0;      // of requests, under way over it
  unsigned waiting = 0;    // of those, without a connection yet
  bool connected = false;  // at the last try
};

/// All on one strand.
class TaskPlaces {
 public:
  struct Ends {
    std::function<void()> changed;                       // a connection is there, or not any more
    std::function<bool(const std::string& node)> holds;  // has it acknowledged what has no answer yet?
  };
  /// `identity` outlives it.
  TaskPlaces(Dialler dialler, CentralAddress central, const Identity* identity, wire::Locate question,
             LinkSettings settings, Ends ends);

  /// To the node that central names.
  Route& main() { return main_; }
  /// To a node that has acknowledged requests; it is main() while that is at the same node. A route of its own is kept
  /// connected while the node holds something.
  Route& home(const std::string& node);

  /// When a request that `nodes`, and no others, have acknowledged may be begun elsewhere: all were silent for
  /// move_after; and main() has been elsewhere for a while, in which they would have come back as well had only the way
  /// from here been cut. Instant::max(): never.
  Instant move_due(const std::vector<std::string>& nodes) const;
  bool is_silent(Instant heard, Instant now) const;

  /// Called every second or so: leaves the node of main() when it is silent and has acknowledged something.
  void look(Instant now);
  /// Its node takes nothing new: the next request goes elsewhere; what it has acknowledged stays there.
  void leave_main();
  /// Tells the node that nobody wants this request's answer any more, at once or when it is reached again. At most
  /// 1,024 such words wait for a node, an hour each: after that its own rules end them.
  void call_off(const RequestId& id, const std::string& node);

  bool connected() const;  // to any node
  bool owes() const;       // words to nodes that are not reached
  /// Those that are older.
  void forget_owed(milliseconds age);

  /// Ends all waiting.
  void stop();
  /// Closes, and waits for everything that was started here.
  asio::awaitable<void> finish(milliseconds within);

 private:
  struct Home {
    Route route;
    bool kept = false;                  // a coroutine looks after it
    std::map<RequestId, Instant> owed;  // to be called off there, since when
  };
  Home& home_of(const std::string& node);
  asio::awaitable<void> keep(std::shared_ptr<Home> home, std::string node);
  void pay(Home& home, NodeConnection& connection);
  Instant heard(const std::string& node) const;

  Dialler dialler_;
  CentralAddress central_;
  const Identity* identity_;
  wire::Locate question_;
  LinkSettings settings_;
  Ends ends_;
  Instant started_;
  Route main_;
  std::map<std::string, std::shared_ptr<Home>> homes_;
  Bell bell_;
  TaskGroup tasks_;
  bool stopping_ = false;
};

}  // namespace gearbox::client
