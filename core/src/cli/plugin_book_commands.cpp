// plugins rollback and plugins release: both write the book of builds; the running roles watch it and follow.
#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <thread>

#include "cli/plugin_commands.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/build_book.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::cli {

using plugin_host::Bar;
using plugin_host::BuildBook;

namespace {

constexpr milliseconds kStatusWait{3000};
constexpr milliseconds kFollowWait{5000};  // a check of the build that comes back is part of it
constexpr milliseconds kPollPause{50};

struct Asked {
  std::string name;
  std::string kind;  // empty: any
};

Outcome<void> check_names(const Asked& asked) {
  BOOST_OUTCOME_TRY(check_name("plugin", asked.name));
  if (!asked.kind.empty()) {
    BOOST_OUTCOME_TRY(check_name("plugin kind", asked.kind));
  }
  return done();
}

/// The rows of that name which are in force, one for each build; the one that is so since the shortest time first.
Outcome<PluginRow> in_force(const std::vector<RolePlugins>& roles, const Asked& asked) {
  const PluginRow* newest = nullptr;
  std::set<std::string> kinds;
  std::vector<std::string> names;
  for (const RolePlugins& role : roles) {
    for (const PluginRow& row : role.rows) {
      if (row.state != "loaded") continue;
      names.push_back(row.name);
      if (row.name != asked.name || (!asked.kind.empty() && row.kind != asked.kind)) continue;
      kinds.insert(row.kind);
      if (newest == nullptr || row.since_unix_ms > newest->since_unix_ms) newest = &row;
    }
  }
  if (kinds.size() > 1) {
    return Error{Errc::bad_name, "there is a " + *kinds.begin() + " and a " + *kinds.rbegin() + " called '" +
                                     asked.name + "': say which with --kind"};
  }
  if (newest != nullptr) return *newest;
  const std::string_view near = nearest(asked.name, names);
  return Error{
      Errc::not_found,
      "no " + (asked.kind.empty() ? "plugin" : asked.kind) + " called '" + asked.name + "' is in force" +
          (near.empty() || near == asked.name ? std::string() : "; did you mean '" + std::string(near) + "'?")};
}

/// Is there a shipped plugin of that kind and name, other than `row`?
bool is_shipped(const config::StateDir& state, const PluginRow& row) {
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.copies = state.plugin_copies();
  paths.checker = plugin_host::own_executable();
  const auto host = plugin_host::PluginHost::open(paths, {});
  if (!host) return false;
  for (const plugin_host::PluginInfo& info : host.value()->list()) {
    if (info.state == "loaded" && info.kind == row.kind && info.name == row.name && info.checksum != row.checksum)
      return true;
  }
  return false;
}

/// Whether roles that lose `row` have something to go back to. Errors: not_found.
Outcome<void> check_way_back(const config::StateDir& state, const BuildBook& book, const PluginRow& row) {
  const plugin_host::Build* earlier = book.last_good(row.kind, row.name, row.checksum);
  std::error_code error;
  if (earlier != nullptr &&
      std::filesystem::is_regular_file(state.plugin_copies() / (earlier->checksum + ".so"), error)) {
    return done();
  }
  if (is_shipped(state, row)) return done();
  return Error{Errc::not_found, row.name + " " + build_text(row) +
                                    " stays: there is no earlier good build of it and no shipped " + row.kind +
                                    " of that name to go back to"};
}

/// Asks the roles until `followed` holds for each, or the time is over; the last answers.
template <class Followed>
Outcome<std::vector<RolePlugins>> await_roles(const config::StateDir& state, const Followed& followed) {
  const Instant deadline = after(Clock::now(), kFollowWait);
  for (;;) {
    BOOST_OUTCOME_TRY(auto roles, ask_roles(state, kStatusWait));
    std::string late;
    for (const RolePlugins& role : roles) {
      if (!followed(role)) late += (late.empty() ? "" : " and ") + role.role;
    }
    if (late.empty()) return roles;
    if (Clock::now() >= deadline) {
      return Error{Errc::timeout, "written, but " + late + " has not followed within " +
                                      std::to_string(kFollowWait.count() / 1000) +
                                      " s; `broker plugins list` and its " + "log say why"};
    }
    std::this_thread::sleep_for(kPollPause);
  }
}

/// "least_loaded 2.0 (3f9a…) → 1.0 (77b1…) in node, central": a line for each change, with the roles that made it.
void print_changes(const std::vector<RolePlugins>& before, const std::vector<RolePlugins>& after) {
  std::vector<std::pair<std::string, std::string>> lines;  // change, roles
  for (const RolePlugins& role : after) {
    for (const RolePlugins& same_role : before) {
      if (same_role.role != role.role) continue;
      for (const PluginRow& row : same_role.rows) {
        if (row.state != "loaded") continue;
        const PluginRow* now = loaded_in(role, row.kind, row.name);
        if (now == nullptr || now->checksum == row.checksum) continue;
        const std::string change = row.name + " " + build_text(row) + " → " + build_text(*now);
        if (lines.empty() || lines.back().first != change) lines.emplace_back(change, "");
        lines.back().second += (lines.back().second.empty() ? "" : ", ") + role.role;
      }
    }
  }
  for (const auto& [change, roles] : lines) std::printf("%s in %s\n", change.c_str(), roles.c_str());
}

/// `roles`, left with what is called so: other plugins may change at the same time, for reasons of their own.
std::vector<RolePlugins> only(std::vector<RolePlugins> roles, std::string_view kind, std::string_view name) {
  for (RolePlugins& role : roles) {
    std::erase_if(role.rows,
                  [&](const PluginRow& row) { return row.name != name || (!kind.empty() && row.kind != kind); });
  }
  return roles;
}

std::int64_t unix_ms_now() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What would be in force if a role started now.
Outcome<PluginRow> in_force_at_next_start(const CliContext& context, const config::StateDir& state,
                                          const Asked& asked) {
  BOOST_OUTCOME_TRY(const config::Snapshot config, load_config(context));
  BOOST_OUTCOME_TRY(RolePlugins next, at_next_start(*config, state));
  std::vector<RolePlugins> alone;
  alone.push_back(std::move(next));
  return in_force(alone, asked);
}

Outcome<void> roll_back(const CliContext& context, const Asked& asked) {
  BOOST_OUTCOME_TRY(check_names(asked));
  BOOST_OUTCOME_TRY(const config::StateDir state, open_state(context));
  BOOST_OUTCOME_TRY(const std::vector<RolePlugins> before, ask_roles(state, kStatusWait));
  const bool running = !before.empty();
  BOOST_OUTCOME_TRY(const PluginRow row,
                    running ? in_force(before, asked) : in_force_at_next_start(context, state, asked));
  BOOST_OUTCOME_TRY(const BuildBook book, plugin_host::read_book(state.plugin_copies()));
  BOOST_OUTCOME_TRY(check_way_back(state, book, row));
  const Bar bar{row.kind, row.name, row.version, row.checksum, "rolled back by hand", unix_ms_now()};
  BOOST_OUTCOME_TRY(plugin_host::bar(state.plugin_copies(), bar));
  if (!running) {
    std::printf("%s %s is barred; no role is running: it holds at the next start\n", row.name.c_str(),
                build_text(row).c_str());
    return done();
  }
  const auto followed = [&](const RolePlugins& role) {
    const PluginRow* now = loaded_in(role, row.kind, row.name);
    for (const RolePlugins& earlier : before) {
      if (earlier.role == role.role && loaded_in(earlier, row.kind, row.name) == nullptr) return true;
    }
    return now != nullptr && now->checksum != row.checksum;
  };
  BOOST_OUTCOME_TRY(const std::vector<RolePlugins> after, await_roles(state, followed));
  print_changes(only(before, row.kind, row.name), after);
  return done();
}

Outcome<void> release_bars(const CliContext& context, const Asked& asked) {
  BOOST_OUTCOME_TRY(check_names(asked));
  BOOST_OUTCOME_TRY(const config::StateDir state, open_state(context));
  BOOST_OUTCOME_TRY(const std::vector<RolePlugins> before, ask_roles(state, kStatusWait));
  BOOST_OUTCOME_TRY(const BuildBook book, plugin_host::read_book(state.plugin_copies()));
  std::size_t released = 0;
  BOOST_OUTCOME_TRY(plugin_host::release(state.plugin_copies(), asked.kind, asked.name, released));
  if (released == 0) {
    std::vector<std::string> names;
    for (const Bar& bar : book.bars) names.push_back(bar.name);
    const std::string_view near = nearest(asked.name, names);
    return Error{
        Errc::not_found,
        "no build of '" + asked.name + "' is barred, or refused by the gate" +
            (near.empty() || near == asked.name ? std::string() : "; did you mean '" + std::string(near) + "'?")};
  }
  std::printf("%zu build%s of %s released\n", released, released == 1 ? "" : "s", asked.name.c_str());
  for (const Bar& bar : book.bars) {
    if (bar.name != asked.name || (!asked.kind.empty() && bar.kind != asked.kind)) continue;
    std::printf("  %s (%s), was barred because: %s\n", bar.version.c_str(), short_checksum(bar.checksum).c_str(),
                bar.reason.c_str());
  }
  for (const plugin_host::Ruling& ruling : book.rulings) {
    if (ruling.passes || ruling.name != asked.name || (!asked.kind.empty() && ruling.kind != asked.kind)) continue;
    std::printf("  %s (%s), was refused by the gate because: %s; it is judged anew\n", ruling.version.c_str(),
                short_checksum(ruling.checksum).c_str(), ruling.reason.c_str());
  }
  if (before.empty()) {
    std::printf("no role is running: it holds at the next start\n");
    return done();
  }
  const auto followed = [&](const RolePlugins& role) { return !barred_in(role, asked.kind, asked.name); };
  BOOST_OUTCOME_TRY(const std::vector<RolePlugins> after, await_roles(state, followed));
  print_changes(only(before, asked.kind, asked.name), after);
  return done();
}

using Command = Outcome<void> (*)(const CliContext&, const Asked&);

void add(CLI::App& group, CliContext& context, const char* name, const char* summary, const char* example,
         Command command) {
  CLI::App* added = add_command(group, context, name, summary, example, false);
  const auto asked = std::make_shared<Asked>();
  added->add_option("name", asked->name, "the plugin's name")->required()->type_name("NAME");
  added->add_option("--kind", asked->kind, "balancer, codec or transport: when several kinds have that name")
      ->type_name("KIND");
  added->callback([&context, asked, command] {
    if (const Outcome<void> all_right = command(context, *asked); !all_right) fail(context, all_right.error());
  });
}

}  // namespace

void add_plugin_book_commands(CLI::App& group, CliContext& context) {
  add(group, context, "rollback", "bar the build of a plugin that is in force: the last good one serves again",
      "broker plugins rollback least_loaded", roll_back);
  add(group, context, "release",
      "take the bars off all builds of a plugin: its file in the drop folder serves again, or is judged anew by the "
      "gate",
      "broker plugins release least_loaded --kind balancer", release_bars);
}

}  // namespace gearbox::cli
