// The cards whose figures are measured, and "cpu" for ranks without any; docs/gears.md tells their sources.
#include <string_view>

#include "gearbox/gears/layout.hpp"

namespace gearbox::gears {

namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;

constexpr Card card(double tera_flops, double giga_per_s, double giga_bytes, double compute, double bandwidth,
                    double attention, const double (&start_us)[3], double bus, double peer, double host_ms,
                    std::uint32_t chunk) {
  Card made;
  made.flops = tera_flops * kTera;
  made.memory_bandwidth = giga_per_s * kGiga;
  made.memory_bytes = giga_bytes * kGiga;
  made.compute_share = compute;
  made.bandwidth_share = bandwidth;
  made.attention_share = attention;
  for (int i = 0; i < 3; ++i) made.reduce_start_s[i] = start_us[i] * kMicro;
  made.bus_bandwidth = bus * kGiga;
  made.peer_bandwidth = peer * kGiga;
  made.host_step_s = host_ms * 1e-3;
  made.prefill_chunk = chunk;
  return made;
}

struct Named {
  std::string_view name;
  Card card;
};

constexpr Named kCards[] = {
    {"a100-80g", card(312, 2039, 80, .68, .81, .50, {14, 17, 25}, 180, 200, 1.7, 512)},
    {"v100-32g", card(125, 900, 32, .50, .75, .25, {16, 22, 36}, 90, 40, 2.0, 256)},
    // One rank with one thread, FP32, ranks joined by shared memory; measured roughly on one machine of two cores.
    {"cpu", card(0.05, 12, 16, .85, .90, .40, {50, 150, 400}, 2, 4, 2.0, 256)},
    {"rtx3090", card(71, 936, 24, .72, .82, .45, {22, 30, 42}, 6, 6, 2.4, 256)},
};

}  // namespace

const Card* card_named(const char* name) {
  for (const Named& entry : kCards) {
    if (entry.name == name) return &entry.card;
  }
  return nullptr;
}

}  // namespace gearbox::gears
