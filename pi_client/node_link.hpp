// node_link.hpp: keeps one connection to the node that does the task: asks central, dials, logs in, and does so again,
// with growing, capped, random pauses, whenever the connection is lost while somebody wants one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "locate.hpp"
#include "node_connection.hpp"
#include "pause.hpp"
#include "tasks.hpp"

namespace gearbox::client {

struct LinkSettings {
  Pace pace;
  milliseconds connect_within{5'000};  // one try: resolve, connect, handshake, login
  milliseconds first_contact{10'000};  // how long failures may go on before anything has ever worked
  milliseconds shortest_pause{200};
  milliseconds longest_pause{10'000};
  bool patient = false;  // nothing is final: an account, a task or a key that is refused today may be right tomorrow
};

/// Will trying the same again help? Codes of links and of momentary states; not those that refuse an identity or a
/// question.
bool worth_retrying(Errc code);

class NodeLink {
 public:
  /// `identity` outlives the link; `question` is what central is asked.
  NodeLink(Dialler dialler, CentralAddress central, const Identity* identity, wire::Locate question,
           LinkSettings settings);

  struct Lease {
    std::shared_ptr<NodeConnection> connection;
    microseconds locate{0};  // what this caller waited for; zero on a connection that was open
    microseconds connect{0};
  };
  /// The open connection, or the next one. Errors: timeout at `deadline` (with the last failure as detail); cancelled;
  /// what no further try can mend (wrong_server_key, auth_failed, unknown_task ...), then also for every later caller.
  asio::awaitable<Outcome<Lease>> get(Instant deadline);

  /// A request was refused because the node is going: ask central anew before the next connection.
  void ask_again() { located_.reset(); }
  /// Something came through: pauses start small again.
  void made_progress() { tries_ = 0; }
  /// Why there is no connection; none while there is one, and before the first failure.
  const std::optional<Error>& trouble() const { return trouble_; }
  /// Ends all waiting in get().
  void cancel();
  /// Closes and waits for everything that was started here.
  asio::awaitable<void> finish(milliseconds within);

 private:
  asio::awaitable<void> connect_loop();
  asio::awaitable<Outcome<void>> connect_once(milliseconds* advised);
  asio::awaitable<Outcome<void>> ask_central(milliseconds* advised);
  asio::awaitable<Outcome<void>> dial_node(milliseconds* advised);
  /// Decides after a failure whether to go on.
  bool give_up(const Error& error, milliseconds advised);

  Dialler dialler_;
  CentralAddress central_;
  const Identity* identity_;
  wire::Locate question_;
  LinkSettings settings_;
  Instant started_;
  Bell bell_;
  TaskGroup tasks_;
  bool connecting_ = false;
  bool cancelled_ = false;
  bool ever_worked_ = false;
  bool refused_by_node_ = false;  // the last login at a node failed for what a fresh ticket may mend
  unsigned waiting_ = 0;
  unsigned tries_ = 0;          // failures in a row
  unsigned node_failures_ = 0;  // since central was asked last
  std::optional<Error> fatal_;
  std::optional<Error> last_error_;
  std::optional<Error> trouble_;  // last_error_ while it lasts
  std::optional<wire::Located> located_;
  Instant ticket_until_;
  microseconds locate_took_{0};
  microseconds connect_took_{0};
  std::shared_ptr<NodeConnection> connection_;
};

}  // namespace gearbox::client
