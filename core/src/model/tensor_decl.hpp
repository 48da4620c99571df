// tensor_decl.hpp: [[input]] and [[output]] as they stand in model.toml and in tasks/NAME.toml.
#pragma once

#include <string_view>
#include <vector>

#include "gearbox/model/record.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::model {

enum class DeclKind {
  model_input,   // may have probe_shape
  model_output,  // may have list
  task_input,    // neither
};

/// Reads [[key]]; each fault is added to the document's.
std::vector<TensorDecl> read_tensor_decls(const toml::Table& table, std::string_view key, DeclKind kind);

/// "UINT8 [-1, -1, 3]", "ANY", "list of FP32 [4]": as errors show it.
std::string shown(const TensorDecl& declared);

}  // namespace gearbox::model
