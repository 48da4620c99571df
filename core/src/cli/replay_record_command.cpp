// replay record: what a running node kept of its last requests, as a recording.
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/json_facts.hpp"
#include "cli/no_node.hpp"
#include "cli/recorded_payloads.hpp"
#include "cli/replay_commands.hpp"
#include "gearbox/base/text.hpp"
#include "recording/recorder.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};

struct RecordAsked {
  std::string out = "-";
  std::string last;      // a time with its unit; empty: all
  std::string payloads;  // a folder; empty: none
};

struct Recorded {
  std::string node;
  std::uint64_t requests = 0, forgotten = 0, payloads = 0;
};

/// "90s", "15m", "24h", "2d" in microseconds.
Outcome<std::int64_t> time_of(const std::string& text) {
  if (text.empty()) return std::int64_t{0};
  const std::string number = text.substr(0, text.size() - 1);
  const bool digits =
      !number.empty() && number.size() <= 6 && number.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t unit = [&]() -> std::int64_t {
    switch (text.back()) {
      case 's':
        return 1;
      case 'm':
        return 60;
      case 'h':
        return 3600;
      case 'd':
        return 86'400;
      default:
        return 0;
    }
  }();
  if (!digits || unit == 0 || std::stoll(number) == 0)
    return Error{Errc::bad_input, "--last takes a time such as 90s, 15m, 1h or 2d, not '" + escaped(text, 40) + "'"};
  return std::stoll(number) * unit * 1'000'000;
}

/// Asks for piece after piece, and hands the lines on. With `payloads`, which is a folder, what was in them is fetched
/// as soon as their lines are there: the node forgets the oldest.
Outcome<Recorded> write_recording(const std::filesystem::path& socket, std::int64_t last_us,
                                  const std::filesystem::path& payloads, std::ostream& out) {
  Recorded all;
  const bool with_payloads = !payloads.empty();
  json::object command{{"command", "recording"}, {"last_us", last_us}, {"payloads", with_payloads}};
  for (bool first = true;; first = false) {
    auto answer = serving::ask_control_now(socket, json::serialize(command), kWait);
    if (!answer) return from_node(answer.error(), ", and what it kept of requests has gone with it");
    BOOST_OUTCOME_TRY(const json::object piece, parse_object(answer.value()));
    if (first) {
      all.node = text_in(piece, "node");
      all.forgotten = number_in(piece, "forgotten");
      out << recording::kMagic << '\n' << recording::kColumns;
      if (with_payloads) out << recording::kPayloadColumns;
      out << '\n';
      command = {{"command", "recording"},
                 {"zero_us", number_in(piece, "zero_us")},
                 {"since_us", number_in(piece, "since_us")},
                 {"payloads", with_payloads}};
    }
    const json::value* lines = piece.if_contains("lines");
    if (lines == nullptr || !lines->is_string()) return Error{Errc::bad_frame, "the node's answer has no lines"};
    if (with_payloads) {
      BOOST_OUTCOME_TRY(const std::uint64_t fetched,
                        fetch_payloads(socket, payloads, std::string_view(lines->get_string()), out));
      all.payloads += fetched;
    } else {
      out << std::string_view(lines->get_string());
    }
    all.requests += number_in(piece, "requests");
    const std::uint64_t next = number_in(piece, "next");
    if (next == 0) return all;
    command["from"] = next;
  }
}

Outcome<void> run(CliContext& context, const RecordAsked& asked) {
  BOOST_OUTCOME_TRY(const std::int64_t last_us, time_of(asked.last));
  BOOST_OUTCOME_TRY(const config::StateDir state, open_state(context));
  if (!asked.payloads.empty()) {
    BOOST_OUTCOME_TRY(make_payload_folder(asked.payloads));
    ::umask(0077);  // the recording names what lies there
  }
  std::ofstream file;
  // What is there stays when nothing can be asked: the file is made when the first lines are.
  Recorded all;
  if (asked.out == "-") {
    BOOST_OUTCOME_TRY(all, write_recording(state.node_socket(), last_us, asked.payloads, std::cout));
    std::cout.flush();
    if (!std::cout) return Error{Errc::io_error, "the recording could not be written out"};
  } else {
    const std::string beside = asked.out + ".part";
    file.open(beside, std::ios::binary | std::ios::trunc);
    if (!file) return Error{Errc::io_error, escaped(beside, 200) + " cannot be written"};
    auto written = write_recording(state.node_socket(), last_us, asked.payloads, file);
    file.close();
    std::error_code failed;
    if (written && file) std::filesystem::rename(beside, asked.out, failed);
    if (!written || !file || failed) {
      std::error_code gone;
      std::filesystem::remove(beside, gone);
      if (!written) return written.error();
      return Error{Errc::io_error, escaped(asked.out, 200) + " cannot be written"};
    }
    all = std::move(written).value();
  }
  std::fprintf(
      stderr, "broker: %llu requests of node %s%s\n", static_cast<unsigned long long>(all.requests), all.node.c_str(),
      all.forgotten == 0
          ? ""
          : (", " + std::to_string(all.forgotten) + " earlier ones are forgotten (node.recorded_requests)").c_str());
  if (!asked.payloads.empty()) {
    std::fprintf(stderr, "broker: what was in %llu of them is in %s%s\n", static_cast<unsigned long long>(all.payloads),
                 escaped(asked.payloads, 200).c_str(),
                 all.payloads == 0 ? "; a node keeps that only with node.recorded_payload_mb" : "");
  }
  return done();
}

}  // namespace

void add_replay_record_command(CLI::App& replay, CliContext& context) {
  CLI::App* command =
      add_command(replay, context, "record", "write out what the running node kept of its last requests",
                  "broker replay record --last 1h --out last-hour.csv", false);
  const auto asked = std::make_shared<RecordAsked>();
  command->add_option("--out", asked->out, "the file; -: stdout")->type_name("FILE")->capture_default_str();
  command->add_option("--last", asked->last, "only what arrived within this time, such as 90s, 15m, 1h")
      ->type_name("TIME");
  command
      ->add_option("--payloads", asked->payloads,
                   "a folder: what was in the requests goes there, a file for each, as far as the node keeps it "
                   "(node.recorded_payload_mb)")
      ->type_name("DIR");
  command->footer(
      command->get_footer() +
      "\n\nTimes, tasks, users, sizes and step times; nothing of what was in a request without --payloads. What the "
      "columns are:\n"
      "docs/replay.md. How many requests a node keeps: node.recorded_requests.");
  command->callback([&context, asked] {
    if (Outcome<void> outcome = run(context, *asked); !outcome) fail(context, outcome.error());
  });
}

}  // namespace gearbox::cli
