// fair_queue.hpp: which of the calls that wait for one model goes next. Strictly by priority; within one priority
// tenants share by weight; within one tenant in order of arrival.
//
// Start-time fair queueing (Goyal, Vin, Cheng, 1996), with one tag per tenant instead of one per call: the tenant with
// the smallest tag goes next, and its tag grows by the call's cost divided by its weight. A tenant that comes (back)
// begins at the virtual time, the tag of the call that went last: it waits for nobody's past, and gets nothing for the
// time that it was away. The cost is the time inside the model: estimated as the mean of the latest calls when one
// goes, corrected when it has been measured. So tenants share the workers' time: one whose calls take twice as long
// gets half as many of them through.
//
// Pure: no clock, no I/O. Every operation is O(log n) in the number of tenants with calls; push, pop and remove do not
// depend on how many calls wait. Memory: the calls that wait, and one entry for each tenant that has some, or has had
// more than the virtual time accounts for.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gearbox::dispatch {

class FairQueue {
 public:
  using Item = std::uint64_t;  // never one twice while it waits
  /// Whose call it is. A tenant's weight is that of the call at hand: its accounts may have different ones.
  struct Owner {
    std::uint32_t tenant = 0;
    std::uint32_t weight = 1;   // 0 counts as 1
    std::uint8_t priority = 0;  // higher is sooner
  };

  void push(Item item, const Owner& owner);
  /// A call that went and came back without an answer: it is its tenant's next one, and what pop() charged for it is
  /// given back, so that it does not wait for a second turn.
  void put_back(Item item, const Owner& owner, double charged);

  bool empty() const { return where_.empty(); }
  std::size_t size() const { return where_.size(); }
  /// The one that goes next. Precondition: not empty.
  Item front() const;
  /// Takes it away; returns what its tenant was charged, in virtual time. Precondition: not empty.
  double pop();
  /// False: it does not wait here.
  bool remove(Item item);
  /// All of them: priorities from high to low, each tenant's in order.
  std::vector<Item> items() const;

  /// A call of `owner` for which pop() had `charged` took `cost` (in one unit for all, above 0; else nothing changes).
  void ran(const Owner& owner, double charged, double cost);
  /// Of the calls that ran, the latest counting most; 0: none did.
  double mean_cost() const { return mean_; }

 private:
  struct Waiting {
    Item item = 0;
    std::uint32_t weight = 1;
  };
  struct Flow {  // one tenant at one priority
    std::list<Waiting> calls;
    double tag = 0;
    std::uint64_t since = 0;  // order among equal tags: who has waited longer
  };
  struct Turn {
    double tag = 0;
    std::uint64_t since = 0;
    std::uint32_t tenant = 0;
    auto operator<=>(const Turn&) const = default;
  };
  struct Level {  // one priority
    std::unordered_map<std::uint32_t, Flow> flows;
    std::set<Turn> turns;                              // of flows with calls
    std::set<std::pair<double, std::uint32_t>> ahead;  // of flows without, whose tags lie ahead of the virtual time
    double virtual_time = 0;
  };
  using Levels = std::map<std::uint8_t, Level, std::greater<>>;
  struct Place {
    std::uint8_t priority = 0;
    std::uint32_t tenant = 0;
    std::list<Waiting>::iterator at;
  };

  static Flow& begin_change(Level& level, std::uint32_t tenant);
  void end_change(Levels::iterator level, std::uint32_t tenant, Flow& flow);
  template <class Map>
  static auto next_level(Map& levels);

  Levels levels_;
  std::unordered_map<Item, Place> where_;
  double mean_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace gearbox::dispatch
