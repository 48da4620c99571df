#include "result_files.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace fs = std::filesystem;

namespace {

std::string npy_type(wire::DType type) {
  using wire::DType;
  switch (type) {
    case DType::boolean:
      return "|b1";
    case DType::uint8:
      return "|u1";
    case DType::int8:
      return "|i1";
    case DType::uint16:
      return "<u2";
    case DType::int16:
      return "<i2";
    case DType::uint32:
      return "<u4";
    case DType::int32:
      return "<i4";
    case DType::uint64:
      return "<u8";
    case DType::int64:
      return "<i8";
    case DType::fp16:
      return "<f2";
    case DType::fp32:
      return "<f4";
    case DType::fp64:
      return "<f8";
    case DType::bytes:
      break;
  }
  return "|V1";
}

Outcome<void> write_file(const fs::path& path, ByteView bytes) {
  const fs::path beside = path.string() + ".part";
  std::FILE* file = std::fopen(beside.c_str(), "we");
  if (file == nullptr) return Error{Errc::io_error, beside.string() + ": " + std::strerror(errno)};
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  std::error_code failed;
  if (written && closed) {
    fs::rename(beside, path, failed);
    if (!failed) return done();
  }
  const Error error{Errc::io_error, path.string() + ": " + (failed ? failed.message() : std::strerror(errno))};
  fs::remove(beside, failed);  // what is left of it helps nobody; a failure here changes nothing for the caller
  return error;
}

}  // namespace

Bytes to_npy(const wire::TensorSpec& spec, ByteView bytes) {
  std::string head = "{'descr': '" + npy_type(spec.dtype) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t dimension : spec.shape) head += std::to_string(dimension) + ", ";
  if (spec.shape.size() > 1) head.resize(head.size() - 2);
  if (spec.shape.size() == 1) head.pop_back();
  head += "), }";
  constexpr std::size_t kPrefix = 10;
  const std::size_t padded = (kPrefix + head.size() + 1 + 63) / 64 * 64;
  head.append(padded - kPrefix - head.size() - 1, ' ');
  head += '\n';
  Bytes out(padded + bytes.size());
  constexpr unsigned char kMagic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  std::memcpy(out.data(), kMagic, sizeof kMagic);
  store_le(&out[8], static_cast<std::uint16_t>(head.size()));
  std::memcpy(&out[kPrefix], head.data(), head.size());
  if (!bytes.empty()) std::memcpy(&out[padded], bytes.data(), bytes.size());
  return out;
}

Outcome<void> write_results(Report& report, const fs::path& out) {
  report.paths.assign(report.result.tensors.size(), std::string());
  std::size_t binary = 0;
  for (const wire::TensorSpec& spec : report.result.tensors) binary += spec.dtype == wire::DType::bytes ? 0 : 1;
  const bool single = out.extension() == ".npy";
  if (single && binary > 1) {
    return Error{Errc::bad_input, out.string() + " is one file, the result has " + std::to_string(binary) +
                                      " tensors: give --out a folder"};
  }
  std::error_code failed;
  if (!single && binary > 0) fs::create_directories(out, failed);
  if (failed) return Error{Errc::io_error, out.string() + ": " + failed.message()};
  for (std::size_t i = 0; i < report.result.tensors.size(); ++i) {
    const wire::TensorSpec& spec = report.result.tensors[i];
    if (spec.dtype == wire::DType::bytes) continue;
    // The tensor's name comes from the node: only a plain name may become part of a path.
    BOOST_OUTCOME_TRY(check_name("tensor", spec.name));
    fs::path path = out;
    if (!single) {
      const std::string stem =
          report.file.find('=') == std::string::npos ? fs::path(report.file).stem().string() : "result";
      path = out / (stem + "." + spec.name + ".npy");
      if (fs::exists(path, failed)) path = out / (stem + "." + to_text(report.request) + "." + spec.name + ".npy");
    }
    BOOST_OUTCOME_TRY(write_file(path, to_npy(spec, bytes_of(report, i))));
    report.paths[i] = path.string();
  }
  return done();
}

}  // namespace gearbox::client
