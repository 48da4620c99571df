// answer_text.hpp: the tensors of a local answer for people and programs; whole, or part by part.
#pragma once

#include <boost/json/array.hpp>

#include <map>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/utf8_pieces.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::cli {

/// `payload`: the tensors' bytes, one after the other. BYTES tensors tell their elements as "values"; with `small_ones`
/// UINT8 tensors of one dimension do, too.
boost::json::array tensors_json(const std::vector<wire::TensorSpec>& tensors, ByteView payload, bool small_ones);

/// Lines: the elements of BYTES tensors, name, type and shape of others. Nothing in them steers the terminal.
std::string tensors_text(const std::vector<wire::TensorSpec>& tensors, ByteView payload);

/// One streamed answer as text: BYTES tensors' elements and UINT8 tensors of one dimension are text, their parts follow
/// each other without anything between; of other tensors there is a line for each part.
class PartsText {
 public:
  std::string add(const std::vector<wire::TensorSpec>& tensors, ByteView payload);
  /// Ends the last line.
  std::string end();

 private:
  std::map<std::string, Utf8Pieces> pieces_;  // by tensor
  bool in_line_ = false;
};

}  // namespace gearbox::cli
