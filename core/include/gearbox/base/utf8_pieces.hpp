// utf8_pieces.hpp: streamed text for people: characters are never torn apart, and nothing in them steers the terminal.
#pragma once

#include <string>
#include <string_view>

namespace gearbox {

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

}  // namespace gearbox
