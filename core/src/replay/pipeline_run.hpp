// pipeline_run.hpp: a run of a pipeline whose steps take measured times: each card runs one batch of calls at a time.
#pragma once

#include "replay/simulator.hpp"

namespace gearbox::replay {

/// As simulate(). The scenario's first model is a pipeline; gears and their policy have no meaning there.
Outcome<Result> simulate_pipeline(const Scenario& scenario, Source& source);

}  // namespace gearbox::replay
