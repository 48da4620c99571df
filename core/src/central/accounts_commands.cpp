// Commands for devices: kept until the device's next contact, sent until it has answered.
#include <algorithm>
#include <string>

#include "central/accounts.hpp"
#include "central/accounts_state.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::central {

namespace {

constexpr char kBetween = '\n';  // of a command's words, which have no control characters

std::int64_t ms_of(std::chrono::hours time) {
  return milliseconds(time).count();
}

Outcome<std::string> join(const std::vector<std::string>& words) {
  std::string text;
  std::size_t bytes = 0;
  if (words.empty() || words.size() > wire::kMaxCommandWords) {
    return Error{Errc::bad_input, "a command has 1 to " + std::to_string(wire::kMaxCommandWords) + " words"};
  }
  BOOST_OUTCOME_TRY(check_name("command", words.front()));
  for (const std::string& word : words) {
    const bool plain = is_utf8(word) && std::none_of(word.begin(), word.end(), [](char letter) {
                         return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F;
                       });
    if (!plain) return Error{Errc::bad_input, "a command's words have no control characters"};
    bytes += word.size();
    text += (&word == &words.front() ? "" : std::string(1, kBetween)) + word;
  }
  if (bytes <= wire::kMaxCommandBytes) return text;
  return Error{Errc::bad_input, "a command has " + std::to_string(wire::kMaxCommandBytes) + " bytes at most"};
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(kBetween, from), text.size());
    words.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return words;
}

/// In one transaction. Its statements are gone when it returns: the copy that is made next wants none half done.
Outcome<std::int64_t> insert(sql::Connection& database, const PublicKey& device, const std::string& text,
                             std::int64_t now_unix_ms) {
  const std::string hex = to_text(device);
  sql::Transaction transaction(database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto known, database.prepare("SELECT 1 FROM devices WHERE key = ?1 AND revoked = 0"));
  BOOST_OUTCOME_TRY(const bool found, known.first(hex));
  if (!found) return Error{Errc::not_found, "there is no enrolled device with the key " + hex};
  BOOST_OUTCOME_TRY(auto old, database.prepare("DELETE FROM commands WHERE created < ?1"));
  BOOST_OUTCOME_TRY(old.first(now_unix_ms - ms_of(DeviceCommand::kKeptFor)));
  BOOST_OUTCOME_TRY(
      auto waiting,
      database.prepare("SELECT count(*) FROM commands WHERE device = ?1 AND answered = 0 AND created > ?2"));
  BOOST_OUTCOME_TRY(waiting.first(hex, now_unix_ms - ms_of(DeviceCommand::kWaitsFor)));
  if (waiting.integer(0) >= static_cast<std::int64_t>(DeviceCommand::kMostWaiting)) {
    return Error{Errc::overloaded, std::to_string(DeviceCommand::kMostWaiting) +
                                       " commands wait for this device already: it has to come by first"};
  }
  BOOST_OUTCOME_TRY(auto ended, database.prepare("DELETE FROM commands WHERE device = ?1 AND (answered <> 0 OR created "
                                                 "<= ?2) AND number NOT IN (SELECT number FROM commands WHERE device = "
                                                 "?1 ORDER BY number DESC LIMIT ?3)"));
  BOOST_OUTCOME_TRY(ended.first(hex, now_unix_ms - ms_of(DeviceCommand::kWaitsFor),
                                static_cast<std::int64_t>(DeviceCommand::kMostKept) - 1));
  // Of the time: should an older copy of the database come back, no number is given twice.
  BOOST_OUTCOME_TRY(auto highest, database.prepare("SELECT coalesce(max(number), 0) FROM commands WHERE device = ?1"));
  BOOST_OUTCOME_TRY(highest.first(hex));
  const std::int64_t number = std::max(highest.integer(0) + 1, now_unix_ms);
  BOOST_OUTCOME_TRY(auto add, database.prepare("INSERT INTO commands VALUES(?1,?2,?3,?4,0,0,0,'')"));
  BOOST_OUTCOME_TRY(add.first(hex, number, text, now_unix_ms));
  BOOST_OUTCOME_TRY(transaction.commit());
  return number;
}

}  // namespace

const char* DeviceCommand::state(std::int64_t now_unix_ms) const {
  if (answered_unix_ms != 0) return ok ? "done" : "failed";
  if (now_unix_ms - created_unix_ms >= ms_of(kWaitsFor)) return "expired";
  return sent_unix_ms != 0 ? "sent" : "waiting";
}

Outcome<std::uint64_t> Accounts::add_command(const PublicKey& device, const std::vector<std::string>& words,
                                             std::int64_t now_unix_ms) {
  BOOST_OUTCOME_TRY(const std::string text, join(words));
  BOOST_OUTCOME_TRY(const std::int64_t number, insert(*state_->database, device, text, now_unix_ms));
  BOOST_OUTCOME_TRY(keep_copy());
  return static_cast<std::uint64_t>(number);
}

Outcome<std::optional<wire::Command>> Accounts::next_command(const PublicKey& device, std::int64_t now_unix_ms) {
  BOOST_OUTCOME_TRY(const bool found,
                    state_->next_command.first(to_text(device), now_unix_ms - ms_of(DeviceCommand::kWaitsFor)));
  std::optional<wire::Command> command;
  if (found) {
    command.emplace();
    command->number = static_cast<std::uint64_t>(state_->next_command.integer(0));
    command->words = split(state_->next_command.text(1));
  }
  state_->next_command.rewind();
  return command;
}

Outcome<void> Accounts::command_sent(const PublicKey& device, std::uint64_t number, std::int64_t now_unix_ms) {
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto update,
                    state_->database->prepare("UPDATE commands SET sent = ?3 WHERE device = ?1 AND number = "
                                              "?2"));
  BOOST_OUTCOME_TRY(update.first(to_text(device), static_cast<std::int64_t>(number), now_unix_ms));
  return transaction.commit();
}

Outcome<bool> Accounts::command_answered(const PublicKey& device, const wire::CommandAnswer& answer,
                                         std::int64_t now_unix_ms) {
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto update, state_->database->prepare("UPDATE commands SET answered = ?3, ok = ?4, answer = ?5 "
                                                           "WHERE device = ?1 AND number = ?2 AND answered = 0"));
  BOOST_OUTCOME_TRY(update.first(to_text(device), static_cast<std::int64_t>(answer.number), now_unix_ms,
                                 std::int64_t{answer.ok ? 1 : 0}, answer.text));
  const bool first = state_->database->changed_rows() != 0;
  BOOST_OUTCOME_TRY(transaction.commit());
  return first;
}

Outcome<std::vector<DeviceCommand>> Accounts::commands(const PublicKey& device) {
  BOOST_OUTCOME_TRY(auto rows,
                    state_->database->prepare("SELECT number, words, created, sent, answered, ok, answer FROM "
                                              "commands WHERE device = ?1 ORDER BY number"));
  std::vector<DeviceCommand> commands;
  BOOST_OUTCOME_TRY(bool more, rows.first(to_text(device)));
  while (more) {
    DeviceCommand command;
    command.number = static_cast<std::uint64_t>(rows.integer(0));
    command.words = split(rows.text(1));
    command.created_unix_ms = rows.integer(2);
    command.sent_unix_ms = rows.integer(3);
    command.answered_unix_ms = rows.integer(4);
    command.ok = rows.integer(5) != 0;
    command.answer = rows.text(6);
    commands.push_back(std::move(command));
    BOOST_OUTCOME_TRY(more, rows.next());
  }
  return commands;
}

}  // namespace gearbox::central
