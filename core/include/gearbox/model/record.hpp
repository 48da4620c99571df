// record.hpp: model.toml, read and checked: what a model is, what goes in and out. The node and the shim read the same
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::model {

/// One input or output as the record declares it. A dimension of -1 may have any size.
struct TensorDecl {
  std::string name;
  wire::DType dtype = wire::DType::uint8;
  bool any_dtype = false;  // dtype = "ANY"
  std::vector<std::int64_t> shape;
  bool any_shape = false;                 // shape left out
  bool list = false;                      // outputs: any number of tensors, each of this kind; feeds for_each
  std::vector<std::int64_t> probe_shape;  // inputs: what the readiness probe sends; default: shape with 1 for -1
};

struct Record {
  std::string name;
  std::string version;    // "1", "2.3.1"
  std::string framework;  // for people: "onnxruntime"
  std::string summary;
  std::string file = "model.py";  // beside model.toml
  std::string class_name = "Model";
  std::vector<TensorDecl> inputs, outputs;
  std::uint32_t max_batch = 1;
  std::uint32_t max_delay_ms = 0;
  std::uint32_t prefetch = 2;                // calls handed to a worker ahead of time, beyond the batch that runs
  std::uint32_t threads = 1;                 // OMP_NUM_THREADS and the like, set before Python starts
  std::uint64_t memory_mb = 0;               // estimate, for placement; 0 = unknown
  std::uint64_t max_output_bytes = 1 << 20;  // grant for one call, or one part (max_output_kb in the file)
  bool stream = false;                       // answers come in parts, from stream() instead of infer()
  std::uint32_t streams = 4;                 // generators that are open at once in a worker
  bool repeatable = false;                   // the same inputs give the same parts: a stream may begin anew
  std::uint32_t load_timeout_ms = 120000;
  std::uint32_t call_timeout_ms = 60000;  // a call that runs longer makes the worker suspect
  bool cancel_by_restart = false;  // a running call that nobody waits for any more ends with its worker's process
  std::filesystem::path folder;
  std::string digest;  // XXH3-128 over model.toml and the model file, hex

  /// Calls that a worker is handed, unanswered: a batch that runs, and those ahead of time.
  std::uint32_t calls_at_once() const { return max_batch + prefetch; }
};

/// Reads `folder`/model.toml. Errors: bad_config with file, line and key (see toml/document.hpp).
Outcome<Record> read_record(const std::filesystem::path& folder);

/// Does `spec` fit what was declared? Errors: bad_input, which names tensor, expected and given.
Outcome<void> check_fits(const TensorDecl& declared, const wire::TensorSpec& spec);

}  // namespace gearbox::model
