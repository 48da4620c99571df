// How an outbox begins: with the queue of the process before it.
#include <spdlog/spdlog.h>

#include "gearbox/base/text.hpp"
#include "sinks/dead_letters.hpp"
#include "sinks/outbox_state.hpp"
#include "sqlite/folder.hpp"

namespace gearbox::sinks {

Outcome<void> Outbox::State::open_queue() {
  BOOST_OUTCOME_TRY(sqlite::make_private_folder(setup.queue_folder));
  BOOST_OUTCOME_TRY(queue, Queue::open(setup.queue_folder / "queue.db"));
  BOOST_OUTCOME_TRY(known, queue.kept());
  return done();
}

Outcome<void> Outbox::State::open() {
  Outcome<void> opened = open_queue();
  if (!opened && opened.error().code == Errc::corrupt_data) {
    queue = Queue();
    BOOST_OUTCOME_TRY(set_aside_as, sqlite::set_aside(setup.queue_folder));
    spdlog::error("event=sink_queue_damaged reason=\"{}\" set_aside={} hint=\"what waited for sinks is in there\"",
                  escaped(describe(opened.error())), set_aside_as.string());
    opened = open_queue();
  }
  if (!opened) return opened;
  for (const SinkSetup& each : setup.sinks) {
    BOOST_OUTCOME_TRY(sqlite::make_private_folder(folder_of(each.config.name)));
    Sink& sink = sinks[each.config.name];
    sink.config = each.config;
    BOOST_OUTCOME_TRY(sink.waiting, queue.waiting(each.config.name));
  }
  BOOST_OUTCOME_TRY(const std::vector<std::string> names, queue.sinks());
  for (const std::string& name : names) {
    if (sinks.contains(name)) continue;
    if (const Outcome<void> given_up = give_up(name); !given_up) strand(name, given_up.error());
  }
  return done();
}

/// The events of a sink that is gone stay in the queue: the node that cannot write their file works all the same.
void Outbox::State::strand(const std::string& name, const Error& error) {
  queue.rollback();
  const Outcome<Waiting> left = queue.waiting(name);
  stranded[name] = left ? left.value().events : 0;
  spdlog::error(
      "event=sink_stranded sink={} events={} reason=\"{}\" hint=\"no sink of that name is configured any more, and its "
      "events could not be made dead letters; tried again at the next start, or name the sink again\"",
      name, stranded[name], escaped(describe(error)));
}

/// Nobody asks for these events any more.
Outcome<void> Outbox::State::give_up(const std::string& name) {
  BOOST_OUTCOME_TRY(sqlite::make_private_folder(folder_of(name)));
  DeadLetters letters(folder_of(name), config::SinkConfig().dead_letter_bytes);
  std::uint64_t count = 0;
  for (;;) {
    BOOST_OUTCOME_TRY(const std::vector<Row> rows, queue.first(name, kTogether, kBatchBytes));
    if (rows.empty()) break;
    std::vector<std::string_view> bodies;
    for (const Row& row : rows) bodies.push_back(row.body);
    BOOST_OUTCOME_TRY(letters.add(bodies, "no sink of that name is configured any more"));
    BOOST_OUTCOME_TRY(queue.begin());
    for (const Row& row : rows) {
      BOOST_OUTCOME_TRY(queue.take_out(name, row.id));
    }
    BOOST_OUTCOME_TRY(queue.commit());
    count += rows.size();
  }
  spdlog::warn("event=sink_gone sink={} dead_letters={} file={}", name, count, letters.file().string());
  return done();
}

}  // namespace gearbox::sinks
