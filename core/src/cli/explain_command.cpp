// explain: why one request went as it did, asked of the running node.
#include "cli/commands.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/explain_page.hpp"
#include "cli/json_facts.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};

/// All pieces of the node's answer, their steps brought together.
Outcome<json::object> ask_node(const std::filesystem::path& socket, std::string request) {
  json::object all;
  json::array steps;
  std::uint64_t from = 0;
  do {
    const json::object command{{"command", "explain"}, {"request", request}, {"from", from}};
    auto answer = serving::ask_control_now(socket, json::serialize(command), kWait);
    if (!answer) {
      const bool absent = answer.error().code == Errc::unreachable;
      return absent
                 ? Error{Errc::unreachable, "the node does not run, and what it knew of requests has gone with it: " +
                                                answer.error().detail}
                 : answer.error();
    }
    BOOST_OUTCOME_TRY(all, parse_object(answer.value()));
    request = text_in(all, "request");  // in full: a prefix may stand for more in a moment
    for (const json::value& step : list_in(all, "steps")) steps.push_back(step);
    const std::uint64_t next = number_in(all, "next");
    if (next != 0 && next <= from) return Error{Errc::bad_frame, "the answer's pieces do not follow each other"};
    from = next;
  } while (from != 0);
  all.erase("from");
  all.erase("next");
  all["steps"] = std::move(steps);
  return all;
}

void run_explain(CliContext& context, const std::string& request) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const Outcome<json::object> facts = ask_node(state.value().node_socket(), request);
  if (!facts) return fail(context, facts.error());
  if (context.json) return print_json(facts.value());
  const std::string page = explain_page(facts.value(), colour_wanted());
  std::fwrite(page.data(), 1, page.size(), stdout);
}

}  // namespace

void add_explain_command(CLI::App& app, CliContext& context) {
  CLI::App* command = add_command(app, context, "explain", "why a request went as it did: who chose what, and the time",
                                  "broker explain 3f2a9c01", true);
  const auto request = std::make_shared<std::string>();
  command->add_option("request", *request, "the request's id, or its first characters (broker results list)")
      ->required()
      ->type_name("ID");
  command->callback([&context, request] { run_explain(context, *request); });
}

}  // namespace gearbox::cli
