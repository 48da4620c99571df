// load.hpp: connections that ask again and again. Nothing is tried twice: whatever a device would have to mend by
// trying again counts as failed. One strand.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "locate.hpp"
#include "material.hpp"
#include "node_connection.hpp"
#include "tasks.hpp"

namespace gearbox::load {

namespace asio = boost::asio;

struct Sample {
  std::int64_t start_us;  // since 1970
  std::int64_t took_us;
  std::uint64_t node_us;  // of it, by the node's own account: submit arrived to result ready
  char sort;  // 'o': on an open connection; 'f': central asked, node dialled and logged in for this one request
  std::uint64_t ran_us;  // in the model's own code, by the worker's account: the sum over the steps
};

struct Tally {
  std::uint64_t requests = 0;  // ended, in whatever way
  std::uint64_t wrong = 0;
  std::map<std::string, std::uint64_t> failures;  // by reason
  std::vector<Sample> samples;                    // of those answered
};

class Load {
 public:
  struct Setup {
    client::Dialler dialler;
    client::CentralAddress central;
    std::vector<link::SigningKeys> devices;
    std::size_t open = 4;        // connections that stay, for each device
    std::size_t fresh = 1;       // requests that each have a connection of their own, at once, for each device
    microseconds open_every{0};  // a request's turn on each open connection; zero: as soon as the last is answered
    microseconds fresh_every{0};
  };
  /// `pieces`: at least one, all of one task.
  Load(Setup setup, std::vector<Piece> pieces);

  /// Returns when stop() was called and all that was begun has ended.
  asio::awaitable<void> run();
  void stop();
  const Tally& tally() const { return tally_; }

 private:
  struct Link;
  asio::awaitable<void> keep_asking(std::size_t device, milliseconds phase);
  asio::awaitable<void> ask_anew(std::size_t device, milliseconds phase);
  asio::awaitable<Outcome<std::shared_ptr<client::NodeConnection>>> connect(std::size_t device);
  asio::awaitable<bool> ask(std::shared_ptr<client::NodeConnection> connection, Instant turn, char sort);
  /// Waits for the next turn; false when there is none, or when the connection `meanwhile` has closed.
  asio::awaitable<bool> wait_turn(Instant* turn, microseconds every, const client::NodeConnection* meanwhile = nullptr);
  void failed(const Error& error);
  void note(Instant turn, char sort, const wire::Timing& node);

  Setup setup_;
  std::vector<Piece> pieces_;
  std::deque<client::Identity> identities_;  // never moved: coroutines point at them
  std::size_t next_piece_ = 0;
  bool stopping_ = false;
  client::Bell bell_;
  client::TaskGroup tasks_;
  Tally tally_;
};

/// One line of JSON.
std::string to_json(const Tally& tally);

}  // namespace gearbox::load
