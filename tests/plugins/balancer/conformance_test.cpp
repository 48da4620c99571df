#include "balancer/least_loaded.hpp"
#include "balancer/round_robin.hpp"
#include "conformance/balancer_conformance.hpp"

namespace gearbox::test {
namespace {

template <class T>
BalancerCase case_of(const char* name) {
  return {name, [](std::uint64_t limit) { return std::make_unique<T>(limit); }};
}

INSTANTIATE_TEST_SUITE_P(Balancers, BalancerConformance,
                         ::testing::Values(case_of<balancer::LeastLoaded>("least_loaded"),
                                           case_of<balancer::RoundRobin>("round_robin")),
                         balancer_name);

}  // namespace
}  // namespace gearbox::test
