// outbox_state.hpp: what an Outbox holds, and what its thread does; private to the files that implement it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "sinks/lane.hpp"
#include "sinks/outbox.hpp"
#include "sinks/queue.hpp"

namespace gearbox::sinks {

inline constexpr std::size_t kTogether = 256;             // orders in one commit, or rows of one look, at most
inline constexpr std::uint64_t kBatchBytes = 4ULL << 20;  // of one delivery, but for a single event

/// Shared with the threads of the lanes: one that is left behind may still report.
struct Outbox::State {
  struct Put {
    Event event;
    std::vector<std::string> sinks;
    std::uint64_t bytes = 0;
  };
  struct Forget {
    RequestKey key;
    bool let_go = false;  // its event was on the way: the journal hears of it behind that
  };
  using Order = std::variant<Put, Forget, Report>;

  struct Sink {
    config::SinkConfig config;
    Waiting waiting;                 // committed; counted once, when the queue is opened
    std::uint64_t dead = 0;          // dead letters
    std::size_t wanted = 0;          // the lane waits for a batch of so many; 0: it is busy
    std::vector<std::int64_t> held;  // events that the lane keeps: not offered to it
    std::shared_ptr<Lane> lane;      // null while it is opened
  };

  Setup setup;
  Queue queue;  // of the thread, once it runs
  std::vector<RequestKey> known;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  std::map<std::string, Sink> sinks;  // none comes or goes
  std::deque<Order> orders;
  std::unordered_map<RequestKey, std::uint32_t, RequestKeyHash> on_their_way;  // puts that are not written
  std::size_t handed_over = 0;
  std::uint64_t handed_over_bytes = 0;
  std::uint64_t dropped = 0;
  std::string last_error;
  std::filesystem::path set_aside_as;
  std::map<std::string, std::uint64_t> stranded;  // see Facts
  bool stopping = false;

  // Of the thread.
  Instant told_at{};
  std::set<std::string> buried;  // letters of the batch that the disk has not taken: they are in their files already
  std::thread thread;

  explicit State(Setup wanted) : setup(std::move(wanted)) {}

  // outbox_open.cpp
  Outcome<void> open();
  std::filesystem::path folder_of(const std::string& sink) const { return setup.sinks_folder / sink; }

  // outbox_writer.cpp
  void add(Order order);
  /// The thread: until `stopping`, and nothing is left to be written.
  void work();
  /// With the lock.
  void complain(const Error& error);

 private:
  /// What a batch changes, in numbers; put in force when it is committed.
  struct Change {
    Waiting waiting;  // of that sink, then
    std::uint64_t dead = 0;
    std::map<std::string, std::vector<std::string>> letters;  // dead ones, by why
  };
  using Changes = std::map<std::string, Change>;
  using Configs = std::map<std::string, config::SinkConfig>;

  Outcome<void> open_queue();
  Outcome<void> give_up(const std::string& name);
  void strand(const std::string& name, const Error& error);

  Outcome<void> write(std::vector<Order>& batch);
  Outcome<void> write(const Put& put, const Configs& configs, Changes& changes);
  Outcome<void> write(const Report& report, Change& change);
  void bury(const config::SinkConfig& sink, Change& change, std::uint64_t& lost);
  void put_in_force(const std::vector<Order>& batch, const Changes& changes, std::uint64_t lost);
  bool feed(std::unique_lock<std::mutex>& lock);
};

}  // namespace gearbox::sinks
