// result_files.hpp: results other than text as .npy files (--out). Blocking.
#pragma once

#include <filesystem>

#include "report.hpp"

namespace gearbox::client {

/// The .npy form (version 1.0, little-endian, C order) of a tensor of fixed-size elements.
Bytes to_npy(const wire::TensorSpec& spec, ByteView bytes);

/// Writes each result tensor that is not BYTES: to `out` itself when it ends in .npy and there is only one, else to
/// `out`/<file's stem>.<tensor>.npy (the folder is made; with the request id in between when that name is taken).
/// Written beside and renamed, so that no half file is ever seen. Fills report.paths. Errors: io_error with the path;
/// bad_input.
Outcome<void> write_results(Report& report, const std::filesystem::path& out);

}  // namespace gearbox::client
