// stream_text.hpp: a streamed answer for people, as it comes.
#pragma once

#include <map>
#include <string>

#include "gearbox/base/utf8_pieces.hpp"
#include "node_connection.hpp"

namespace gearbox::client {

/// One streamed answer as text: BYTES tensors' elements and UINT8 tensors of one dimension are text, their parts follow
/// each other without anything between; of other tensors there is a line for each part.
class StreamText {
 public:
  std::string add(const Part& part);
  /// Ends the last line.
  std::string end();

 private:
  std::map<std::string, Utf8Pieces> pieces_;  // by tensor
  bool in_line_ = false;
};

}  // namespace gearbox::client
