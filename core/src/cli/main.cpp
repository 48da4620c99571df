// main.cpp: `broker`: every role of the broker and every command for people, as subcommands of one program.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/drain_command.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"

namespace {

/// CLI11 calls an unknown command a missing one.
bool knows_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return true;
  const std::string_view near = gearbox::nearest(word, names);
  std::fprintf(stderr, "broker: there is no command '%s'%s%s%s (`broker --help` lists all)\n",
               gearbox::escaped(word, 64).c_str(), near.empty() ? "" : ", did you mean '", std::string(near).c_str(),
               near.empty() ? "" : "'");
  return false;
}

}  // namespace

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
  add_drain_command(app, context);
  add_status_commands(app, context);
  add_metrics_command(app, context);
  add_submit_command(app, context);
  add_results_commands(app, context);
  add_explain_command(app, context);
  add_quarantine_commands(app, context);
  add_gear_commands(app, context);
  add_replay_commands(app, context);
  add_accounts_commands(app, context);
  add_plugin_commands(app, context);
  add_config_commands(app, context);
  add_doctor_command(app, context);

  if (argc > 1 && argv[1][0] != '-' && !knows_command(app, argv[1])) return kUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kDone : kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "broker: %s\n", error.what());
    return kFailed;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "broker: standard output: %s: not all was written\n", std::strerror(errno));
    if (context.exit_code == kDone) return kFailed;
  }
  return context.exit_code;
}
