// device list | send | answer: devices as central knows them, and what people ask them to do
#include <boost/json/object.hpp>

#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "cli/accounts_commands.hpp"
#include "cli/json_facts.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;
using central::Accounts;
using central::Device;
using central::DeviceCommand;

namespace {

constexpr std::size_t kShortestKey = 8;  // hexadecimal digits of a key that may stand for it
constexpr std::size_t kShown = 60;       // bytes of an answer in a table

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// USER/DEVICE, a device's name that only one has, a key, or the first digits of one.
Outcome<Device> find_device(Accounts& accounts, const std::string& text) {
  BOOST_OUTCOME_TRY(const auto devices, accounts.devices());
  std::vector<Device> found;
  for (const Device& device : devices) {
    if (device.revoked) continue;
    const bool by_key = text.size() >= kShortestKey && to_text(device.key).starts_with(text);
    if (device.user + "/" + device.name == text || device.name == text || by_key) found.push_back(device);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return Error{Errc::not_found, "there is no enrolled device '" + escaped(text) +
                                      "': give its name, USER/DEVICE or its key, as `broker device list` shows them"};
  }
  return Error{Errc::bad_input, "'" + escaped(text) + "' could be " + found[0].user + "/" + found[0].name + " or " +
                                    found[1].user + "/" + found[1].name + ": say which"};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

json::object facts_of(const DeviceCommand& command, std::int64_t now) {
  return json::object{{"number", command.number},
                      {"words", json::array(command.words.begin(), command.words.end())},
                      {"state", command.state(now)},
                      {"created_unix_ms", command.created_unix_ms},
                      {"sent_unix_ms", command.sent_unix_ms},
                      {"answered_unix_ms", command.answered_unix_ms},
                      {"ok", command.ok},
                      {"answer", command.answer}};
}

void run_list(CliContext& context) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const auto devices, accounts.devices());
    const std::int64_t now = wall_clock_ms();
    json::array facts;
    Table table({"device", "user", "state", "key", "last contact", "from", "program", ">waiting", "last command"});
    for (const Device& device : devices) {
      BOOST_OUTCOME_TRY(const auto commands, accounts.commands(device.key));
      std::size_t waiting = 0;
      json::array told;
      for (const DeviceCommand& command : commands) {
        const std::string_view state = command.state(now);
        waiting += state == "waiting" || state == "sent" ? 1U : 0U;
        told.push_back(facts_of(command, now));
      }
      std::string last;
      if (!commands.empty()) {
        const DeviceCommand& command = commands.back();
        last = joined(command.words) + ": " + command.state(now);
        if (command.answered_unix_ms != 0) last += ": " + command.answer;
      }
      facts.push_back(json::object{{"name", device.name},
                                   {"user", device.user},
                                   {"key", to_text(device.key)},
                                   {"revoked", device.revoked},
                                   {"last_contact_unix_ms", device.last_seen_unix_ms},
                                   {"address", device.address},
                                   {"agent", device.agent},
                                   {"waiting", waiting},
                                   {"commands", std::move(told)}});
      table.add({device.name, device.user, device.revoked ? "revoked" : "enrolled", to_text(device.key).substr(0, 16),
                 time_text(device.last_seen_unix_ms), escaped(device.address), escaped(device.agent),
                 std::to_string(waiting), escaped(last, kShown)});
    }
    show(context, facts, table, "no devices yet; one joins with: pi_client enrol");
    return done();
  });
}

void run_send(CliContext& context, const std::string& device, const std::vector<std::string>& words) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const Device found, find_device(accounts, device));
    BOOST_OUTCOME_TRY(const std::uint64_t number, accounts.add_command(found.key, words, wall_clock_ms()));
    if (context.json) {
      print_json(json::object{{"ok", true}, {"number", number}, {"key", to_text(found.key)}});
      return done();
    }
    std::printf("command %llu for %s/%s is sent at its next contact; its answer: broker device answer %s/%s\n",
                static_cast<unsigned long long>(number), found.user.c_str(), found.name.c_str(), found.user.c_str(),
                found.name.c_str());
    return done();
  });
}

void run_answer(CliContext& context, const std::string& device, std::uint64_t number) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const Device found, find_device(accounts, device));
    BOOST_OUTCOME_TRY(const auto commands, accounts.commands(found.key));
    const std::int64_t now = wall_clock_ms();
    json::array facts;
    Table table({">number", "command", "given", "state", "answered", "answer"});
    for (const DeviceCommand& command : commands) {
      if (number != 0 && command.number != number) continue;
      facts.push_back(facts_of(command, now));
      table.add({std::to_string(command.number), escaped(joined(command.words)), time_text(command.created_unix_ms),
                 command.state(now), command.answered_unix_ms == 0 ? "" : time_text(command.answered_unix_ms),
                 escaped(command.answer, wire::kMaxCommandAnswerBytes)});
    }
    if (number != 0 && facts.empty()) {
      return Error{Errc::not_found, "no command " + std::to_string(number) + " of this device is known"};
    }
    show(context, facts, table, "no command was given to this device");
    return done();
  });
}

}  // namespace

void add_device_commands(CLI::App& app, CliContext& context) {
  CLI::App* devices = app.add_subcommand("device", "devices that central knows, and commands for them");
  devices->require_subcommand(1);
  devices->footer(
      "Example:\n  broker device list\n  broker device send barn-cam status\n  broker device answer barn-cam\n"
      "A command waits at central until the device's next contact; the device carries it out once. What pi_client "
      "knows: status, set-rate BYTES_PER_S|off|default, restart (docs/pi_client.md).");
  add_command(*devices, context, "list", "all devices: key, user, last contact, address, program, commands",
              "broker device list --json", true)
      ->callback([&context] { run_list(context); });

  struct Given {
    std::string device;
    std::vector<std::string> words;
    std::uint64_t number = 0;
  };
  const auto given = std::make_shared<Given>();
  CLI::App* send = add_command(*devices, context, "send", "have a device do something at its next contact, once",
                               "broker device send barn-cam set-rate 20000", true);
  send->add_option("DEVICE", given->device, "its name, USER/DEVICE, or its key")->required();
  send->add_option("COMMAND", given->words, "the command and what comes with it")->required();
  send->callback([&context, given] { run_send(context, given->device, given->words); });

  CLI::App* answer = add_command(*devices, context, "answer", "a device's commands, and what it answered",
                                 "broker device answer barn-cam", true);
  answer->add_option("DEVICE", given->device, "its name, USER/DEVICE, or its key")->required();
  answer->add_option("NUMBER", given->number, "this command only");
  answer->callback([&context, given] { run_answer(context, given->device, given->number); });
}

}  // namespace gearbox::cli
