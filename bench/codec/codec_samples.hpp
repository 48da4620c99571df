// codec_samples.hpp: what the codec bench works on: files given by name, or pictures made here when there are none.
#pragma once

#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::bench {

struct Sample {
  std::string name;
  wire::TensorSpec spec;
  Bytes plain;
};

/// A .ppm, .pgm or .npy file. Errors: io_error, bad_picture.
Outcome<Sample> read_sample(const std::string& file);
/// A scene of soft shapes under noise, as a camera gives it: three correlated colours, about 3 MB.
Sample made_photo(unsigned seed);
/// A room as a depth camera sees it: steps of disparity, holes, slanted walls; 640 x 480.
Sample made_depth(unsigned seed);

}  // namespace gearbox::bench
