#include "spool_fill.hpp"

#include <chrono>

#include "gearbox/link/keys.hpp"

namespace gearbox::client {

Outcome<SpoolFill> SpoolFill::create(Spool* spool, const RequestOptions& request) {
  steps::StepList own;
  if (!request.steps_file.empty()) {
    BOOST_OUTCOME_TRY(own, steps::read_steps_file(request.steps_file));
  }
  return SpoolFill(spool, request, std::move(own));
}

Outcome<SpoolFill::Filled> SpoolFill::add(const std::string& name, Bytes file, std::optional<SourceFile> source,
                                          const std::function<void()>& before_seen) {
  const InputFile input{request_.tensor, name};
  BOOST_OUTCOME_TRY(Payload payload, prepare(input, std::move(file), PayloadLimits{request_.lossy}));
  payload.submit.task = request_.task;
  payload.submit.steps = own_.steps;
  payload.submit.result = own_.result;
  SpoolItem item;
  item.id = link::random_request_id();
  item.name = name;
  const Bytes bytes = take_payload(std::move(payload), item);
  item.priority = request_.priority;
  item.deadline = request_.deadline;
  item.max_age = request_.max_age;
  item.spooled = boot_now();
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  item.unix_ms = std::chrono::duration_cast<milliseconds>(wall).count();
  item.source = std::move(source);
  Filled filled;
  filled.id = item.id;
  BOOST_OUTCOME_TRY(Spool::Added added, spool_->add(std::move(item), bytes, before_seen));
  filled.dropped = std::move(added.dropped);
  return filled;
}

}  // namespace gearbox::client
