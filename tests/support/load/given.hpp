// given.hpp: pieces whose bytes and answers somebody else made, for tasks other than the echo.
#pragma once

#include <string>
#include <vector>

#include "material.hpp"

namespace gearbox::load {

/// One input tensor of UINT8, several of them one after the other in a file; for each the bytes that must come back.
struct Given {
  std::string task;
  std::string tensor = "data";      // the task's input
  std::vector<std::int64_t> shape;  // of each piece
  std::string payloads, answers;    // files; the answers' sizes are all the same
};

/// Reads both files. Each piece is sent as it is, without a codec.
/// Errors: not_found when a file cannot be read; bad_input when files and shape do not fit each other.
Outcome<std::vector<Piece>> given_pieces(const Given& given);

}  // namespace gearbox::load
