// stream_text.hpp: streamed text for people: characters are never torn apart, and nothing in them steers the terminal.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "node_connection.hpp"

namespace gearbox::client {

/// Text that comes in pieces which may end inside of a character.
class Utf8Pieces {
 public:
  /// What can be shown of `piece` and of what was held back before it: whole characters. Control bytes but line ends
  /// and tabs, and bytes that are no UTF-8, come out as \xNN.
  std::string add(std::string_view piece);
  /// The rest: the front of a character that never came whole, as \xNN.
  std::string end();

 private:
  std::string held_;  // at most three bytes
};

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
