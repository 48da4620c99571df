#include "results.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "gearbox/base/text.hpp"
#include "python_error.hpp"

namespace gearbox::shim {
namespace {

namespace py = pybind11;
using model::TensorDecl;
using wire::DType;

/// A buffer's element type from its format character; `bytes` settles what depends on the platform ('l').
std::optional<DType> dtype_of(const char* format, Py_ssize_t bytes) {
  if (format == nullptr) return DType::uint8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  switch (*format) {
    case '?':
      return DType::boolean;
    case 'e':
      return DType::fp16;
    case 'f':
      return DType::fp32;
    case 'd':
      return DType::fp64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return bytes == 1 ? DType::int8 : bytes == 2 ? DType::int16 : bytes == 4 ? DType::int32 : DType::int64;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return bytes == 1 ? DType::uint8 : bytes == 2 ? DType::uint16 : bytes == 4 ? DType::uint32 : DType::uint64;
    default:
      return std::nullopt;
  }
}

Error bad(const TensorDecl& declared, const std::string& what) {
  return Error{Errc::bad_result, "output '" + declared.name + "': " + what};
}

Error too_many(const TensorDecl& declared, std::size_t count) {
  return Error{Errc::result_too_large, "output '" + declared.name + "': " + std::to_string(count) +
                                           (count == 1 ? " tensor more" : " tensors") + "; one answer holds at most " +
                                           std::to_string(wire::kMaxTensors) + ", list items counted singly"};
}

std::string type_name(py::handle value) {
  return Py_TYPE(value.ptr())->tp_name;
}

/// One element of a BYTES tensor: u32le length, bytes.
void append_element(std::string& to, std::string_view element) {
  std::array<std::byte, 4> length{};
  store_le(length.data(), static_cast<std::uint32_t>(element.size()));
  to.append(reinterpret_cast<const char*>(length.data()), length.size());
  to.append(element);
}

/// The bytes of a bytes or str object; nothing for other types and for text that has no UTF-8 form.
std::optional<std::string_view> element_bytes(PyObject* value) {
  if (PyBytes_Check(value)) {
    return std::string_view(PyBytes_AS_STRING(value), static_cast<std::size_t>(PyBytes_GET_SIZE(value)));
  }
  if (PyUnicode_Check(value)) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(value, &size);  // kept inside the object
    if (text != nullptr) return std::string_view(text, static_cast<std::size_t>(size));
    PyErr_Clear();
  }
  return std::nullopt;
}

/// [1] for a single value where one dimension is declared, as is natural to write; else no dimension.
std::vector<std::int64_t> single_shape(const TensorDecl& declared) {
  if (!declared.any_shape && declared.shape.empty()) return {};
  return {1};
}

}  // namespace

Results::~Results() {
  clear();
}

void Results::clear() {
  tensors_.clear();
  arrays_.clear();
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
  buffers_.clear();
  texts_.clear();
}

Outcome<void> Results::take(const Ways& ways, const py::handle& item) {
  const model::Record& record = ways.record;
  if (PyDict_Check(item.ptr()) == 0) {
    return Error{Errc::bad_result,
                 record.stream
                     ? "stream() gave " + type_name(item) + " for a part, not a dict of outputs"
                     : "infer() gave " + type_name(item) + " for one item of the batch, not a dict of outputs"};
  }
  try {
    for (std::size_t index = 0; index < record.outputs.size(); ++index) {
      const TensorDecl& declared = record.outputs[index];
      PyObject* const value = PyDict_GetItemWithError(item.ptr(), ways.names[index].ptr());  // borrowed
      if (value == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
      if (value == nullptr)
        return bad(declared, record.stream ? "missing in what stream() gave" : "missing in what infer() gave");
      if (!declared.list) {
        BOOST_OUTCOME_TRY(add(declared, ways, value, 0));
        continue;
      }
      const py::object list = py::reinterpret_steal<py::object>(PySequence_Fast(value, "not a list"));
      if (!list) {
        PyErr_Clear();
        return bad(declared, "expected a list of tensors, got " + type_name(value));
      }
      const Py_ssize_t count = PySequence_Fast_GET_SIZE(list.ptr());
      if (tensors_.size() + static_cast<std::size_t>(count) > wire::kMaxTensors) {
        return too_many(declared, static_cast<std::size_t>(count));
      }
      for (Py_ssize_t i = 0; i < count; ++i) {
        BOOST_OUTCOME_TRY(add(declared, ways, PySequence_Fast_GET_ITEM(list.ptr(), i), static_cast<std::uint32_t>(i)));
      }
    }
    if (static_cast<std::size_t>(PyDict_Size(item.ptr())) != record.outputs.size()) {
      for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(item)) {
        const std::string name = py::str(key);
        const auto is_it = [&name](const TensorDecl& declared) { return declared.name == name; };
        if (std::none_of(record.outputs.begin(), record.outputs.end(), is_it)) {
          return Error{Errc::bad_result, "output '" + escaped(name, 64) + "' is not in the model's record"};
        }
      }
    }
  } catch (py::error_already_set& raised) {
    return Error{Errc::bad_result, describe_exception(raised, ways.helpers).reason};
  }
  return done();
}

Outcome<void> Results::add(const TensorDecl& declared, const Ways& ways, py::handle value, std::uint32_t item) {
  const py::handle helpers = ways.helpers;
  if (tensors_.size() >= wire::kMaxTensors) return too_many(declared, 1);
  if (const auto plain = ways.arrays.plain(value)) {
    shm::OutputTensor tensor;
    tensor.spec.dtype = plain->dtype;
    if (plain->rank == 0) {
      tensor.spec.shape = single_shape(declared);
    } else {
      tensor.spec.shape.assign(plain->shape, plain->shape + plain->rank);
    }
    tensor.item = item;
    tensor.bytes = plain->bytes;
    const bool text_wanted = !declared.any_dtype && declared.dtype == DType::bytes;
    if (!text_wanted) {
      arrays_.push_back(py::reinterpret_borrow<py::object>(value));
      return push(declared, std::move(tensor));
    }
  }
  if (!declared.any_dtype) {
    return declared.dtype == DType::bytes ? add_texts(declared, helpers, value, item)
                                          : add_array(declared, helpers, value, item);
  }
  const bool text = PyBytes_Check(value.ptr()) || PyUnicode_Check(value.ptr());
  if (text) return add_texts(declared, helpers, value, item);
  return add_array(declared, helpers, value, item);
}

Outcome<void> Results::add_array(const TensorDecl& declared, const py::handle& helpers, py::handle value,
                                 std::uint32_t item) {
  Py_buffer& buffer = buffers_.emplace_back();
  std::optional<DType> dtype;
  if (PyObject_GetBuffer(value.ptr(), &buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) == 0) {
    dtype = dtype_of(buffer.format, buffer.itemsize);
    if (!dtype) {
      const std::string_view format = buffer.format;
      const bool texts = declared.any_dtype && !format.empty() &&
                         std::string_view("Osw").find(format.back()) != std::string_view::npos;
      PyBuffer_Release(&buffer);
      if (texts) {  // an array of objects, bytes or str
        buffers_.pop_back();
        return add_texts(declared, helpers, value, item);
      }
    }
  } else {
    PyErr_Clear();
  }
  if (!dtype) {  // a list, a number, a view with strides, another byte order: made plain first
    buffer.obj = nullptr;
    try {
      const std::string name = declared.any_dtype ? "" : std::string(wire::name_of(declared.dtype));
      const py::object plain = helpers.attr("contiguous")(value, name);
      if (PyObject_GetBuffer(plain.ptr(), &buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0)
        throw py::error_already_set();
      dtype = dtype_of(buffer.format, buffer.itemsize);
    } catch (py::error_already_set& raised) {
      return bad(declared, type_name(value) + " is no tensor: " + describe_exception(raised, helpers).reason);
    }
    if (!dtype) return bad(declared, "elements of format '" + std::string(buffer.format) + "' are no tensor's");
  }
  shm::OutputTensor tensor;
  tensor.spec.dtype = *dtype;
  if (buffer.ndim == 0) {
    tensor.spec.shape = single_shape(declared);
  } else {
    tensor.spec.shape.assign(buffer.shape, buffer.shape + buffer.ndim);
  }
  tensor.item = item;
  tensor.bytes = ByteView(static_cast<const std::byte*>(buffer.buf), static_cast<std::size_t>(buffer.len));
  return push(declared, std::move(tensor));
}

Outcome<void> Results::add_texts(const TensorDecl& declared, const py::handle& helpers, py::handle value,
                                 std::uint32_t item) {
  std::string& packed = texts_.emplace_back();
  shm::OutputTensor tensor;
  tensor.spec.dtype = DType::bytes;
  tensor.item = item;
  if (const auto single = element_bytes(value.ptr())) {
    tensor.spec.shape = single_shape(declared);
    append_element(packed, *single);
  } else if (PyUnicode_Check(value.ptr())) {
    return bad(declared, "the text has no UTF-8 form (it holds lone surrogates); give bytes instead");
  } else {
    try {
      const auto [shape, elements] = helpers.attr("texts")(value).cast<std::pair<py::tuple, py::list>>();
      for (const py::handle dimension : shape) tensor.spec.shape.push_back(dimension.cast<std::int64_t>());
      for (const py::handle element : elements)
        append_element(packed, element_bytes(element.ptr()).value_or(std::string_view()));
    } catch (py::error_already_set& raised) {
      return bad(declared, type_name(value) + " is no BYTES tensor: " + describe_exception(raised, helpers).reason);
    }
  }
  tensor.bytes = view_of(packed);
  return push(declared, std::move(tensor));
}

Outcome<void> Results::push(const TensorDecl& declared, shm::OutputTensor tensor) {
  tensor.spec.name = declared.name;
  tensor.spec.bytes = tensor.bytes.size();
  const Outcome<void> fits = model::check_fits(declared, tensor.spec);
  if (!fits) return Error{Errc::bad_result, "the model's output does not fit its record: " + fits.error().detail};
  tensors_.push_back(std::move(tensor));
  return done();
}

}  // namespace gearbox::shim
