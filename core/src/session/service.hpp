// service.hpp: what sessions and requests need of the node that hosts them. Everything outlives every session; one
// strand.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "config/config.hpp"
#include "dispatch/dispatcher.hpp"
#include "explain/book.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/plugin/codec.hpp"
#include "gearbox/wire/messages.hpp"
#include "journal/journal.hpp"
#include "recording/recorder.hpp"
#include "serving/log_budget.hpp"
#include "session/identity.hpp"
#include "store/store.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::sinks {
class Outbox;
}

namespace gearbox::session {

struct Service {
  boost::asio::io_context* io = nullptr;
  std::string node;
  const link::ChannelKeys* channel_keys = nullptr;
  worker_pool::WorkerPool* pool = nullptr;
  dispatch::Dispatcher* dispatcher = nullptr;
  store::ResultStore* store = nullptr;      // null: nothing is kept
  journal::Journal* journal = nullptr;      // null: what is acknowledged lives as long as the process
  sinks::Outbox* sinks = nullptr;           // null: no sink is configured
  std::filesystem::path quarantine;         // its file; empty: it lives as long as the process
  explain::Book* explain = nullptr;         // null: nothing is remembered
  recording::Recorder* recorder = nullptr;  // null: nothing is recorded
  /// An answer waits so long in memory for its device to acknowledge it, or to come back; a running request of a lost
  /// device as long, unless it is in the journal.
  milliseconds linger{30'000};
  serving::LogBudget log{20, seconds(10)};  // for what strangers cause
  std::function<config::Snapshot()> config;
  std::function<Outcome<std::shared_ptr<plugin::Codec>>(std::string_view name)> codec;
  /// Checks a ticket that `device` presents against central's keys, time and revocations.
  std::function<Outcome<wire::Ticket>(std::string_view ticket, const PublicKey& device)> check_ticket;
  /// May a session that was let in begin another request? Errors: expired_ticket, not_allowed (revoked): the session
  /// ends.
  std::function<Outcome<void>(const Identity&)> still_good;
  /// A connection that has asked for a rank of a group, with the JSON of its ranks_open: serves it until its end.
  /// Errors: said to the peer when they come before the stream was open; closed at its end.
  using ServeStream =
      std::function<boost::asio::awaitable<Outcome<void>>(std::shared_ptr<net::FrameStream>, std::string, Identity)>;
  ServeStream serve_ranks;
  /// Likewise one that wants to decide on groups, with the JSON of its gears_open.
  ServeStream serve_gears;
  /// A command of the local command line, as JSON; its answer, as JSON. Errors: sent back in an error frame.
  std::function<Outcome<std::string>(const std::string& command)> control;
};

}  // namespace gearbox::session
