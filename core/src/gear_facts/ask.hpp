// ask.hpp: asking another role, or a group's engine, and waiting for the answer; always with a bound.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>

#include <filesystem>
#include <functional>
#include <vector>

#include "gear_facts/facts.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::gear_facts {

using Answer = Outcome<boost::json::object>;

/// One control command to a role. Errors: unreachable, timeout, closed; what the role answered; bad_frame.
boost::asio::awaitable<Answer> ask_role(boost::asio::any_io_executor executor, std::filesystem::path socket,
                                        boost::json::object command, milliseconds within);

/// One line of JSON to a group's driver, one line back. Errors: unreachable, timeout, closed, bad_frame,
/// frame_too_large. Whatever the engine says, also that it will not, is an answer.
boost::asio::awaitable<Answer> ask_engine(boost::asio::any_io_executor executor, std::filesystem::path socket,
                                          boost::json::object question, milliseconds within);

/// One control command to a role, wherever that is. Errors: as ask_role.
using Asker = std::function<boost::asio::awaitable<Answer>(boost::json::object command, milliseconds within)>;
/// Of this host.
Asker role_at(boost::asio::any_io_executor executor, std::filesystem::path socket);

/// The list behind `command`, all pages of it; `head`: the first page without its list. Errors: as ask_role.
struct Listed {
  boost::json::object head;
  std::vector<boost::json::object> list;
};
boost::asio::awaitable<Outcome<Listed>> ask_list(Asker role, boost::json::object command, milliseconds within);

/// The observer's newest round. Errors: as ask_role.
boost::asio::awaitable<Outcome<Snapshot>> ask_snapshot(Asker observer, milliseconds within);
/// What the executor knows of its groups.
struct Records {
  std::uint64_t term = 0;  // the highest that it has obeyed
  std::vector<GroupRecord> groups;
};
/// `term`: of the one who asks, when it leads: orders of an older one are refused from then on; 0: it does not.
/// Errors: as ask_role.
boost::asio::awaitable<Outcome<Records>> ask_records(Asker executor, milliseconds within, std::uint64_t term = 0);

/// JSON of a bounded depth. Errors: bad_frame.
Answer parse_answer(std::string_view text);

}  // namespace gearbox::gear_facts
