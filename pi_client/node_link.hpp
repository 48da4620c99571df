// node_link.hpp: keeps one connection to the node that does the task, or to a certain node: asks central, dials, logs
// in, and does so again, with growing, capped, random pauses, whenever the connection is lost while somebody wants one.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
  /// What a node has acknowledged stays with it: so long without a word of it, then another may do it. 0: never
  /// another.
  milliseconds move_after{60'000};
};

/// A node as central named it, and as far as a link got with it. Another link to the same node goes on from there.
struct NodePlace {
  wire::Located located;
  Instant ticket_until;
  Instant heard;                               // the last word of it; before the first one, when this became known
  std::shared_ptr<NodeConnection> connection;  // may be null
};

/// Will trying the same again help? Codes of links and of momentary states; not those that refuse an identity or a
/// question.
bool worth_retrying(Errc code);

class NodeLink {
 public:
  /// `identity` outlives the link; `question` is what central is asked. With a node in it, the link is to that one.
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
  void ask_again() { forget_place(); }
  /// The next connection is to another node, if there is one. Returns what is known of the one so far; whoever takes it
  /// finishes its connection. None: there is none.
  std::optional<NodePlace> leave();
  /// Goes on from there. Precondition: no connection has been asked for yet.
  void take_over(NodePlace place);
  /// What was known of a node that this link was at; none: it never was, or too long ago.
  std::optional<NodePlace> place_of(const std::string& node) const;
  /// Nodes that are taken only if no other can; for the next questions.
  void avoid(std::set<std::string> nodes) { avoid_ = std::move(nodes); }
  /// The node that is tried or connected; empty: none is known.
  std::string node() const { return located_ ? located_->node : std::string(); }
  bool connected() const { return connection_ && connection_->is_open(); }
  Instant connected_since() const { return connected_since_; }
  /// The last word of node(); before the first one, when it became known.
  Instant heard() const { return connection_ ? std::max(heard_, connection_->heard()) : heard_; }
  const std::shared_ptr<NodeConnection>& connection() const { return connection_; }
  /// How many requests are acknowledged by node(): while there are any, it is left only after move_after.
  void holds(unsigned requests) { holds_ = requests; }
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
  wire::Locate question() const;
  bool may_leave() const;
  void note_left();
  void forget_place();
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
  Instant heard_;
  Instant connected_since_;
  unsigned holds_ = 0;
  std::size_t central_turn_ = 0;
  std::set<std::string> avoid_;
  std::map<std::string, NodePlace> left_;  // nodes that this link was at, without connections
  microseconds locate_took_{0};
  microseconds connect_took_{0};
  std::shared_ptr<NodeConnection> connection_;
};

}  // namespace gearbox::client
