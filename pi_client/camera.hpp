// camera.hpp: takes a picture from a source every so many ms into the spool, and opens the source again when it fails.
#pragma once

#include "capture_source.hpp"

namespace gearbox::client {

struct CameraPace {
  milliseconds every{1'000};
  milliseconds shortest_pause{500};  // before a source that failed is opened again
  milliseconds longest_pause{10'000};
};

std::unique_ptr<Capture> make_camera(std::unique_ptr<CaptureSource> source, CameraPace pace, CaptureEnds ends);

}  // namespace gearbox::client
