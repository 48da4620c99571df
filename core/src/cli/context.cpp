#include "cli/context.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace gearbox::cli {

std::filesystem::path default_config_dir() {
  std::error_code error;
  if (std::filesystem::is_regular_file("configs/gearbox.toml", error)) return "configs";
  return "/etc/gearbox";
}

CLI::App* add_command(CLI::App& parent, CliContext& context, const std::string& name, const std::string& summary,
                      const std::string& example, bool prints_facts) {
  CLI::App* command = parent.add_subcommand(name, summary);
  command
      ->add_option("--config", context.config_dir,
                   "folder of the configuration (default: configs/ here, else /etc/gearbox)")
      ->type_name("DIR");
  command
      ->add_option(
          "--state", context.state_dir,
          "folder of keys, sockets, logs and results (default: $GEARBOX_STATE, else /var/lib/gearbox for root and "
          "~/.local/state/gearbox for others)")
      ->type_name("DIR");
  if (prints_facts) command->add_flag("--json", context.json, "print JSON");
  command->footer("Example:\n  " + example +
                  "\nExit codes: 0 done, 1 the work failed, 2 wrong usage or configuration.");
  return command;
}

void fail(CliContext& context, const Error& error) {
  std::fprintf(stderr, "broker: %s\n",
               error.detail.empty() ? std::string(name_of(error.code)).c_str() : error.detail.c_str());
  context.exit_code = error.code == Errc::bad_config || error.code == Errc::bad_name ? kUsage : kFailed;
}

Outcome<config::Snapshot> load_config(const CliContext& context) {
  return config::load(context.config_dir.empty() ? default_config_dir() : context.config_dir);
}

Outcome<config::StateDir> open_state(const CliContext& context) {
  return config::open_state_dir(context.state_dir);
}

bool colour_wanted() {
  return ::isatty(1) == 1 && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace gearbox::cli
