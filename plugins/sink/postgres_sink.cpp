#include "sink/postgres_sink.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "sink/postgres_words.hpp"

namespace gearbox::sink {

namespace {

/// libpq waits for an answer as long as the connection stands: at the deadline this ends it, from a thread of its own.
class Cutter {
 public:
  Cutter(int socket, Instant deadline) : thread_([this, socket, deadline] { watch(socket, deadline); }) {}
  ~Cutter() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

 private:
  void watch(int socket, Instant deadline) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait_until(lock, deadline, [this] { return done_; })) ::shutdown(socket, SHUT_RDWR);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;  // last: it uses what is above
};

/// libpq takes whole seconds, and makes at least two of them.
std::string with_timeout(const std::string& options, Instant deadline) {
  const auto left = std::chrono::duration_cast<seconds>(deadline - Clock::now()).count();
  const std::string timeout = "connect_timeout=" + std::to_string(std::max<std::int64_t>(left, 2));
  if (options.find("connect_timeout") != std::string::npos) return options;
  const bool is_url = options.starts_with("postgres://") || options.starts_with("postgresql://");
  if (!is_url) return options + " " + timeout;
  return options + (options.find('?') == std::string::npos ? "?" : "&") + timeout;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

bool is_table_name(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot != std::string_view::npos) {
    const std::string_view rest = text.substr(dot + 1);
    return rest.find('.') == std::string_view::npos && is_table_name(text.substr(0, dot)) && is_table_name(rest);
  }
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= 63 && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Outcome<void> PostgresSink::open(const plugin::SinkPlace& /*place*/) {
  return done();  // the connection is made, and made again, where it is needed
}

void PostgresSink::connect(Instant deadline) {
  auto connection = std::make_unique<pqxx::connection>(with_timeout(options_, deadline));
  const Cutter cutter(connection->sock(), deadline);
  {
    // "json", not "jsonb": it takes each JSON text as it is, a zero byte in a text included.
    pqxx::work work(*connection);
    work.exec("SET LOCAL client_min_messages = warning");
    // Asked first: creating needs a right on the schema even where the table is there already.
    const bool there = !work.exec_params1("SELECT to_regclass($1)::text", table_)[0].is_null();
    if (!there)
      work.exec("CREATE TABLE IF NOT EXISTS " + table_ +
                "(key text PRIMARY KEY, state text NOT NULL, node text NOT NULL, device text NOT NULL, "
                "request text NOT NULL, \"user\" text NOT NULL, tenant bigint NOT NULL, task text NOT NULL, "
                "accepted_unix_ms bigint NOT NULL, finished_unix_ms bigint NOT NULL, "
                "received_at timestamptz NOT NULL DEFAULT now(), error text NOT NULL, input_bytes bigint NOT NULL, "
                "output_bytes bigint NOT NULL, result json NOT NULL, stored_in text NOT NULL)");
    work.commit();
  }
  connection->prepare("put", "INSERT INTO " + table_ +
                                 "(key, state, node, device, request, \"user\", tenant, task, accepted_unix_ms, "
                                 "finished_unix_ms, error, input_bytes, output_bytes, result, stored_in) VALUES($1, "
                                 "$2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) "
                                 "ON CONFLICT (key) DO NOTHING");
  connection_ = std::move(connection);
}

void PostgresSink::write(std::span<const plugin::EventView> events) {
  pqxx::work work(*connection_);
  for (const plugin::EventView& event : events) {
    work.exec_prepared("put", std::string(event.key), std::string(event.state), std::string(event.node),
                       std::string(event.device), std::string(event.request), std::string(event.user),
                       static_cast<std::int64_t>(event.tenant), std::string(event.task), event.accepted_unix_ms,
                       event.finished_unix_ms, std::string(event.error), static_cast<std::int64_t>(event.input_bytes),
                       static_cast<std::int64_t>(event.output_bytes), std::string(event.result_json),
                       std::string(event.stored_in));
  }
  work.commit();
}

plugin::Verdict PostgresSink::deliver(std::span<const plugin::EventView> events, Instant deadline) {
  if (events.empty()) return {};
  try {
    if (!connection_) connect(deadline);
    const Cutter cutter(connection_->sock(), deadline);
    write(events);
    return {};
  } catch (const pqxx::data_exception& refused) {
    return {plugin::Fate::never, error_words(refused.sqlstate(), refused.what()), milliseconds{0}};
  } catch (const pqxx::integrity_constraint_violation& refused) {
    return {plugin::Fate::never, error_words(refused.sqlstate(), refused.what()), milliseconds{0}};
  } catch (const pqxx::sql_error& failed) {
    return put_off(error_words(failed.sqlstate(), failed.what()), deadline);
  } catch (const std::exception& failed) {
    return put_off(one_line(failed.what()), deadline);
  }
}

/// Whether the connection is to blame is not worth finding out: the next try makes a new one.
plugin::Verdict PostgresSink::put_off(std::string reason, Instant deadline) {
  connection_.reset();
  if (Clock::now() >= deadline) reason = "the server did not answer in time";
  return {plugin::Fate::later, std::move(reason), milliseconds{0}};
}

}  // namespace gearbox::sink
