#include "memory_view.hpp"

#include <array>

namespace gearbox::shim {
namespace {

struct Lent {
  PyObject_HEAD void* data;
  Py_ssize_t bytes;
  int read_only;
  bool revoked;
  PyObject* owner;  // keeps the memory of a copy; null when the memory is the arena's
};

PyTypeObject* g_type = nullptr;  // one interpreter for each process, never finalised
std::byte g_nothing[1] = {};     // an empty tensor still needs an address

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  auto* const lent = reinterpret_cast<Lent*>(self);
  if (lent->revoked) {
    PyErr_SetString(PyExc_BufferError, "the call that this memory belonged to has been answered");
    buffer->obj = nullptr;
    return -1;
  }
  return PyBuffer_FillInfo(buffer, self, lent->data, lent->bytes, lent->read_only, flags);
}

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<Lent*>(self)->owner);
  type->tp_free(self);
  Py_DECREF(type);
}

pybind11::object make(const std::byte* data, std::size_t bytes, int read_only, PyObject* owner) {
  PyObject* const made = g_type->tp_alloc(g_type, 0);
  if (made == nullptr) throw pybind11::error_already_set();
  auto* const lent = reinterpret_cast<Lent*>(made);
  lent->data = const_cast<std::byte*>(bytes == 0 ? g_nothing : data);
  lent->bytes = static_cast<Py_ssize_t>(bytes);
  lent->read_only = read_only;
  lent->revoked = false;
  lent->owner = owner;
  return pybind11::reinterpret_steal<pybind11::object>(made);
}

}  // namespace

bool MemoryView::ready() {
  if (g_type != nullptr) return true;
  static std::array<PyType_Slot, 4> slots{{
      {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_doc, const_cast<char*>("memory shared with the node")},
      {0, nullptr},
  }};
  static PyType_Spec spec{"_gearbox_worker.MemoryView", sizeof(Lent), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots.data()};
  g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return g_type != nullptr;
}

pybind11::object MemoryView::over(ByteView bytes) {
  return make(bytes.data(), bytes.size(), 1, nullptr);
}
pybind11::object MemoryView::over(ByteSpan bytes) {
  return make(bytes.data(), bytes.size(), 0, nullptr);
}

pybind11::object MemoryView::copy_of(ByteView bytes) {
  PyObject* const owner =
      PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()), static_cast<Py_ssize_t>(bytes.size()));
  if (owner == nullptr) throw pybind11::error_already_set();
  return make(reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(owner)), bytes.size(), 1, owner);
}

void MemoryView::revoke(const pybind11::object& view) {
  reinterpret_cast<Lent*>(view.ptr())->revoked = true;
}

}  // namespace gearbox::shim
