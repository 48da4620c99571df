// main.cpp: `broker`: every role of the broker and every command for people, as subcommands of one program.
#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/commands.hpp"
#include "gearbox/link/keys.hpp"

int main(int argc, char** argv) {
  using namespace gearbox::cli;
  // A reader that goes away (`broker status | head`) is an error of that write, not the end of a role.
  std::signal(SIGPIPE, SIG_IGN);
  gearbox::link::crypto_ready();

  CliContext context;
  CLI::App app("Gearbox, a plugin-based AI inference broker: devices send pictures, models on this host answer.",
               "broker");
  app.set_version_flag("--version", "broker " GEARBOX_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Example:\n  broker up --config configs\n  broker submit --task read-text docs/examples/pictures/ear_tag.jpg\n"
      "`broker COMMAND --help` tells the rest. Exit codes: 0 done, 1 the work failed, 2 wrong usage or configuration.");
  add_role_commands(app, context);
  add_status_commands(app, context);
  add_submit_command(app, context);
  add_results_commands(app, context);
  add_accounts_commands(app, context);
  add_plugin_commands(app, context);
  add_config_commands(app, context);
  add_doctor_command(app, context);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kDone : kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "broker: %s\n", error.what());
    return kFailed;
  }
  if (std::fflush(stdout) != 0 && context.exit_code == kDone) return kFailed;  // the facts did not get out
  return context.exit_code;
}
