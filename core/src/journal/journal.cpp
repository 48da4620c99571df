#include "journal/journal.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/upload.hpp"
#include "journal/rows.hpp"
#include "sqlite/folder.hpp"

namespace gearbox::journal {

namespace {

constexpr std::size_t kTogether = 64;       // orders in one commit, at most: the first of them must not wait long
constexpr milliseconds kTellEvery{10'000};  // between two log lines about one trouble
constexpr milliseconds kAgainAfter{1'000};  // what the disk did not take and nobody waits for
constexpr milliseconds kNoteEvery{60'000};  // of the running time

std::uint64_t total(const std::vector<ByteView>& views) {
  std::uint64_t bytes = 0;
  for (const ByteView view : views) bytes += view.size();
  return bytes;
}

std::string digest_of(const std::vector<ByteView>& views) {
  link::Digest digest;
  for (const ByteView view : views) digest.update(view);
  return digest.hex();
}

struct Forget {
  RequestKey key;
};

struct Accept {
  Accepted request;
  std::function<void(Outcome<void>)> done;
};

struct Settle {
  Settled result;
  std::function<void(Outcome<bool>)> done;
};

struct Fetch {
  RequestKey key;
  std::function<void(Outcome<Found>)> done;
};

struct Order {
  std::variant<Accept, Settle, Forget, Fetch> what;
  std::optional<Error> failure;  // it could not be placed
  Placed placed;
  std::uint64_t head_bytes = 0;
  bool changed = false;    // a row was written
  std::uint64_t gone = 0;  // bytes that are let go of, as they count
};

}  // namespace

struct Journal::State {
  Setup setup;
  Rows rows;              // of the thread, once it runs
  PayloadFiles payloads;  // likewise
  std::vector<Kept> kept;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  std::deque<Order> queue;
  bool stopping = false;
  bool in_order = false;
  Counters counters;

  // Of the thread.
  std::vector<Order> again;  // to be forgotten, still: the disk was full
  Instant again_at{};        // not before
  std::int64_t ran_before_ms = 0;
  Instant opened_at{}, noted_at{};

  Instant told_at{};
  std::thread thread;

  explicit State(Setup wanted) : setup(std::move(wanted)), payloads(setup.folder) {}

  std::filesystem::path file() const { return setup.folder / "journal.db"; }

  Outcome<void> open_all() {
    BOOST_OUTCOME_TRY(sqlite::make_private_folder(setup.folder));
    BOOST_OUTCOME_TRY(rows, Rows::open(file()));
    if (Outcome<void> counted = rows.count_opening(); !counted) {
      if (counted.error().code == Errc::corrupt_data) return counted.error();
      // On a full disk what is there can be read all the same.
      spdlog::warn("event=journal_failed reason=\"{}\"", escaped(describe(counted.error())));
    }
    BOOST_OUTCOME_TRY(kept, rows.all());
    BOOST_OUTCOME_TRY(ran_before_ms, rows.running_ms());
    opened_at = noted_at = Clock::now();
    BOOST_OUTCOME_TRY(const std::set<PayloadFile> used, rows.payloads());
    payloads = PayloadFiles(setup.folder);
    BOOST_OUTCOME_TRY(payloads.open(used));
    return done();
  }

  Outcome<void> open() {
    Outcome<void> opened = open_all();
    if (!opened && opened.error().code == Errc::corrupt_data) {
      rows = Rows();
      kept.clear();
      BOOST_OUTCOME_TRY(counters.set_aside, sqlite::set_aside(setup.folder));
      spdlog::error(
          "event=journal_damaged reason=\"{}\" set_aside={} hint=\"what was accepted before is not known any "
          "more; devices send it again\"",
          escaped(describe(opened.error())), counters.set_aside.string());
      opened = open_all();
    }
    if (!opened) return opened;
    counters.requests = kept.size();
    for (const Kept& one : kept) counters.bytes += one.counted;
    return done();
  }

  void add(Order order) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(order));
    }
    wake.notify_one();
  }

  void work() {
    bool last_try = false;
    std::unique_lock lock(mutex);
    for (;;) {
      const auto work_is_there = [&] { return stopping || !queue.empty(); };
      if (again.empty()) {
        wake.wait(lock, work_is_there);
      } else {
        wake.wait_until(lock, again_at, work_is_there);
      }
      if (queue.empty() && stopping) {
        if (again.empty() || last_try) break;
        last_try = true;
        again_at = {};
      }
      std::vector<Order> orders;
      // A batch of their own: while the disk is full they fail, and nothing else is to wait for them or fail with them.
      if (!again.empty() && Clock::now() >= again_at) orders = std::exchange(again, {});
      const std::size_t most = setup.level == Level::always ? 1 : kTogether;
      if (orders.empty()) take(orders, most);
      if (orders.empty()) continue;
      std::uint64_t held = counters.bytes;
      lock.unlock();
      std::vector<Order> later = place_all(orders, held);
      const Outcome<std::vector<PayloadFile>> freed = write(orders);
      if (freed) {
        for (const PayloadFile payload : freed.value()) payloads.let_go(payload);
        const auto changed = [](const Order& order) { return order.changed; };
        if (std::any_of(orders.begin(), orders.end(), changed)) again_at = {};  // the disk takes something again
      }
      for (const Order& order : orders) {
        if ((!freed || !order.changed) && order.placed.payload != 0) payloads.let_go(order.placed.payload);
      }
      lock.lock();
      count(orders, freed);
      lock.unlock();
      for (Order& order : orders) tell(order, freed);
      if (!freed) {
        for (Order& order : orders) {
          if (!std::holds_alternative<Forget>(order.what)) continue;
          again.push_back(std::move(order));
          again_at = after(Clock::now(), kAgainAfter);
        }
      }
      orders.clear();
      lock.lock();
      queue.insert(queue.begin(), std::make_move_iterator(later.begin()), std::make_move_iterator(later.end()));
    }
    lock.unlock();
    // What is not noted makes answers wait a little longer, no more.
    [[maybe_unused]] const Outcome<void> noted = rows.note_running(running_ms(Clock::now()));
  }

  void take(std::vector<Order>& orders, std::size_t most) {
    while (!queue.empty() && orders.size() < most) {
      orders.push_back(std::move(queue.front()));
      queue.pop_front();
    }
  }

  std::int64_t running_ms(Instant now) const { return ran_before_ms + elapsed(opened_at, now).count() / 1000; }

  /// Places all of a batch, up to a request that has no room as long as those before it have not let go of theirs: that
  /// one and the rest are given back, for the next batch.
  std::vector<Order> place_all(std::vector<Order>& orders, std::uint64_t& held) {
    bool makes_room = false;
    auto order = orders.begin();
    for (; order != orders.end(); ++order) {
      if (makes_room && !has_room(*order, held)) break;
      place(*order, held);
      makes_room = makes_room || std::holds_alternative<Forget>(order->what);
    }
    std::vector<Order> later(std::make_move_iterator(order), std::make_move_iterator(orders.end()));
    orders.erase(order, orders.end());
    return later;
  }

  /// A result always has: it is smaller than what it lets go of as a rule, and refusing it would help nobody.
  bool has_room(const Order& order, std::uint64_t held) const {
    const auto* accept = std::get_if<Accept>(&order.what);
    return accept == nullptr ||
           held + total(accept->request.bytes) + count_of_row(accept->request.head.size()) <= setup.max_bytes;
  }

  /// The payload to where it will lie, large ones durably. `held`: bytes that the journal holds, with this batch's.
  void place(Order& order, std::uint64_t& held) {
    const std::vector<ByteView>* parts = nullptr;
    if (const auto* accept = std::get_if<Accept>(&order.what)) {
      parts = &accept->request.bytes;
      order.head_bytes = count_of_row(accept->request.head.size());
    } else if (const auto* settle = std::get_if<Settle>(&order.what)) {
      parts = &settle->result.bytes;
      order.head_bytes = settle->result.head.size();
    } else {
      return;
    }
    Placed& placed = order.placed;
    placed.bytes = total(*parts);
    if (!has_room(order, held)) {
      order.failure = Error{Errc::no_space, "the journal holds " + std::to_string(held >> 20) + " MB of " +
                                                std::to_string(setup.max_bytes >> 20) + ": results wait for devices"};
      return;
    }
    placed.digest = digest_of(*parts);
    if (placed.bytes <= kRowBytes) {
      placed.in_row.reserve(placed.bytes);
      for (const ByteView part : *parts) placed.in_row.insert(placed.in_row.end(), part.begin(), part.end());
    } else if (Outcome<PayloadFile> payload = payloads.write(*parts)) {
      placed.payload = payload.value();
    } else {
      order.failure = payload.error();
      return;
    }
    held += placed.bytes + order.head_bytes;
  }

  /// All of them in one transaction; the payloads that nothing names any more. Errors: none of them is durable.
  Outcome<std::vector<PayloadFile>> write(std::vector<Order>& orders) {
    std::vector<PayloadFile> freed;
    const bool nothing = std::all_of(orders.begin(), orders.end(), [](const Order& order) {
      return order.failure.has_value() || std::holds_alternative<Fetch>(order.what);
    });
    if (nothing) return freed;
    Outcome<void> written = rows.begin();
    if (!written) return written.error();
    for (Order& order : orders) {
      if (order.failure) continue;
      written = write(order, freed);
      if (!written) break;
    }
    const Instant now = Clock::now();
    if (written && now - noted_at > kNoteEvery) {
      written = rows.note_running(running_ms(now));
      noted_at = now;
    }
    if (written) written = rows.commit();
    if (written) return freed;
    rows.rollback();
    for (Order& order : orders) order.changed = false;
    return written.error();
  }

  Outcome<void> write(Order& order, std::vector<PayloadFile>& freed) {
    if (const auto* accept = std::get_if<Accept>(&order.what)) {
      BOOST_OUTCOME_TRY(order.changed, rows.accept(accept->request.key, accept->request.head, order.placed));
    } else if (const auto* settle = std::get_if<Settle>(&order.what)) {
      const Settled& result = settle->result;
      BOOST_OUTCOME_TRY(const Rows::Gone gone,
                        rows.settle(result.key, result.ok, result.head, order.placed, running_ms(Clock::now())));
      note(order, gone, freed);
    } else if (const auto* forget = std::get_if<Forget>(&order.what)) {
      BOOST_OUTCOME_TRY(const Rows::Gone gone, rows.forget(forget->key));
      note(order, gone, freed);
    }
    return done();
  }

  static void note(Order& order, const Rows::Gone& gone, std::vector<PayloadFile>& freed) {
    order.changed = gone.changed;
    order.gone = gone.bytes;
    freed.insert(freed.end(), gone.payloads.begin(), gone.payloads.end());
  }

  void count(const std::vector<Order>& orders, const Outcome<std::vector<PayloadFile>>& freed) {
    std::optional<Error> trouble;
    if (!freed) trouble = freed.error();
    bool committed = false;
    for (const Order& order : orders) {
      if (std::holds_alternative<Fetch>(order.what)) continue;
      if (order.failure) trouble = order.failure;
      if (!freed || order.failure) {
        ++counters.failed;
        continue;
      }
      committed = true;
      if (!order.changed) {
        counters.repeated += std::holds_alternative<Forget>(order.what) ? 0 : 1;
        continue;
      }
      counters.bytes -= std::min(counters.bytes, order.gone);
      if (std::holds_alternative<Forget>(order.what)) {
        ++counters.forgotten;
        --counters.requests;
        continue;
      }
      counters.bytes += order.placed.bytes + order.head_bytes;
      if (std::holds_alternative<Accept>(order.what)) {
        ++counters.accepted;
        ++counters.requests;
      } else {
        ++counters.settled;
      }
    }
    if (committed) ++counters.commits;
    if (!trouble) {
      if (committed) counters.last_error.clear();
      return;
    }
    counters.last_error = describe(*trouble);
    const Instant now = Clock::now();
    if (told_at != Instant{} && now - told_at < kTellEvery) return;
    told_at = now;
    spdlog::warn("event=journal_failed reason=\"{}\"", escaped(counters.last_error));
  }

  void tell(Order& order, const Outcome<std::vector<PayloadFile>>& freed) {
    std::optional<Error> error = order.failure;
    if (!error && !freed) error = freed.error();
    if (auto* accept = std::get_if<Accept>(&order.what)) {
      accept->done(error ? Outcome<void>(*error) : done());
    } else if (auto* settle = std::get_if<Settle>(&order.what)) {
      settle->done(error ? Outcome<bool>(*error) : Outcome<bool>(order.changed));
    } else if (auto* fetch = std::get_if<Fetch>(&order.what)) {
      fetch->done(read(fetch->key));
    }
  }

  Outcome<Found> read(const RequestKey& key) {
    BOOST_OUTCOME_TRY(auto row, rows.find(key));
    Placed& placed = row.second;
    Found found;
    found.kept = std::move(row.first);
    if (placed.payload != 0) {
      BOOST_OUTCOME_TRY(found.bytes, payloads.read(placed.payload, placed.bytes));
    } else {
      found.bytes = std::move(placed.in_row);
    }
    if (found.bytes.size() != placed.bytes || digest_of({ByteView(found.bytes)}) != placed.digest) {
      return Error{Errc::corrupt_data, "the journal's bytes of this request are not those that were written"};
    }
    return found;
  }
};

Journal::Journal(std::unique_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<Journal>> Journal::open(Setup setup) {
  auto state = std::make_unique<State>(std::move(setup));
  BOOST_OUTCOME_TRY(state->open());
  state->thread = std::thread([at = state.get()] { at->work(); });
  return std::unique_ptr<Journal>(new Journal(std::move(state)));
}

Journal::~Journal() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_one();
  state_->thread.join();
  if (!state_->in_order) return;
  if (const Outcome<void> taken_back = state_->rows.take_opening_back(); !taken_back) {
    spdlog::warn("event=journal_failed reason=\"{}\"", escaped(describe(taken_back.error())));
  }
}

void Journal::ends_in_order() {
  const std::lock_guard lock(state_->mutex);
  state_->in_order = true;
}

const std::vector<Kept>& Journal::kept() const {
  return state_->kept;
}

void Journal::accept(Accepted request, std::function<void(Outcome<void>)> done) {
  Order order;
  order.what = Accept{std::move(request), std::move(done)};
  state_->add(std::move(order));
}

void Journal::settle(Settled result, std::function<void(Outcome<bool>)> done) {
  Order order;
  order.what = Settle{std::move(result), std::move(done)};
  state_->add(std::move(order));
}

void Journal::forget(const RequestKey& key) {
  Order order;
  order.what = Forget{key};
  state_->add(std::move(order));
}

void Journal::fetch(const RequestKey& key, std::function<void(Outcome<Found>)> done) {
  Order order;
  order.what = Fetch{key, std::move(done)};
  state_->add(std::move(order));
}

Counters Journal::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

}  // namespace gearbox::journal
