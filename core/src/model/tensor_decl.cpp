#include "model/tensor_decl.hpp"

#include <algorithm>

namespace gearbox::model {

namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;
constexpr std::uint64_t kMaxProbeElements = std::uint64_t{1} << 26;  // a probe is a tiny request, not a load test
constexpr std::size_t kMaxTensorName = 32;                           // the ring's descriptor has room for so much

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t dimension : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dimension);
  }
  return text + "]";
}

bool fits_shape(const std::vector<std::int64_t>& declared, const std::vector<std::int64_t>& given) {
  return declared.size() == given.size() &&
         std::equal(declared.begin(), declared.end(), given.begin(),
                    [](std::int64_t d, std::int64_t g) { return d == -1 || d == g; });
}

void read_dtype(const toml::Table& table, TensorDecl& decl) {
  if (!table.require("dtype")) return;
  const std::string text = table.text("dtype", "");
  if (text == "ANY") {
    decl.any_dtype = true;
  } else if (const auto type = wire::dtype_from(std::string_view(text))) {
    decl.dtype = *type;
  } else if (!text.empty()) {
    table.fault(
        "dtype",
        "'" + text +
            "' is no type; valid are BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, "
            "FP64, BYTES and ANY");
  }
}

void read_probe_shape(const toml::Table& table, TensorDecl& decl) {
  if (const auto probe = table.integers("probe_shape", 0, kMaxDimension, wire::kMaxRank)) {
    decl.probe_shape = *probe;
    if (!decl.any_shape && !fits_shape(decl.shape, decl.probe_shape)) {
      table.fault("probe_shape", shape_text(decl.probe_shape) + " does not fit shape " + shape_text(decl.shape));
    }
  } else if (decl.any_shape) {
    decl.probe_shape = {1};
  } else {
    decl.probe_shape = decl.shape;
    std::replace(decl.probe_shape.begin(), decl.probe_shape.end(), std::int64_t{-1}, std::int64_t{1});
  }
  const auto count = wire::element_count(decl.probe_shape);
  if (!count || count.value() > kMaxProbeElements) {
    table.fault(table.has("probe_shape") ? "probe_shape" : "shape", "the readiness probe would have more than " +
                                                                        std::to_string(kMaxProbeElements) +
                                                                        " elements; give a smaller probe_shape");
  }
}

TensorDecl read_one(const toml::Table& table, DeclKind kind) {
  TensorDecl decl;
  if (table.require("name")) {
    decl.name = table.name("name", "");
    if (decl.name.size() > kMaxTensorName) table.fault("name", "is longer than 32 bytes");
  }
  read_dtype(table, decl);
  if (table.has("shape")) {
    decl.shape = table.integers("shape", -1, kMaxDimension, wire::kMaxRank).value_or(std::vector<std::int64_t>{});
  } else {
    decl.any_shape = true;
  }
  if (kind == DeclKind::model_output) decl.list = table.boolean("list", false);
  if (kind == DeclKind::model_input) read_probe_shape(table, decl);
  return decl;
}

}  // namespace

std::vector<TensorDecl> read_tensor_decls(const toml::Table& table, std::string_view key, DeclKind kind) {
  std::vector<TensorDecl> decls;
  for (const toml::Table& one : table.tables(key, wire::kMaxInputs)) {
    TensorDecl decl = read_one(one, kind);
    const bool twice = !decl.name.empty() && std::any_of(decls.begin(), decls.end(), [&](const TensorDecl& earlier) {
      return earlier.name == decl.name;
    });
    if (twice) one.fault("name", "'" + decl.name + "' is there twice");
    decls.push_back(std::move(decl));
  }
  return decls;
}

std::string shown(const TensorDecl& declared) {
  std::string text = declared.list ? "list of " : "";
  text += declared.any_dtype ? std::string_view("ANY") : wire::name_of(declared.dtype);
  if (!declared.any_shape) text += " " + shape_text(declared.shape);
  return text;
}

Outcome<void> check_fits(const TensorDecl& declared, const wire::TensorSpec& spec) {
  const bool type_fits = declared.any_dtype || declared.dtype == spec.dtype;
  const bool shape_fits = declared.any_shape || fits_shape(declared.shape, spec.shape);
  if (type_fits && shape_fits) return done();
  return Error{Errc::bad_input, "tensor '" + declared.name + "': expected " + shown(declared) + ", got " +
                                    std::string(wire::name_of(spec.dtype)) + " " + shape_text(spec.shape)};
}

}  // namespace gearbox::model
