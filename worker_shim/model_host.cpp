#include "model_host.hpp"

#include <algorithm>
#include <cstdio>

#include "batches.hpp"
#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/shm/call_block.hpp"
#include "memory_view.hpp"
#include "python_error.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {

namespace py = pybind11;
using wire::DType;

namespace {

constexpr std::size_t kMostHeld = 8;  // views remembered to keep their mappings; more are only counted
constexpr std::size_t kCopyWithoutGil = 64 * 1024;

py::tuple shape_of(const std::vector<std::int64_t>& shape) {
  py::tuple made(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) made[i] = py::int_(shape[i]);
  return made;
}

py::dict record_for_python(const model::Record& record, std::uint32_t threads) {
  py::dict fields;
  fields["name"] = record.name;
  fields["version"] = record.version;
  fields["framework"] = record.framework;
  fields["folder"] = std::filesystem::absolute(record.folder).string();
  fields["threads"] = threads;
  fields["max_batch"] = record.max_batch;
  fields["max_output_bytes"] = record.max_output_bytes;
  fields["stream"] = record.stream;
  return fields;
}

/// The object that the model's own source has for the same text, so that a dict finds it by its address.
py::object name_object(const std::string& name) {
  PyObject* const text = PyUnicode_InternFromString(name.c_str());
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

/// `work` looks at objects of the model's, whose every method may raise: none of that leaves here.
/// Errors: those of `work`; bad_result.
template <class Work>
Outcome<void> guarded(const py::handle& helpers, const Work& work) {
  try {
    return work();
  } catch (py::error_already_set& raised) {
    return Error{Errc::bad_result, "what infer() gave cannot be read: " + describe_exception(raised, helpers).reason};
  } catch (std::exception& thrown) {
    return Error{Errc::bad_result, std::string("what infer() gave cannot be read: ") + thrown.what()};
  }
}

/// Are there as many results as items? Errors: bad_result. May throw.
Outcome<void> check_count(const py::object& given, std::size_t items) {
  const bool list = PyList_Check(given.ptr()) || PyTuple_Check(given.ptr());
  const std::size_t count = list ? py::len(given) : 0;  // of a subclass: it may say or raise anything
  if (list && count == items) return done();
  const std::string what = list ? "a list of " + std::to_string(count) : std::string(Py_TYPE(given.ptr())->tp_name);
  return Error{Errc::bad_result,
               "infer() gave " + what + " for a batch of " + std::to_string(items) + ", not a list of as many dicts"};
}

}  // namespace

Outcome<ModelHost*> ModelHost::load(const model::Record& record, const std::string& device, std::uint32_t threads) {
  auto* const host = new ModelHost;
  host->record_ = record;
  const std::string folder = std::filesystem::absolute(record.folder).string();
  set_model_folder(folder);
  try {
    if (!MemoryView::ready()) throw py::error_already_set();
    host->helpers_ = py::module_::import("gearbox_worker._host");
    const py::object numpy = py::module_::import("numpy");
    host->ndarray_ = numpy.attr("ndarray");
    for (const auto& [name, code] : py::dict(host->helpers_.attr("DTYPES"))) {
      const auto number = wire::dtype_from(std::string_view(name.cast<std::string>()));
      if (number) host->dtypes_.at(static_cast<std::size_t>(*number)) = numpy.attr("dtype")(code);
    }
    host->model_ =
        host->helpers_.attr("load")(record_for_python(record, threads), record.file, record.class_name, device);
    host->nothing_yet_ = py::module_::import("gearbox_worker").attr("NOTHING_YET");
    host->infer_ = host->model_.attr(record.stream ? "stream" : "infer");
    host->arrays_.open(host->ndarray_, host->dtypes_);
    for (const model::TensorDecl& input : record.inputs) host->input_names_.push_back(name_object(input.name));
    for (const model::TensorDecl& output : record.outputs) host->output_names_.push_back(name_object(output.name));
  } catch (py::error_already_set& raised) {
    if (!host->helpers_) return Error{Errc::model_failed, raised.what()};  // numpy itself is missing or broken
    const Failure told = describe_exception(raised, host->helpers_);
    return Error{Errc::model_failed, told.reason + (told.where.empty() ? "" : " (" + told.where + ")")};
  }
  return host;
}

py::object ModelHost::array_over(const wire::TensorSpec& spec, py::object view) {
  return ndarray_(shape_of(spec.shape), dtypes_.at(static_cast<std::size_t>(spec.dtype)), std::move(view));
}

py::object ModelHost::objects_from(const shm::InputTensor& tensor) {
  py::list elements;
  ByteView rest = tensor.bytes;
  while (rest.size() >= 4) {
    const auto size = load_le<std::uint32_t>(rest.data());
    if (size > rest.size() - 4) break;
    elements.append(py::bytes(reinterpret_cast<const char*>(rest.data()) + 4, size));
    rest = rest.subspan(4 + std::size_t{size});
  }
  if (!rest.empty()) throw py::value_error("a BYTES tensor's elements do not fill its bytes");
  return helpers_.attr("objects")(elements, shape_of(tensor.spec.shape));
}

Outcome<py::object> ModelHost::build_item(const shm::Call& call) {
  if (call.descriptor.kind == shm::CallKind::probe) return probe_item();
  py::dict item;
  try {
    for (const shm::InputTensor& tensor : call.inputs) {
      const auto is_it = [&tensor](const model::TensorDecl& decl) { return decl.name == tensor.spec.name; };
      const auto declared = std::find_if(record_.inputs.begin(), record_.inputs.end(), is_it);
      if (declared == record_.inputs.end()) {
        return Error{Errc::bad_input, "input '" + escaped(tensor.spec.name, 64) + "' is not in the model's record"};
      }
      BOOST_OUTCOME_TRY(model::check_fits(*declared, tensor.spec));
      py::object array;
      if (tensor.spec.dtype == DType::bytes) {
        array = objects_from(tensor);
      } else {
        py::object view = copy_inputs_ ? MemoryView::copy_of(tensor.bytes) : MemoryView::over(tensor.bytes);
        if (!copy_inputs_) lent_.push_back(view);
        array = copy_inputs_ ? py::object() : arrays_.over(tensor.spec, tensor.bytes, view);
        if (!array) array = array_over(tensor.spec, std::move(view));
      }
      const auto index = static_cast<std::size_t>(declared - record_.inputs.begin());
      if (PyDict_SetItem(item.ptr(), input_names_[index].ptr(), array.ptr()) != 0) throw py::error_already_set();
    }
  } catch (py::error_already_set& raised) {
    return Error{Errc::bad_input, "the inputs are no tensors: " + describe_exception(raised, helpers_).reason};
  } catch (std::exception& thrown) {
    return Error{Errc::bad_input, thrown.what()};
  }
  if (item.size() != record_.inputs.size()) {
    for (std::size_t i = 0; i < record_.inputs.size(); ++i) {
      if (!item.contains(input_names_[i]))
        return Error{Errc::bad_input, "input '" + record_.inputs[i].name + "' is missing"};
    }
  }
  return py::object(std::move(item));
}

/// The model's own example(), else zeros of the shapes that the record names.
Outcome<py::object> ModelHost::probe_item() {
  try {
    if (py::hasattr(model_, "example")) return py::object(model_.attr("example")());
    py::dict item;
    for (std::size_t i = 0; i < record_.inputs.size(); ++i) {
      const model::TensorDecl& input = record_.inputs[i];
      const std::string dtype(wire::name_of(input.any_dtype ? DType::uint8 : input.dtype));
      item[input_names_[i]] = helpers_.attr("zeros")(shape_of(input.probe_shape), dtype);
    }
    return py::object(std::move(item));
  } catch (py::error_already_set& raised) {
    return describe_exception(raised, helpers_).error();
  } catch (std::exception& thrown) {
    return Error{Errc::model_failed, thrown.what()};
  }
}

void ModelHost::infer(std::vector<Item*>& items) {
  running_ = items;
  const Instant before = Clock::now();
  py::object given;
  Outcome<void> state = done();
  Watchdog::busy(true);
  try {
    py::list batch(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      PyList_SET_ITEM(batch.ptr(), static_cast<Py_ssize_t>(i), items[i]->input.inc_ref().ptr());
    }
    given = py::reinterpret_steal<py::object>(PyObject_CallOneArg(infer_.ptr(), batch.ptr()));
    if (!given) throw py::error_already_set();
  } catch (py::error_already_set& raised) {
    const Failure failure = describe_exception(raised, helpers_);
    for (Item* item : items) state = error_of(failure, *item->call);
    std::fprintf(stderr, "worker_shim: model=%s %s failed: %s%s%s\n", record_.name.c_str(),
                 items.size() == 1 ? "call" : "batch", escaped(failure.reason, 1000).c_str(),
                 failure.where.empty() ? "" : " at ", failure.where.c_str());
  }
  Watchdog::busy(false);
  const std::chrono::nanoseconds run = Clock::now() - before;
  running_.clear();
  for (Item* item : items) {
    item->run = run;
    item->call->batch = static_cast<std::uint32_t>(items.size());
  }

  if (state) {
    state = guarded(helpers_, [&] { return check_count(given, items.size()); });
    if (!state && items.size() > 1) {
      std::fprintf(stderr, "worker_shim: model=%s %s\n", record_.name.c_str(), state.error().detail.c_str());
    }
  }
  if (!state && items.size() > 1) return one_by_one(items);
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i]->state = state ? guarded(helpers_, [&] { return take_result(given, i, *items[i]); }) : state;
  }
}

/// One of a batch may have spoilt it for all: each gets what it is worth alone.
void ModelHost::one_by_one(const std::vector<Item*>& items) {
  for (Item* item : items) {
    item->state = still_wanted(*item->call, Clock::now());
    if (!item->state) continue;
    item->call->reserved = shm::kAnswerBlockBytes;  // what it was lent for the batch it has no use for
    std::vector<Item*> alone{item};
    infer(alone);
  }
}

/// The `index`-th of what infer() gave. Errors: bad_result; what an exception in its place says. May throw.
Outcome<void> ModelHost::take_result(const py::object& given, std::size_t index, Item& item) {
  const auto one = py::reinterpret_steal<py::object>(PySequence_GetItem(given.ptr(), static_cast<Py_ssize_t>(index)));
  if (!one) throw py::error_already_set();
  if (PyExceptionInstance_Check(one.ptr())) return error_of(describe_exception(py::handle(one), helpers_), *item.call);
  return item.results.take({record_, output_names_, arrays_, helpers_}, one);
}

void ModelHost::run(shm::WorkerEndpoint& endpoint, std::vector<shm::Call>& calls) {
  endpoint_ = &endpoint;
  if (items_.size() < calls.size()) items_.resize(calls.size());
  batch_.clear();
  const Instant now = Clock::now();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    items_[i].call = &calls[i];
    items_[i].state = still_wanted(calls[i], now);
    if (!items_[i].state) continue;
    Outcome<py::object> input = build_item(calls[i]);
    if (!input) {
      items_[i].state = std::move(input).error();
      continue;
    }
    items_[i].input = std::move(input).value();
    batch_.push_back(&items_[i]);
  }
  stop_point("worker.call.taken");
  if (!batch_.empty()) infer(batch_);
  stop_point("worker.call.done");
  for (std::size_t i = 0; i < calls.size(); ++i) answer(endpoint, items_[i]);
  // Lets go of the arrays: whoever still holds a view after this is the model.
  for (std::size_t i = 0; i < calls.size(); ++i) {
    items_[i].call = nullptr;
    items_[i].input = py::object();
    items_[i].state = done();
    items_[i].results.clear();
    items_[i].run = {};
  }
  take_back_views();
  endpoint_ = nullptr;
}

void ModelHost::answer(shm::WorkerEndpoint& endpoint, Item& item) {
  if (!item.state) {
    endpoint.fail(*item.call, item.state.error(), item.run);
    return;
  }
  std::size_t bytes = 0;
  for (const shm::OutputTensor& tensor : item.results.tensors()) bytes += tensor.bytes.size();
  Outcome<void> sent = done();
  if (bytes > kCopyWithoutGil) {
    const py::gil_scoped_release others_may_run;
    sent = endpoint.answer(*item.call, item.results.tensors(), item.run);
  } else {
    sent = endpoint.answer(*item.call, item.results.tensors(), item.run);
  }
  if (!sent) endpoint.fail(*item.call, sent.error(), item.run);  // nothing was published
}

void ModelHost::take_back_views() {
  const auto free = [](const py::object& view) { return !MemoryView::held(view); };
  if (std::all_of(lent_.begin(), lent_.end(), free)) {
    lent_.clear();
    return;
  }
  try {
    helpers_.attr("collect")();  // a reference cycle is no intention to keep them
  } catch (py::error_already_set& raised) {
    std::fprintf(stderr, "worker_shim: gc.collect: %s\n", describe_exception(raised, helpers_).reason.c_str());
  }
  std::size_t kept = 0;
  for (py::object& view : lent_) {
    if (free(view)) continue;
    MemoryView::revoke(view);
    if (held_.size() < kMostHeld) held_.push_back(view);
    ++kept;
  }
  lent_.clear();
  if (kept == 0) return;
  // Whatever is in those arrays may change under the model's hands; from now on it gets memory of its own.
  copy_inputs_ = true;
  std::fprintf(
      stderr,
      "worker_shim: model=%s keeps %zu arrays of an answered call; their contents may change: it must copy what it "
      "keeps. Inputs are copied for it from now on.\n",
      record_.name.c_str(), kept);
}

ByteSpan ModelHost::reserve(std::size_t item, std::size_t bytes) {
  if (endpoint_ == nullptr || item >= running_.size() || copy_inputs_) return {};
  return endpoint_->reserve(*running_[item]->call, bytes);
}

std::uint64_t ModelHost::seed(std::size_t item) const {
  return item < running_.size() ? running_[item]->call->descriptor.seed : stream_seed_;
}

void ModelHost::note_input_tokens(std::uint32_t tokens, std::size_t item) {
  shm::Call* const call = item < running_.size() ? running_[item]->call : stream_call_;
  if (call != nullptr) call->input_tokens = tokens;
}

Error ModelHost::error_of(const Failure& failure, shm::Call& call) {
  call.again_ms = failure.again_ms;
  return failure.error();
}

void ModelHost::finish() {
  try {
    helpers_.attr("finish")(model_);
  } catch (py::error_already_set& raised) {
    std::fprintf(stderr, "worker_shim: on the way out: %s\n", escaped(raised.what(), 200).c_str());
  }
}

}  // namespace gearbox::shim
