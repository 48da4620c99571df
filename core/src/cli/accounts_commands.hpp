// accounts_commands.hpp: the parts of add_accounts_commands, one file each, and what they share.
#pragma once

#include <boost/json/array.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "central/accounts.hpp"
#include "cli/context.hpp"
#include "cli/table.hpp"

namespace gearbox::cli {

void add_user_commands(CLI::App& app, CliContext& context);
void add_node_commands(CLI::App& app, CliContext& context);
void add_key_commands(CLI::App& app, CliContext& context);
void add_device_commands(CLI::App& app, CliContext& context);

/// Opens central's accounts in the state folder and runs `work`; whatever fails is printed and becomes the exit code.
void with_accounts(CliContext& context,
                   const std::function<Outcome<void>(central::Accounts&, const config::StateDir&)>& work);

/// What was done, for people; with --json {"ok": true}.
void say_done(const CliContext& context, const std::string& what);
/// `facts` with --json, else the table, else `nothing` when that is empty.
void show(const CliContext& context, const boost::json::array& facts, const Table& table, const std::string& nothing);

/// "2026-11-29 22:26 UTC"; "never" for 0.
std::string time_text(std::int64_t unix_ms);

/// A password: from `file` ("-": standard input; one line end at its end is dropped), else asked for on the terminal
/// without echo, twice when `confirm`. Errors: io_error; bad_input (the two differ, or no terminal).
Outcome<std::string> read_password(const std::string& file, bool confirm);

}  // namespace gearbox::cli
