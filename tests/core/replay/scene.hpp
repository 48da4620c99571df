// scene.hpp: small clusters, models and traffic for the tests of replay, and running them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "balancer/least_loaded.hpp"
#include "gearbox/gears/price.hpp"
#include "replay/simulator.hpp"

namespace gearbox::replay {

inline Cluster cluster_of(const std::string& text) {
  auto cluster = parse_cluster(text, "cluster.toml");
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().detail);
  return cluster ? std::move(cluster).value() : Cluster();
}

inline Model model_of(const std::string& text) {
  auto model = parse_model(text, "model.toml");
  EXPECT_TRUE(model) << (model ? "" : model.error().detail);
  return model ? std::move(model).value() : Model();
}

inline Model seven_billion() {
  return model_of(
      "name = 'llm-7b'\nlayers = 32\nwidth = 4096\nheads = 32\nhead_width = 128\nparameters = 6740000000\n");
}

/// Nodes of eight cards each.
inline Cluster nodes_of(const std::string& card, int count, const std::string& more = "") {
  return cluster_of("[[nodes]]\nname = 'n'\ncount = " + std::to_string(count) + "\ncard = '" + card + "'\ncards = 8\n" +
                    more);
}

inline std::unique_ptr<Source> made(const std::string& workload, std::uint64_t seed) {
  auto read = read_workload(workload);
  EXPECT_TRUE(read) << (read ? "" : read.error().detail);
  return source_of(read.value(), seed);
}

/// Runs with the shipped balancer.
inline Result run(Scenario scenario, const Cluster& cluster, const Model& model, Source& source) {
  balancer::LeastLoaded balancer(1024);
  scenario.cluster = &cluster;
  scenario.models = {&model};
  scenario.balancer = &balancer;
  auto result = simulate(scenario, source);
  EXPECT_TRUE(result) << (result ? "" : result.error().detail);
  return result ? std::move(result).value() : Result();
}

inline Scenario in_gear(std::uint8_t gear) {
  Scenario scenario;
  scenario.gears = {gear};
  return scenario;
}

}  // namespace gearbox::replay
