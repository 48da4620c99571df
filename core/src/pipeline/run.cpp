#include "pipeline/run.hpp"

#include <algorithm>
#include <utility>

#include "config/versions.hpp"

namespace gearbox::pipeline {

using worker_pool::TensorRef;

std::shared_ptr<Run> Run::start(dispatch::Dispatcher& dispatcher, RunRequest request, Finished finished) {
  std::shared_ptr<Run> run(new Run(dispatcher, std::move(request), std::move(finished)));
  run->begin();
  return run;
}

Run::Run(dispatch::Dispatcher& dispatcher, RunRequest request, Finished finished)
    : dispatcher_(dispatcher), request_(std::move(request)), finished_(std::move(finished)) {}

void Run::begin() {
  for (auto& [name, value] : request_.inputs) values_.emplace("request." + name, std::move(value));
  request_.inputs.clear();
  for (const config::StepConfig& config : request_.task->steps) {
    Step step;
    step.config = &config;
    step.timing.step = config.name;
    step.timing.model = config.model;
    steps_.push_back(std::move(step));
  }
  if (explain::Trace* const trace = request_.trace.get(); trace != nullptr) {
    for (const config::StepConfig& config : request_.task->steps) {
      explain::Step& step = trace->steps.emplace_back();
      step.name = config.name;
      step.model = config.model;
      step.asked = config.version;
      step.scattered = !config.for_each.empty();
    }
  }
  advance();
}

void Run::cancel() {
  over_ = true;
  if (request_.trace) note_open(*std::exchange(request_.trace, nullptr));
  for (const auto& [place, job] : std::exchange(jobs_, {})) dispatcher_.cancel(job);
  tried_.clear();
  values_.clear();
  steps_.clear();
}

void Run::finish(Outcome<RunResult> outcome) {
  if (over_) return;
  const std::shared_ptr<Run> alive = shared_from_this();  // cancel() lets go of what may hold us
  Finished finished = std::move(finished_);
  cancel();
  finished(std::move(outcome));
}

void Run::note_open(explain::Trace& trace) const {
  std::vector<std::pair<std::size_t, explain::Call>> waiting;
  for (const auto& [place, job] : jobs_) {
    std::optional<explain::Call> call = dispatcher_.explained(job);
    const std::size_t step = place >> 32;
    if (!call || step >= trace.steps.size()) continue;
    call->item = static_cast<std::uint32_t>(place);
    if (const auto tried = tried_.find(place); tried != tried_.end()) call->follow(tried->second.earlier);
    if (call->picks.empty()) {
      waiting.emplace_back(step, std::move(*call));
    } else {
      trace.steps[step].add_open(std::move(*call), trace.kept_bytes);
    }
  }
  // Those that never got near a worker have least to tell.
  for (auto& [step, call] : waiting) trace.steps[step].add_open(std::move(call), trace.kept_bytes);
}

void Run::note_start(std::size_t index, const model::Record& record, std::size_t calls) const {
  explain::Step& step = request_.trace->steps[index];
  const config::StepConfig& config = *steps_[index].config;
  step.started = Clock::now();
  step.calls = static_cast<std::uint32_t>(calls);
  step.version = record.version;
  using config::Asked;
  const Asked asked = config::kind_of(config.version);
  const auto newest_of = [&](std::string_view version) {
    return config::find_model(*request_.config, config.model, version);
  };
  const model::Record* const newest = newest_of("latest");
  const model::Record* const admitted = asked == Asked::range ? newest_of(config.version) : newest;
  if (newest == nullptr || admitted == nullptr) {
    step.note = explain::VersionNote::stands_in;
    return;
  }
  if (admitted->version == record.version) {
    if (admitted->digest != record.digest) {
      step.note = explain::VersionNote::content;
    } else if (newest != admitted) {
      step.newest = newest->version;
      step.note = explain::VersionNote::range;
    }
    return;
  }
  step.newest = admitted->version;
  if (asked == Asked::exact) {
    step.note = explain::VersionNote::exact;
  } else if (config::compare_versions(record.version, admitted->version) > 0) {
    step.note = explain::VersionNote::stands_in;
  } else {
    const bool comes = dispatcher_.service(*admitted) == worker_pool::Service::coming;
    step.note = comes ? explain::VersionNote::coming : explain::VersionNote::none;
  }
}

void Run::note_answer(std::size_t index, std::size_t call, dispatch::JobResult& result) const {
  explain::Step& step = request_.trace->steps[index];
  result.explained.item = static_cast<std::uint32_t>(call);
  if (result.record && result.record->version != step.version) result.explained.version = result.record->version;
  step.add(std::move(result.explained), request_.trace->kept_bytes);
}

const Value* Run::find(const config::TensorSource& source) const {
  const auto found = values_.find(source.step + "." + source.tensor);
  return found == values_.end() ? nullptr : &found->second;
}

bool Run::is_fed(const Step& step) const {
  return std::all_of(step.config->inputs.begin(), step.config->inputs.end(),
                     [&](const auto& input) { return find(input.second) != nullptr; });
}

void Run::advance() {
  const std::shared_ptr<Run> alive = shared_from_this();
  bool progress = true;
  while (progress && !over_) {
    progress = false;
    for (std::size_t i = 0; i < steps_.size() && !over_; ++i) {
      if (steps_[i].started || !is_fed(steps_[i])) continue;
      steps_[i].started = true;
      progress = true;
      if (Outcome<void> started = start_step(i); !started) {
        Error error = started.error();
        error.detail = "step '" + steps_[i].config->name + "': " + error.detail;
        finish(std::move(error));
        return;
      }
    }
  }
  if (over_) return;
  if (std::all_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.done; })) finish(result());
}

Outcome<std::size_t> Run::count_calls(const Step& step) const {
  if (step.config->for_each.empty()) return std::size_t{1};
  const std::size_t count = find(step.config->inputs.at(step.config->for_each))->tensors.size();
  if (count > kMaxFanOut) {
    return Error{Errc::too_large, std::to_string(count) + " items to scatter; at most " + std::to_string(kMaxFanOut)};
  }
  return count;
}

Outcome<std::vector<TensorRef>> Run::inputs_of(const Step& step, std::size_t call) const {
  std::vector<TensorRef> inputs;
  for (const auto& [input, source] : step.config->inputs) {
    const Value* value = find(source);
    std::vector<TensorRef> feed;
    if (input == step.config->for_each) {
      feed.push_back(value->tensors[call]);
      feed.back().item = 0;
    } else {
      feed = value->tensors;  // a list that is not scattered goes in whole
    }
    for (TensorRef& tensor : feed) {
      tensor.spec.name = input;
      inputs.push_back(std::move(tensor));
    }
  }
  if (inputs.size() > wire::kMaxTensors) {
    std::string lists;
    for (const auto& [input, source] : step.config->inputs) {
      const std::size_t items = input == step.config->for_each ? 1 : find(source)->tensors.size();
      if (items > 1) lists += (lists.empty() ? "" : ", ") + input + " " + std::to_string(items);
    }
    return Error{Errc::too_large, std::to_string(inputs.size()) + " tensors for one call (" + lists + "); at most " +
                                      std::to_string(wire::kMaxTensors)};
  }
  return inputs;
}

Outcome<void> Run::start_step(std::size_t index) {
  Step& step = steps_[index];
  const config::StepConfig& config = *step.config;
  const auto record = dispatcher_.resolve(*request_.config, config.model, config.version).record;
  if (!record) {
    return Error{Errc::model_unavailable, "no model " + config.model + " version " + config.version};
  }
  step.record = record;
  step.timing.version = record->version;
  BOOST_OUTCOME_TRY(const std::size_t calls, count_calls(step));
  step.answers.resize(calls);
  step.open_calls = calls;
  step.timing.calls = static_cast<std::uint32_t>(calls);
  if (request_.trace) note_start(index, *record, calls);
  if (calls == 0) return gather(step);
  open_share(index);
  for (std::size_t call = 0; call < calls && !over_; ++call) {  // over: an earlier call of ours failed meanwhile
    BOOST_OUTCOME_TRY(submit(index, call, record));
  }
  return done();
}

void Run::answered(std::size_t index, std::size_t call, dispatch::JobResult result) {
  if (over_) return;
  jobs_.erase(place_of(index, call));
  if (!result.outputs && may_retry(index, call, result.outputs.error().code)) {
    return try_again(index, call, std::move(result));
  }
  add_earlier(index, call, result);
  if (request_.trace) note_answer(index, call, result);
  Step& step = steps_[index];
  if (!result.outputs) {
    Error error = result.outputs.error();
    if (error.code == Errc::deadline_exceeded && is_share_over(step)) error.detail = share_text(step);
    error.detail = where(index, call) + error.detail;
    if (step.timing.retries > 0) error.detail += tries_text(step);
    if (error.code == Errc::quarantined) {
      deadly_ = {step.config->name, result.record->name, result.record->version, std::move(result.ends)};
    }
    again_ = result.again;
    finish(std::move(error));
    return;
  }
  if (!first_call_seen_) {
    first_call_seen_ = true;
    queue_ = result.queued;
  }
  step.timing.queue_us =
      std::max<std::uint64_t>(step.timing.queue_us, static_cast<std::uint64_t>(result.queued.count()));
  step.timing.run_us = std::max<std::uint64_t>(
      step.timing.run_us, static_cast<std::uint64_t>(std::chrono::duration_cast<microseconds>(result.run).count()));
  if (result.record->stream) {
    if (Outcome<void> ended = end_stream(step, result); !ended) return finish(std::move(ended).error());
    return advance();
  }
  step.answers[call] = {std::move(result.outputs).value(), std::move(result.record)};
  if (--step.open_calls > 0) return;
  if (Outcome<void> gathered = gather(step); !gathered) {
    Error error = gathered.error();
    error.detail = where(index, call) + error.detail;
    finish(std::move(error));
    return;
  }
  advance();
}

Outcome<void> Run::gather(Step& step) {
  const bool scattered = !step.config->for_each.empty();
  // While versions change, the calls of one step may have been answered by more than one. All of them give what the
  // task knows of (see WorkerPool::resolve); what only some give is of no use to it.
  const model::Record& first = step.answers.empty() ? *step.record : *step.answers.front().record;
  step.timing.version = first.version;
  for (const model::TensorDecl& output : first.outputs) {
    Value value;
    value.list = scattered || output.list;
    value.dtype = output.dtype;
    bool given_by_all = true;
    for (const Answer& answer : step.answers) {
      const auto& declared = answer.record->outputs;
      const auto same = std::find_if(declared.begin(), declared.end(),
                                     [&](const model::TensorDecl& other) { return other.name == output.name; });
      given_by_all = given_by_all && same != declared.end();
      if (!given_by_all) break;
      BOOST_OUTCOME_TRY(take_output(value, *same, answer));
    }
    if (given_by_all) values_.emplace(step.config->name + "." + output.name, std::move(value));
  }
  step.answers.clear();
  step.done = true;
  step.share_ends.reset();
  if (request_.trace) request_.trace->steps[static_cast<std::size_t>(&step - steps_.data())].ended = Clock::now();
  return done();
}

/// Appends what `answer` holds for `output`. Errors: bad_input, bad_result.
Outcome<void> Run::take_output(Value& value, const model::TensorDecl& output, const Answer& answer) {
  std::size_t found = 0;
  for (const TensorRef& tensor : answer.outputs) {
    if (tensor.spec.name != output.name) continue;
    BOOST_OUTCOME_TRY(model::check_fits(output, tensor.spec));
    ++found;
    value.tensors.push_back(tensor);
    value.dtype = tensor.spec.dtype;
  }
  if (!output.list && found != 1) {
    return Error{Errc::bad_result, "model " + answer.record->name + " gave " + std::to_string(found) +
                                       " tensors for its output '" + output.name + "', one is declared"};
  }
  return done();
}

Outcome<RunResult> Run::result() const {
  RunResult out;
  out.queue = queue_;
  out.parts = parts_;
  for (const auto& [name, source] : request_.task->result) {
    if (const auto dtype = streamed(source)) {
      out.streamed.emplace_back(name, *dtype);
      continue;
    }
    const Value* value = find(source);
    if (value == nullptr) {
      return Error{Errc::internal, "result '" + name + "' has no source " + source.step + "." + source.tensor};
    }
    for (ResultTensor& tensor : join(name, *value)) out.tensors.push_back(std::move(tensor));
  }
  for (const Step& step : steps_) out.steps.push_back(step.timing);
  return out;
}

std::vector<ResultTensor> join(const std::string& name, const Value& value) {
  std::vector<ResultTensor> out;
  const auto single = [&](const TensorRef& tensor, std::string as) {
    ResultTensor result{.spec = tensor.spec, .pieces = {tensor}};
    result.spec.name = std::move(as);
    out.push_back(std::move(result));
  };
  if (!value.list) {
    single(value.tensors.front(), name);
    return out;
  }
  const auto n = static_cast<std::int64_t>(value.tensors.size());
  if (n == 0) {
    out.push_back({.spec = {.name = name, .dtype = value.dtype, .shape = {0}, .bytes = 0}, .pieces = {}});
    return out;
  }
  const wire::TensorSpec& first = value.tensors.front().spec;
  const bool alike = std::all_of(value.tensors.begin(), value.tensors.end(), [&](const TensorRef& tensor) {
    return tensor.spec.shape == first.shape && tensor.spec.dtype == first.dtype;
  });
  if (!alike || first.shape.size() + 1 > wire::kMaxRank) {
    for (std::size_t i = 0; i < value.tensors.size(); ++i) single(value.tensors[i], name + "." + std::to_string(i));
    return out;
  }
  ResultTensor joined{.spec = {.name = name, .dtype = first.dtype, .shape = {n}, .bytes = 0}, .pieces = value.tensors};
  if (first.shape != std::vector<std::int64_t>{1}) {
    joined.spec.shape.insert(joined.spec.shape.end(), first.shape.begin(), first.shape.end());
  }
  for (const TensorRef& tensor : value.tensors) joined.spec.bytes += tensor.spec.bytes;
  out.push_back(std::move(joined));
  return out;
}

}  // namespace gearbox::pipeline
