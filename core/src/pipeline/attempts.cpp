// How a step's calls are handed over, how often, and until when: retry and deadline_share.
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "pipeline/run.hpp"

namespace gearbox::pipeline {

namespace {
/// A number for one call of a request, the same whenever that is run. splitmix64's finaliser, so that neighbours differ
/// in all bits.
std::uint64_t seed_of(std::uint64_t request, std::uint64_t place) {
  if (request == 0) return 0;
  std::uint64_t seed = request + 0x9E3779B97F4A7C15ULL * (place + 1);
  seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9ULL;
  seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EBULL;
  return seed ^ (seed >> 31);
}
}  // namespace

std::string Run::where(std::size_t index, std::size_t call) const {
  const config::StepConfig& config = *steps_[index].config;
  std::string text = "step '" + config.name + "'";
  if (!config.for_each.empty()) text += " item " + std::to_string(call);
  return text + ": ";
}

Outcome<void> Run::submit(std::size_t index, std::size_t call, std::shared_ptr<const model::Record> record) {
  const Step& step = steps_[index];
  dispatch::Job job;
  job.task = request_.task->name;
  job.model = step.config->model;
  job.version = step.config->version;
  job.pool = request_.pool;
  job.config = request_.config;
  BOOST_OUTCOME_TRY(job.call.inputs, inputs_of(step, call));
  job.call.deadline = step.until;
  job.call.gathered = !step.config->for_each.empty();
  job.call.tenant = request_.tenant;
  job.call.weight = request_.weight;
  job.call.priority = request_.priority;
  job.call.seed = seed_of(request_.seed, place_of(index, call));
  job.explained = request_.trace != nullptr;
  BOOST_OUTCOME_TRY(dispatch::fit(*record, job.call));
  if (record->stream) {
    BOOST_OUTCOME_TRY(stream_into(job.call, index));
  }
  job.record = std::move(record);
  auto answer = [self = shared_from_this(), index, call](dispatch::JobResult result) {
    self->answered(index, call, std::move(result));
  };
  BOOST_OUTCOME_TRY(const auto id, dispatcher_.submit(std::move(job), std::move(answer)));
  if (over_) {  // handing it over brought the answer of another, which ended the run
    dispatcher_.cancel(id);
  } else {
    jobs_[place_of(index, call)] = id;
  }
  return done();
}

bool Run::may_retry(std::size_t index, std::size_t call, Errc code) const {
  const Step& step = steps_[index];
  if (step.config->retry == 0 || step.record->stream) return false;
  // What the request itself is to blame for, or nobody wants any more, would only fail again.
  const bool worth_it = code == Errc::model_failed || code == Errc::bad_result || code == Errc::worker_lost;
  if (!worth_it || Clock::now() >= step.until) return false;
  const auto tried = tried_.find(place_of(index, call));
  return tried == tried_.end() || tried->second.retries < step.config->retry;
}

void Run::try_again(std::size_t index, std::size_t call, dispatch::JobResult result) {
  const std::shared_ptr<Run> alive = shared_from_this();
  Step& step = steps_[index];
  Tried& tried = tried_[place_of(index, call)];
  ++tried.retries;
  ++step.timing.retries;
  tried.queued += result.queued;
  tried.run += result.run;
  result.explained.follow(std::move(tried.earlier));
  tried.earlier = std::move(result.explained);
  // The model may be served by another build by now.
  auto record = dispatcher_.resolve(*request_.config, step.config->model, step.config->version).record;
  Outcome<void> again =
      record ? submit(index, call, std::move(record))
             : Error{Errc::model_unavailable, "no model " + step.config->model + " version " + step.config->version};
  if (again || over_) return;
  Error error = std::move(again).error();
  error.detail = where(index, call) + error.detail;
  finish(std::move(error));
}

/// The last attempt's result tells of all of them.
void Run::add_earlier(std::size_t index, std::size_t call, dispatch::JobResult& result) {
  const auto tried = tried_.find(place_of(index, call));
  if (tried == tried_.end()) return;
  result.queued += tried->second.queued;
  result.run += tried->second.run;
  result.explained.follow(std::move(tried->second.earlier));
  tried_.erase(tried);
}

bool Run::is_share_over(const Step& step) const {
  return step.until < request_.deadline && Clock::now() >= step.until;
}

/// From now on its calls, and those that are made again, have the step's share of the request's whole time, and no
/// more than is left of that.
void Run::open_share(std::size_t index) {
  Step& step = steps_[index];
  step.until = request_.deadline;
  if (step.config->deadline_share == 0 || request_.deadline == Instant::max() || request_.io == nullptr) return;
  const std::chrono::duration<double, Clock::period> share =
      (request_.deadline - request_.begun) * step.config->deadline_share;
  const Instant until = Clock::now() + std::chrono::duration_cast<Clock::duration>(share);
  if (until >= request_.deadline) return;  // the request's own end comes first
  step.until = until;
  step.share_ends = std::make_unique<boost::asio::steady_timer>(*request_.io, until);
  step.share_ends->async_wait([weak = weak_from_this(), index](const boost::system::error_code& stopped) {
    const std::shared_ptr<Run> run = weak.lock();
    if (stopped || !run || run->over_ || run->steps_[index].done) return;
    run->share_ran_out(index);
  });
}

std::string Run::tries_text(const Step& step) {
  if (step.timing.retries == 1) return "; one call was made again";
  return "; calls were made again " + std::to_string(step.timing.retries) + " times";
}

std::string Run::share_text(const Step& step) const {
  const auto whole = std::chrono::duration_cast<milliseconds>(request_.deadline - request_.begun);
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "its share of the time, %.4g of %lld ms, ran out",
                step.config->deadline_share, static_cast<long long>(whole.count()));
  return text.data();
}

/// The step has had what it may take, over all of its tries: the request ends, and names the first call that waits.
void Run::share_ran_out(std::size_t index) {
  std::optional<std::size_t> first;
  for (const auto& [place, job] : jobs_) {
    const std::size_t call = static_cast<std::uint32_t>(place);
    if (place >> 32 == index && (!first || call < *first)) first = call;
  }
  if (!first) return;
  Error error{Errc::deadline_exceeded, where(index, *first) + share_text(steps_[index])};
  if (steps_[index].timing.retries > 0) error.detail += tries_text(steps_[index]);
  finish(std::move(error));
}

}  // namespace gearbox::pipeline
