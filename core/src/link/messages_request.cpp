// One request: what is uploaded, and what comes back.
#include "gearbox/wire/messages.hpp"
#include "link/json_reader.hpp"
#include "link/json_writer.hpp"

namespace gearbox::wire {
using link::JsonWriter;
using link::ObjectReader;

namespace {

constexpr std::size_t kMaxCodecs = 8;  // in one chain
constexpr std::size_t kMaxSteps = 64;

std::string tensor_json(const TensorSpec& spec) {
  return JsonWriter()
      .add("name", spec.name)
      .add("dtype", name_of(spec.dtype))
      .add("shape", spec.shape)
      .add("bytes", spec.bytes)
      .take();
}

void read_tensor(ObjectReader& r, TensorSpec& spec) {
  r.read("name", spec.name);
  std::string dtype(name_of(spec.dtype));
  r.read("dtype", dtype);
  if (const auto known = dtype_from(dtype)) {
    spec.dtype = *known;
  } else {
    r.fail("dtype", "is none of the known types (UINT8, FP32, BYTES ...)");
  }
  r.read("shape", spec.shape, kMaxRank);
  r.read("bytes", spec.bytes);
}

std::string input_json(const InputSpec& input) {
  return JsonWriter()
      .add_json("tensor", tensor_json(input.tensor))
      .add("wire_bytes", input.wire_bytes)
      .add("codecs", input.codecs)
      .take();
}

void read_input(ObjectReader& r, InputSpec& input) {
  r.read_object("tensor", input.tensor, read_tensor);
  r.read("wire_bytes", input.wire_bytes);
  r.read("codecs", input.codecs, kMaxCodecs);
}

std::string step_json(const StepTiming& step) {
  return JsonWriter()
      .add("step", step.step)
      .add("model", step.model)
      .add("version", step.version)
      .add("calls", step.calls)
      .add("queue_us", step.queue_us)
      .add("run_us", step.run_us)
      .add("retries", step.retries)
      .take();
}

void read_step(ObjectReader& r, StepTiming& step) {
  r.read("step", step.step);
  r.read("model", step.model);
  r.read("version", step.version);
  r.read("calls", step.calls);
  r.read("queue_us", step.queue_us);
  r.read("run_us", step.run_us);
  r.read("retries", step.retries);
}

std::string spec_json(const StepSpec& step) {
  JsonWriter writer;
  writer.add("name", step.name).add("model", step.model).add("inputs", step.inputs);
  if (!step.version.empty()) writer.add("version", step.version);
  if (!step.for_each.empty()) writer.add("for_each", step.for_each);
  if (step.deadline_share > 0) writer.add("deadline_share", step.deadline_share);
  if (step.retry > 0) writer.add("retry", step.retry);
  return writer.take();
}

void read_spec(ObjectReader& r, StepSpec& step) {
  r.read("name", step.name);
  r.read("model", step.model);
  r.read("version", step.version);
  r.read("inputs", step.inputs, kMaxInputs);
  r.read("for_each", step.for_each);
  r.read("deadline_share", step.deadline_share);
  r.read("retry", step.retry);
}

std::string timing_json(const Timing& timing) {
  return JsonWriter()
      .add("upload_us", timing.upload_us)
      .add("queue_us", timing.queue_us)
      .add("total_us", timing.total_us)
      .add_list("steps", timing.steps, step_json)
      .take();
}

void read_timing(ObjectReader& r, Timing& timing) {
  r.read("upload_us", timing.upload_us);
  r.read("queue_us", timing.queue_us);
  r.read("total_us", timing.total_us);
  r.read_list("steps", timing.steps, kMaxSteps, read_step);
}

}  // namespace

std::string to_json(const Submit& m) {
  JsonWriter writer;
  writer.add("task", m.task)
      .add_list("inputs", m.inputs, input_json)
      .add("digest", m.digest)
      .add("wire_bytes", m.wire_bytes);
  if (m.stream) writer.add("stream", true);
  if (!m.steps.empty()) writer.add_list("steps", m.steps, spec_json).add("result", m.result);
  return writer.take();
}
Outcome<void> from_json(std::string_view text, Submit& into) {
  return link::read_message<Submit>(text, into, [](ObjectReader& r, Submit& m) {
    r.read("task", m.task);
    r.read_list("inputs", m.inputs, kMaxInputs, read_input);
    r.read("digest", m.digest);
    r.read("wire_bytes", m.wire_bytes);
    r.read("stream", m.stream);
    r.read_list("steps", m.steps, kMaxOwnSteps, read_spec);
    r.read("result", m.result, kMaxInputs);
  });
}

std::string to_json(const ResultMessage& m) {
  JsonWriter json;
  json.add_list("tensors", m.tensors, tensor_json).add("bytes", m.bytes).add_json("timing", timing_json(m.timing));
  if (m.parts > 0) json.add("parts", m.parts);
  return json.take();
}
Outcome<void> from_json(std::string_view text, ResultMessage& into) {
  return link::read_message<ResultMessage>(text, into, [](ObjectReader& r, ResultMessage& m) {
    r.read_list("tensors", m.tensors, kMaxTensors, read_tensor);
    r.read("bytes", m.bytes);
    r.read_object("timing", m.timing, read_timing);
    r.read("parts", m.parts);
  });
}

std::string to_json(const PartMessage& m) {
  return JsonWriter().add_list("tensors", m.tensors, tensor_json).add("bytes", m.bytes).take();
}
Outcome<void> from_json(std::string_view text, PartMessage& into) {
  return link::read_message<PartMessage>(text, into, [](ObjectReader& r, PartMessage& m) {
    r.read_list("tensors", m.tensors, kMaxTensors, read_tensor);
    r.read("bytes", m.bytes);
  });
}

}  // namespace gearbox::wire
