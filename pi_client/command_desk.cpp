#include "command_desk.hpp"

#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "durable.hpp"
#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/wire/messages.hpp"
#include "options.hpp"

namespace gearbox::client {

namespace {

constexpr std::string_view kFormat = "gearbox commands 1 ";  // then the rate, then a line with the answer
constexpr std::string_view kDefault = "default";
constexpr std::uint64_t kMostBytes = 16 * 1024;
constexpr std::uint64_t kLowestRate =
    1'000;  // bytes a second: less would be a device that is cut off by a typing error
constexpr std::size_t kShown = 200;

std::int64_t uptime_s() {
  return std::chrono::duration_cast<seconds>(Clock::now().time_since_epoch()).count();
}

std::optional<std::uint64_t> number_from(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string text_of_rate(const SetRate& rate) {
  if (!rate) return std::string(kDefault);
  return *rate == 0 ? "off" : std::to_string(*rate);
}

/// False: it is no rate.
bool read_rate(std::string_view text, SetRate& rate) {
  if (text == kDefault) {
    rate.reset();
  } else if (text == "off") {
    rate = 0;
  } else if (const auto number = number_from(text); number && *number >= kLowestRate) {
    rate = *number;
  } else {
    return false;
  }
  return true;
}

Error damaged(const std::filesystem::path& file) {
  return Error{Errc::corrupt_data, escaped(file.string()) + " is damaged"};
}

}  // namespace

std::filesystem::path CommandRecord::file(const std::string& keys_folder) {
  return std::filesystem::path(keys_folder) / "commands";
}

Outcome<CommandRecord> CommandRecord::load(const std::filesystem::path& file) {
  CommandRecord record;
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return record;
  BOOST_OUTCOME_TRY(const Bytes bytes, read_whole(file, kMostBytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t line = text.find('\n');
  if (!text.starts_with(kFormat) || line == std::string_view::npos) return damaged(file);
  if (!read_rate(text.substr(kFormat.size(), line - kFormat.size()), record.rate)) return damaged(file);
  const auto answer = wire::parse<wire::CommandAnswer>(text.substr(line + 1));
  if (!answer) return damaged(file);
  record.number = answer.value().number;
  record.ok = answer.value().ok;
  record.answer = answer.value().text;
  return record;
}

Outcome<void> CommandRecord::save(const std::filesystem::path& file) const {
  wire::CommandAnswer last;
  last.number = number;
  last.ok = ok;
  last.text = answer;
  const std::string text = std::string(kFormat) + text_of_rate(rate) + "\n" + wire::to_json(last);
  BOOST_OUTCOME_TRY(write_durably(file, std::as_bytes(std::span(text))));
  return sync_folder(file.parent_path());
}

CommandDesk::CommandDesk(const std::string& keys_folder, Ends ends)
    : file_(CommandRecord::file(keys_folder)), ends_(std::move(ends)), begun_s_(uptime_s()) {}

CommandDesk::Carried CommandDesk::carry_out(const wire::Command& command) {
  Outcome<Carried> carried = carry_out_once(command);
  if (carried) return std::move(carried).value();
  Carried refused;
  refused.answer.number = command.number;
  refused.answer.text = escaped("not carried out, since no record of it can be kept: " + carried.error().detail,
                                wire::kMaxCommandAnswerBytes - 16);
  return refused;
}

Outcome<CommandDesk::Carried> CommandDesk::carry_out_once(const wire::Command& command) {
  BOOST_OUTCOME_TRY(const Descriptor lock, lock_file(file_.string() + ".lock", milliseconds(5'000)));
  Outcome<CommandRecord> known = CommandRecord::load(file_);
  if (!known && known.error().code != Errc::corrupt_data) return known.error();
  CommandRecord record = known ? std::move(known).value() : CommandRecord{};
  Carried carried;
  carried.answer.number = command.number;
  if (record.number == command.number) {
    carried.answer.ok = record.ok;
    carried.answer.text = record.answer;
  } else if (record.number > command.number) {
    carried.answer.text = "an older command: it was carried out or left out before; its answer is not kept";
  } else {
    carried.first = true;
    record.number = command.number;
    if (known) {
      do_it(command, record);
    } else {
      record.ok = false;
      record.answer = "not carried out: the record of commands was damaged, so nobody knows whether it had been";
    }
    BOOST_OUTCOME_TRY(record.save(file_));
    stop_point("client.command.done");
    carried.answer.ok = record.ok;
    carried.answer.text = record.answer;
  }
  carried.rate = record.rate;
  return carried;
}

void CommandDesk::do_it(const wire::Command& command, CommandRecord& record) const {
  const std::string& name = command.words.front();
  const std::size_t given = command.words.size() - 1;
  record.ok = true;
  if (name == "status" && given == 0) {
    record.answer =
        std::string(kAgent) + ", up " + std::to_string(uptime_s() - begun_s_) + " s, rate " + text_of_rate(record.rate);
    if (ends_.status) record.answer += ", " + ends_.status();
  } else if (name == "set-rate" && given == 1 && read_rate(command.words[1], record.rate)) {
    record.answer =
        "rate " + text_of_rate(record.rate) + (ends_.set_rate ? "" : ", from the next start of pi_client run on");
  } else if (name == "restart" && given == 0 && ends_.restart) {
    record.answer = "restarts";
  } else {
    record.ok = false;
    if (name == "set-rate") {
      record.answer =
          "set-rate wants one number of bytes a second (at least " + std::to_string(kLowestRate) + "), off, or default";
    } else if (name == "restart" && given == 0) {
      record.answer = "only pi_client run can restart";
    } else if (name == "status" || name == "restart") {
      record.answer = name + " takes nothing more";
    } else {
      record.answer = "unknown command '" + escaped(name, kMaxNameBytes) + "': there are status, set-rate, restart";
    }
  }
  record.answer = escaped(record.answer, wire::kMaxCommandAnswerBytes - 16);
}

void CommandDesk::take_effect(const wire::Command& command, const Carried& carried) {
  const std::string& name = command.words.front();
  if (ends_.say && carried.first) {
    ends_.say("command " + escaped(name, kMaxNameBytes) + ": " + escaped(carried.answer.text, kShown));
  }
  if (!carried.answer.ok) return;
  if (name == "set-rate" && ends_.set_rate) ends_.set_rate(carried.rate);
  if (name == "restart" && carried.first && ends_.restart) ends_.restart();
}

}  // namespace gearbox::client
