// A step whose model streams: its parts go to whoever asked as they come. It is the task's last step in its branch, see
// config/check_streams.cpp, and has one call.
#include <algorithm>
#include <utility>

#include "pipeline/run.hpp"

namespace gearbox::pipeline {

/// Errors: model_unavailable when the version that serves just now streams, though the one that was checked does not.
Outcome<void> Run::stream_into(worker_pool::CallSpec& call, std::size_t step) {
  const config::StepConfig& streaming = *steps_[step].config;
  const bool feeds_a_step = std::any_of(steps_.begin(), steps_.end(), [&](const Step& other) {
    const auto& inputs = other.config->inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const auto& input) { return input.second.step == streaming.name; });
  });
  if (feeds_a_step || !streaming.for_each.empty()) {
    return Error{Errc::model_unavailable, "model " + streaming.model + " version " + steps_[step].record->version +
                                              " streams its answers, which other steps cannot take"};
  }
  call.on_part = [self = shared_from_this(), step](worker_pool::StreamPart part) { self->came(step, std::move(part)); };
  return done();
}

void Run::came(std::size_t index, worker_pool::StreamPart part) {
  if (over_) return;
  const Step& step = steps_[index];
  Outcome<void> sound = done();
  for (const model::TensorDecl& output : step.record->outputs) {
    const auto is_it = [&](const worker_pool::TensorRef& tensor) { return tensor.spec.name == output.name; };
    const auto found = std::find_if(part.tensors.begin(), part.tensors.end(), is_it);
    if (std::count_if(part.tensors.begin(), part.tensors.end(), is_it) != 1) {
      sound = Error{Errc::bad_result, "part " + std::to_string(part.number) + " has not one '" + output.name + "'"};
    } else if (const Outcome<void> fits = model::check_fits(output, found->spec); !fits) {
      sound = Error{Errc::bad_result, fits.error().detail};
    }
    if (!sound) {
      sound.error().detail = "step '" + step.config->name + "': " + sound.error().detail;
      return finish(std::move(sound).error());
    }
  }
  RunPart out;
  out.number = part.number;
  for (const auto& [name, source] : request_.task->result) {
    if (source.step != step.config->name) continue;
    for (const worker_pool::TensorRef& tensor : part.tensors) {
      if (tensor.spec.name != source.tensor) continue;
      ResultTensor result{.spec = tensor.spec, .pieces = {tensor}};
      result.spec.name = name;
      out.tensors.push_back(std::move(result));
      const auto& outputs = step.record->outputs;
      out.grows.push_back(std::any_of(outputs.begin(), outputs.end(), [&](const model::TensorDecl& output) {
        return output.name == tensor.spec.name && !output.any_shape && !output.shape.empty() && output.shape[0] == -1;
      }));
    }
  }
  parts_ = part.number + 1;
  part.tensors.clear();
  if (request_.on_part) request_.on_part(std::move(out));
}

/// Did `source` go out in parts? Then its element type.
std::optional<wire::DType> Run::streamed(const config::TensorSource& source) const {
  for (const Step& step : steps_) {
    if (step.config->name != source.step || !step.streamed) continue;
    for (const model::TensorDecl& output : step.record->outputs) {
      if (output.name == source.tensor) return output.dtype;
    }
  }
  return std::nullopt;
}

/// Errors: model_unavailable when the call was taken over by a version that streams, and nobody listened.
Outcome<void> Run::end_stream(Step& step, const dispatch::JobResult& result) {
  if (!step.record->stream) {
    return Error{Errc::model_unavailable, "step '" + step.config->name + "': model " + result.record->name +
                                              " version " + result.record->version +
                                              " took over, and streams its answers"};
  }
  step.timing.version = result.record->version;
  step.done = step.streamed = true;
  if (request_.trace) request_.trace->steps[static_cast<std::size_t>(&step - steps_.data())].ended = Clock::now();
  return done();
}

}  // namespace gearbox::pipeline
