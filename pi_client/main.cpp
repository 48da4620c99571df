// pi_client: sends pictures from a small device to a Gearbox broker. docs/pi_client.md is its guide.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "enrol_command.hpp"
#include "gearbox/link/keys.hpp"
#include "options.hpp"
#include "run_command.hpp"
#include "send_command.hpp"
#include "spool_command.hpp"
#include "transport_tcp/tcp_transport.hpp"

namespace {

class StandardStreams final : public gearbox::client::Console {
 public:
  void results(const std::string& text) override {
    if (failed_ || (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0))
      return;
    failed_ = true;
    remarks("pi_client: standard output: " + std::string(std::strerror(errno)) + ": not all was written\n");
    // Nobody takes what comes: what is under way is called off in order, as when somebody interrupts.
    struct sigaction present {};
    if (::sigaction(SIGINT, nullptr, &present) == 0 && present.sa_handler != SIG_DFL) ::raise(SIGINT);
  }
  void remarks(const std::string& text) override { std::fwrite(text.data(), 1, text.size(), stderr); }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

int send(const gearbox::client::Options& options) {
  gearbox::client::LinkSettings settings;
  settings.first_contact = options.send.first_contact;
  settings.move_after = options.send.move_after;
  // One try must not outlast the whole: a short --timeout-ms is kept also towards an address that swallows everything.
  settings.connect_within = std::min(settings.connect_within, options.send.timeout);
  gearbox::transport_tcp::TcpTransport transport;
  StandardStreams console;
  const int code = run_send(options, settings, transport, console);
  // A result that was not written down (disk full, pipe closed) was not delivered.
  if (console.failed() && code == 0) return 1;
  return code;
}

int look_after_spool(const gearbox::client::Options& options) {
  StandardStreams console;
  const int code = options.command == gearbox::client::Command::spool_add    ? run_spool_add(options.spool, console)
                   : options.command == gearbox::client::Command::spool_list ? run_spool_list(options.spool, console)
                                                                             : run_spool_drop(options.spool, console);
  return console.failed() && code == 0 ? 1 : code;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a closed pipe or socket is an error code where it was written to
  gearbox::link::crypto_ready();
  const char* home = std::getenv("HOME");
  const gearbox::client::Parsed parsed = gearbox::client::parse(argc, argv, home == nullptr ? "" : home);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  switch (parsed.options->command) {
    case gearbox::client::Command::enrol:
      return run_enrol(*parsed.options);
    case gearbox::client::Command::show_key:
      return run_show_key(*parsed.options);
    case gearbox::client::Command::send:
      return send(*parsed.options);
    case gearbox::client::Command::run: {
      gearbox::transport_tcp::TcpTransport transport;
      StandardStreams console;
      const int code = run_spooled(*parsed.options, {}, transport, console);
      if (code != gearbox::client::kRunAgain) return code;
      // By its name: a newer program that lies there by now is the one that starts.
      ::execvp(argv[0], argv);
      std::fprintf(stderr, "pi_client: cannot start again: %s\n", std::strerror(errno));
      return 1;
    }
    case gearbox::client::Command::spool_add:
    case gearbox::client::Command::spool_list:
    case gearbox::client::Command::spool_drop:
      return look_after_spool(*parsed.options);
  }
  return 2;
}
