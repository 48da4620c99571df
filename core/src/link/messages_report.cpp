// What a node tells central once a second, and what it gets back.
#include "gearbox/wire/messages.hpp"
#include "link/json_reader.hpp"
#include "link/json_writer.hpp"

namespace gearbox::wire {
using link::JsonWriter;
using link::ObjectReader;

namespace {

constexpr std::size_t kMaxAddresses = 32;
constexpr std::size_t kMaxModels = 512;
constexpr std::size_t kMaxTasks = 512;
constexpr std::size_t kMaxTaskModels = 64;  // steps of one task
constexpr std::size_t kMaxTicketKeys = 64;

std::string model_json(const ModelReport& model) {
  return JsonWriter()
      .add("name", model.name)
      .add("version", model.version)
      .add("workers", model.workers)
      .add("queued", model.queued)
      .add("running", model.running)
      .add("step_p95_us", model.step_p95_us)
      .take();
}

void read_model(ObjectReader& r, ModelReport& model) {
  r.read("name", model.name);
  r.read("version", model.version);
  r.read("workers", model.workers);
  r.read("queued", model.queued);
  r.read("running", model.running);
  r.read("step_p95_us", model.step_p95_us);
}

std::string task_json(const TaskReport& task) {
  return JsonWriter().add("name", task.name).add("models", task.models).add("ready", task.ready).take();
}

void read_task(ObjectReader& r, TaskReport& task) {
  r.read("name", task.name);
  r.read("models", task.models, kMaxTaskModels);
  r.read("ready", task.ready);
}

}  // namespace

std::string to_json(const NodeReport& m) {
  return JsonWriter()
      .add("name", m.name)
      .add("addresses", m.addresses)
      .add("channel_key", m.channel_key)
      .add("queued", m.queued)
      .add("running", m.running)
      .add("sessions", m.sessions)
      .add("draining", m.draining)
      .add("config_digest", m.config_digest)
      .add_list("models", m.models, model_json)
      .add_list("tasks", m.tasks, task_json)
      .take();
}
Outcome<void> from_json(std::string_view text, NodeReport& into) {
  return link::read_message<NodeReport>(text, into, [](ObjectReader& r, NodeReport& m) {
    r.read("name", m.name);
    r.read("addresses", m.addresses, kMaxAddresses);
    r.read("channel_key", m.channel_key);
    r.read("queued", m.queued);
    r.read("running", m.running);
    r.read("sessions", m.sessions);
    r.read("draining", m.draining);
    r.read("config_digest", m.config_digest);
    r.read_list("models", m.models, kMaxModels, read_model);
    r.read_list("tasks", m.tasks, kMaxTasks, read_task);
  });
}

std::string to_json(const ReportOk& m) {
  return JsonWriter()
      .add("central_unix_ms", m.central_unix_ms)
      .add("ticket_keys", m.ticket_keys)
      .add("revoked", m.revoked)
      .take();
}
Outcome<void> from_json(std::string_view text, ReportOk& into) {
  return link::read_message<ReportOk>(text, into, [](ObjectReader& r, ReportOk& m) {
    r.read("central_unix_ms", m.central_unix_ms);
    r.read("ticket_keys", m.ticket_keys, kMaxTicketKeys);
    r.read("revoked", m.revoked);
  });
}

}  // namespace gearbox::wire
