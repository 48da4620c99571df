// results.hpp: what a model returned for one item, checked against its record and turned into tensors.
#pragma once

#include <pybind11/pybind11.h>

#include <list>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/model/record.hpp"
#include "gearbox/shm/endpoint.hpp"
#include "numpy_arrays.hpp"

namespace gearbox::shim {

/// The outputs of one call; `tensors` point into Python objects or into `texts`, which this keeps alive. Needs the GIL
/// to be made and destroyed; the bytes may be read without it.
class Results {
 public:
  Results() = default;
  Results(Results&&) noexcept = default;
  Results& operator=(Results&&) = delete;
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results();

  /// What does not change from call to call.
  struct Ways {
    const model::Record& record;
    const std::vector<pybind11::object>& names;  // of record.outputs, as Python text
    const NumpyArrays& arrays;
    pybind11::handle helpers;
  };
  /// Errors: bad_result, which names the output, what was expected and what came.
  Outcome<void> take(const Ways& ways, const pybind11::handle& item);

  /// Lets go of everything, for the next call.
  void clear();

  const std::vector<shm::OutputTensor>& tensors() const { return tensors_; }

 private:
  Outcome<void> add(const model::TensorDecl& declared, const Ways& ways, pybind11::handle value, std::uint32_t item);
  Outcome<void> add_array(const model::TensorDecl& declared, const pybind11::handle& helpers, pybind11::handle value,
                          std::uint32_t item);
  Outcome<void> add_texts(const model::TensorDecl& declared, const pybind11::handle& helpers, pybind11::handle value,
                          std::uint32_t item);
  Outcome<void> push(const model::TensorDecl& declared, shm::OutputTensor tensor);

  std::vector<shm::OutputTensor> tensors_;
  std::vector<pybind11::object> arrays_;  // whose bytes `tensors_` point to
  std::list<Py_buffer> buffers_;          // a list: a Py_buffer may point into itself and must not move
  std::list<std::string> texts_;
};

}  // namespace gearbox::shim
