// The model of the published measurements: 7B, 32 layers, FP16.
#pragma once

#include "gearbox/gears/layout.hpp"

namespace gearbox::gears {

inline ModelShape seven_billion() {
  ModelShape model;
  model.layers = 32;
  model.width = 4096;
  model.heads = 32;
  model.kv_heads = 32;
  model.head_width = 128;
  model.parameters = 6'740'000'000;
  return model;
}

}  // namespace gearbox::gears
