#include "gear_facts/ask.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <memory>
#include <string>
#include <utility>

#include "gear_facts/pages.hpp"
#include "link/json_reader.hpp"
#include "serving/control_client.hpp"
#include "serving/local_socket.hpp"

namespace gearbox::gear_facts {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::size_t kMostLine = 4 << 20;  // an engine's whole history
constexpr std::size_t kMostPages = 2000;

struct Line {
  explicit Line(asio::any_io_executor executor, int descriptor) : stream(executor, descriptor), timer(executor) {}
  asio::posix::stream_descriptor stream;
  asio::steady_timer timer;
  bool late = false;
};

Error failure(const Line& line, const boost::system::error_code& error) {
  if (line.late) return Error{Errc::timeout, "no answer in time"};
  if (error == asio::error::not_found) return Error{Errc::frame_too_large, "the answer is too long"};
  return Error{Errc::closed, error.message()};
}

}  // namespace

Answer parse_answer(std::string_view text) {
  json::parse_options options;
  options.max_depth = 16;
  boost::system::error_code bad;
  json::value value = json::parse(json::string_view(text.data(), text.size()), bad, {}, options);
  if (bad || !value.is_object()) return Error{Errc::bad_frame, "the answer is no JSON object"};
  return std::move(value.get_object());
}

asio::awaitable<Answer> ask_role(asio::any_io_executor executor, std::filesystem::path socket, json::object command,
                                 milliseconds within) {
  std::string text = json::serialize(command);
  Outcome<std::string> answer =
      co_await serving::ask_control(std::move(executor), std::move(socket), std::move(text), within);
  if (!answer) co_return answer.error();
  co_return parse_answer(answer.value());
}

asio::awaitable<Answer> ask_engine(asio::any_io_executor executor, std::filesystem::path socket, json::object question,
                                   milliseconds within) {
  const Outcome<int> descriptor = serving::connect_local(socket);
  if (!descriptor) co_return descriptor.error();
  const auto line = std::make_shared<Line>(executor, descriptor.value());
  line->timer.expires_after(within);
  const auto end = [line](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    line->late = true;
    boost::system::error_code closed;
    line->stream.close(closed);
  };
  line->timer.async_wait(end);
  const std::string text = json::serialize(question) + "\n";
  boost::system::error_code error;
  co_await asio::async_write(line->stream, asio::buffer(text), asio::redirect_error(asio::use_awaitable, error));
  std::string got;
  std::size_t bytes = 0;
  if (!error) {
    auto buffer = asio::dynamic_buffer(got, kMostLine);
    bytes =
        co_await asio::async_read_until(line->stream, buffer, '\n', asio::redirect_error(asio::use_awaitable, error));
  }
  line->timer.cancel();
  boost::system::error_code closed;
  line->stream.close(closed);
  if (error) co_return failure(*line, error);
  co_return parse_answer(std::string_view(got).substr(0, bytes));
}

Asker role_at(asio::any_io_executor executor, std::filesystem::path socket) {
  return [executor = std::move(executor), socket = std::move(socket)](json::object command, milliseconds within) {
    return ask_role(executor, socket, std::move(command), within);
  };
}

asio::awaitable<Outcome<Listed>> ask_list(Asker role, json::object command, milliseconds within) {
  const Instant deadline = after(Clock::now(), within);
  Listed all;
  for (std::size_t page = 0; page < kMostPages; ++page) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) co_return Error{Errc::timeout, "no answer in time"};
    json::object asked = command;
    Answer answer = co_await role(std::move(asked), left);
    if (!answer) co_return answer.error();
    json::object& got = answer.value();
    const json::value* list = got.if_contains("list");
    const json::value* more = got.if_contains("more");
    if (list == nullptr || !list->is_array()) co_return Error{Errc::bad_frame, "the answer has no list"};
    std::string last;
    for (const json::value& each : list->get_array()) {
      if (!each.is_object()) co_return Error{Errc::bad_frame, "what is listed is no object"};
      last = text_of(each.get_object(), "key");
      if (last.empty()) last = text_of(each.get_object(), "name");
      all.list.push_back(each.get_object());
    }
    const bool goes_on = more != nullptr && more->is_bool() && more->get_bool() && !last.empty();
    got.erase("list");
    if (page == 0) all.head = std::move(got);
    if (!goes_on) co_return std::move(all);
    command["after"] = last;
  }
  co_return Error{Errc::too_large, "its list does not end"};
}

asio::awaitable<Outcome<Snapshot>> ask_snapshot(Asker observer, milliseconds within) {
  json::object command{{"command", "snapshot"}};
  Outcome<Listed> listed = co_await ask_list(std::move(observer), std::move(command), within);
  if (!listed) co_return listed.error();
  Outcome<Snapshot> snapshot = read_head(listed.value().head);
  if (!snapshot) co_return snapshot.error();
  for (const json::object& each : listed.value().list) {
    Outcome<GroupFacts> group = read_group(each);
    if (!group) co_return group.error();
    snapshot.value().groups.push_back(std::move(group).value());
  }
  co_return std::move(snapshot);
}

asio::awaitable<Outcome<Records>> ask_records(Asker executor, milliseconds within, std::uint64_t term) {
  json::object command{{"command", "groups"}};
  if (term != 0) command["term"] = term;
  Outcome<Listed> listed = co_await ask_list(std::move(executor), std::move(command), within);
  if (!listed) co_return listed.error();
  Records records;
  link::ObjectReader head(listed.value().head);
  head.read("term", records.term);
  const Outcome<void> read = head.result();
  if (!read) co_return read.error();
  for (const json::object& each : listed.value().list) {
    Outcome<GroupRecord> record = read_record(each);
    if (!record) co_return record.error();
    records.groups.push_back(std::move(record).value());
  }
  co_return std::move(records);
}

}  // namespace gearbox::gear_facts
