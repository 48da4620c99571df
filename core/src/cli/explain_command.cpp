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
#include "cli/no_node.hpp"
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
    if (!answer) return from_node(answer.error(), ", and what it knew of requests has gone with it");
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

/// Why central sent the device to this node. Not the command's failure: the node's part stands without it.
void add_placement(const config::StateDir& state, json::object& facts) {
  const std::uint64_t number = number_in(facts, "placement");
  if (number == 0) return;
  const json::object command{{"command", "placement"}, {"placement", number}};
  Outcome<json::object> told = Error{};
  auto answer = serving::ask_control_now(state.central_socket(), json::serialize(command), kWait);
  if (answer) {
    told = parse_object(answer.value());
  } else {
    told = answer.error();
  }
  if (told) {
    facts["central"] = std::move(told).value();
    return;
  }
  const bool absent = told.error().code == Errc::unreachable;
  facts["central"] =
      json::object{{"unknown", absent ? "no central runs on this host; ask where it does: broker explain --placement " +
                                            std::to_string(number)
                                      : describe(told.error())}};
}

void run_explain(CliContext& context, const std::string& request) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  Outcome<json::object> facts = ask_node(state.value().node_socket(), request);
  if (!facts) return fail(context, facts.error());
  add_placement(state.value(), facts.value());
  if (context.json) return print_json(facts.value());
  const std::string page = explain_page(facts.value(), colour_wanted());
  std::fwrite(page.data(), 1, page.size(), stdout);
}

/// Where central runs, but not the node.
void run_explain_placement(CliContext& context, std::uint64_t number) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const json::object command{{"command", "placement"}, {"placement", number}};
  const auto answer = serving::ask_control_now(state.value().central_socket(), json::serialize(command), kWait);
  if (!answer) return fail(context, answer.error());
  const Outcome<json::object> facts = parse_object(answer.value());
  if (!facts) return fail(context, facts.error());
  if (context.json) return print_json(facts.value());
  const std::string text = placement_text(facts.value(), colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_explain_command(CLI::App& app, CliContext& context) {
  CLI::App* command = add_command(app, context, "explain", "why a request went as it did: who chose what, and the time",
                                  "broker explain 3f2a9c01", true);
  const auto request = std::make_shared<std::string>();
  CLI::Option* const by_id =
      command->add_option("request", *request, "the request's id, or its first characters (broker results list)")
          ->type_name("ID");
  const auto placement = std::make_shared<std::uint64_t>(0);
  command
      ->add_option("--placement", *placement,
                   "instead of a request: why central sent a device to its node; the number is in a request's answer")
      ->type_name("NUMBER")
      ->excludes(by_id);
  command->callback([&context, request, placement] {
    if (*placement != 0) return run_explain_placement(context, *placement);
    if (request->empty()) throw CLI::RequiredError("request");
    run_explain(context, *request);
  });
}

}  // namespace gearbox::cli
