// drain: ends everything on this host in order, and shows how far that is.
#include "cli/drain_command.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>

#include <cstdio>
#include <memory>

#include "cli/json_facts.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control_client.hpp"
#include "supervisor/stopping.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

constexpr milliseconds kWait{3000};
constexpr milliseconds kLook{250};
constexpr milliseconds kBeyond{60'000};  // for workers, node and central to end, when nothing runs any more

/// Is told when a process has ended, of which we are not the parent.
class EndOf {
 public:
  explicit EndOf(int pid) : descriptor_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  ~EndOf() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  EndOf(const EndOf&) = delete;
  EndOf& operator=(const EndOf&) = delete;
  /// True as soon as it has ended; false after `within`.
  bool wait(milliseconds within) const {
    if (descriptor_ < 0) return true;  // gone already
    pollfd waited{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return ::poll(&waited, 1, static_cast<int>(within.count())) > 0;
  }

 private:
  int descriptor_;
};

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "3 requests open, 57 s left for them"; empty when there is nothing to say.
std::string progress_of(const json::object& supervisor) {
  const json::object& stop = object_in(supervisor, "stop");
  if (!stop.contains("open")) return {};
  const std::uint64_t open = number_in(stop, "open");
  if (open == 0) return "no request is open; workers, node and central end";
  return counted(open, "request") + " open";
}

void show(CliContext& context, const supervisor::WrittenStop& stop) {
  const supervisor::StopReport& report = stop.report;
  if (!report.in_order()) context.exit_code = kFailed;
  if (context.json) {
    const json::array killed(report.killed.begin(), report.killed.end());
    return print_json(json::object{{"in_order", report.in_order()},
                                   {"failed", report.failed},
                                   {"kept", report.kept},
                                   {"killed", killed},
                                   {"hurried", report.hurried}});
  }
  if (report.in_order()) {
    std::printf("drained: every request has its answer, nothing is left running\n");
    return;
  }
  std::printf("stopped, but not in order:\n");
  if (report.failed > 0) std::printf("  %s failed at the end of the time\n", counted(report.failed, "request").c_str());
  if (report.kept > 0) {
    std::printf("  %s not finished: kept in the node's journal, the next `broker up` goes on with %s\n",
                counted(report.kept, "request").c_str(), report.kept == 1 ? "it" : "them");
  }
  for (const std::string& role : report.killed) std::printf("  %s was killed\n", escaped(role).c_str());
  if (report.hurried) std::printf("  a signal hurried it\n");
}

void run_drain(CliContext& context, std::uint32_t within_s) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const milliseconds within = seconds(within_s);
  const json::object request{{"command", "drain"}, {"within_ms", within.count()}};
  const auto ask = [&](const json::object& question) -> Outcome<json::object> {
    BOOST_OUTCOME_TRY(const std::string answer,
                      serving::ask_control_now(state.value().supervisor_socket(), json::serialize(question), kWait));
    return parse_object(answer);
  };
  const Outcome<json::object> asked = ask(request);
  if (!asked && asked.error().code == Errc::unreachable) {
    return fail(context, Error{Errc::unreachable, "nothing runs on the state folder " + state.value().root.string() +
                                                      ": nothing to drain"});
  }
  if (!asked) return fail(context, asked.error());
  const int pid = static_cast<int>(number_in(asked.value(), "pid"));
  const EndOf end(pid);
  const Instant limit = after(Clock::now(), within + kBeyond);
  std::string shown;
  while (!end.wait(kLook)) {
    if (Clock::now() >= limit) {
      return fail(context, Error{Errc::timeout, "the supervisor (pid " + std::to_string(pid) + ") does not end"});
    }
    const Outcome<json::object> status = ask(json::object{{"command", "status"}});
    if (!status || context.json) continue;  // about to end
    const std::string line = progress_of(status.value());
    if (line.empty() || line == shown) continue;
    shown = line;
    std::printf("draining: %s\n", line.c_str());
    std::fflush(stdout);
  }
  const Outcome<supervisor::WrittenStop> stop =
      supervisor::read_stop_report(supervisor::stop_report_file(state.value()));
  if (!stop || stop.value().pid != pid) {
    return fail(context, Error{Errc::io_error, "everything has ended, but the supervisor (pid " + std::to_string(pid) +
                                                   ") did not say how: it was killed, or its disk is full"});
  }
  show(context, stop.value());
}

}  // namespace

void add_drain_command(CLI::App& app, CliContext& context) {
  CLI::App* command = add_command(app, context, "drain",
                                  "stop everything here in order: nothing new is taken, what is open gets its answer",
                                  "broker drain --within 300", true);
  const auto within = std::make_shared<std::uint32_t>(60);
  command
      ->add_option(
          "--within", *within,
          "how long open requests have to end; then those that were acknowledged stay in the node's journal for "
          "the next `broker up`, and others fail (default: 60)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0U, 86'400U));
  command->callback([&context, within] { run_drain(context, *within); });
  command->footer(
      "Example:\n  broker drain --within 300\nExit codes: 0 every request was answered and all ended by itself, 1 "
      "something had to be hurried, or nothing runs here, 2 wrong usage.");
}

}  // namespace gearbox::cli
