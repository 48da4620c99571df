// hosts.hpp: the hosts on whose groups this scheduler decides when it leads: its own, and those that gears.hosts names;
// what their observers and executors said last, and which of them are away.
//
// All are asked at the same time, and a round waits a second at most for those that answered the last time; for the
// others it does not wait.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gear_facts/ask.hpp"
#include "gearbox/base/clock.hpp"
#include "scheduler/host_door.hpp"
#include "scheduler/trust.hpp"

namespace gearbox::scheduler {

struct Host {
  std::string name;  // of its node
  bool own = false;
  std::shared_ptr<HostDoor> door;

  gear_facts::Snapshot snapshot;
  std::vector<gear_facts::GroupRecord> records;
  std::uint64_t term = 0;  // that its executor has obeyed
  bool seen = false;       // the three above, at:
  Instant seen_at{};
  milliseconds lag{0};                              // between the snapshot and the records
  std::string trouble = "it has not answered yet";  // of the last look; empty: none
  bool asking = false;
  Instant look_at{};      // not before
  milliseconds pause{0};  // the last one after which it was tried again

  bool news = false;         // figures on which nothing was decided yet
  bool ordering = false;     // shifts are being ordered there
  std::uint64_t orders = 0;  // of such times: what was seen before the last one has ended tells nothing
  std::optional<Instant> outranked_at;

  Trust trust;
  std::uint64_t link_samples = 0;  // of its observer, that trust knows of

  /// Why nothing may be decided on its groups; empty: it may.
  std::string away(Instant now) const;
  /// A look has ended well. `fair`: nothing was ordered since it had begun.
  /// `began`: when the snapshot was asked for.
  void take(gear_facts::Snapshot snapshot, gear_facts::Records records, bool fair, Instant began, Instant now);
  /// It has not: it is tried again after a pause that doubles, unless it is this host.
  void failed(std::string why, Instant now);
};
using HostPtr = std::shared_ptr<Host>;

/// Threads: one strand.
class Hosts {
 public:
  using MakeDoor = std::function<std::shared_ptr<HostDoor>(const std::string& node)>;
  Hosts(boost::asio::any_io_executor executor, std::string own_name, std::shared_ptr<HostDoor> own_door,
        MakeDoor make_door);

  /// These, beside this one. What is known of those that stay is kept.
  void use(const std::vector<std::string>& names);
  /// Somebody else leads: nothing is asked of other hosts, and nothing kept open.
  void let_go();

  /// Asks all of them. `term`: of the one who leads; executors keep it.
  static boost::asio::awaitable<void> look(std::shared_ptr<Hosts> self, std::uint64_t term);

  const std::vector<HostPtr>& all() const { return hosts_; }  // this one first
  const Host& own() const { return *hosts_.front(); }
  bool are_several() const { return hosts_.size() > 1; }
  /// How a group is called here: NODE/GROUP when there are several hosts.
  std::string name_of(const Host& host, const std::string& group) const;

  boost::json::array to_json(Instant now) const;
  /// A page of all groups, each with its host and what its executor knows ("record"), behind the one called `after`.
  boost::json::object groups(const std::string& after, Instant now) const;

 private:
  struct Looks {
    explicit Looks(const boost::asio::any_io_executor& executor) : over(executor) {}
    boost::asio::steady_timer over;
    std::size_t open = 0;
  };
  /// `looks`: of the round that waits for it; null: none does.
  static boost::asio::awaitable<void> look_at(HostPtr host, std::uint64_t term, std::shared_ptr<Looks> looks);

  boost::asio::any_io_executor executor_;
  MakeDoor make_door_;
  std::vector<HostPtr> hosts_;
};

}  // namespace gearbox::scheduler
