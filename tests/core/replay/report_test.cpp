#include "replay/report.hpp"

#include <boost/json/parse.hpp>

#include "gear/cost_model.hpp"
#include "replay/chart.hpp"
#include "scene.hpp"

namespace gearbox::replay {
namespace {

PluginMakers makers() {
  PluginMakers makers;
  makers.balancer = [](const std::string&) -> Outcome<std::shared_ptr<plugin::Balancer>> {
    return std::make_shared<balancer::LeastLoaded>(1024);
  };
  makers.policy = [](const std::string&) -> Outcome<std::shared_ptr<plugin::GearPolicy>> {
    return std::make_shared<gear::CostModel>(gear::CostModelLimits());
  };
  return makers;
}

Experiment small() {
  Experiment experiment;
  experiment.cluster = nodes_of("a100-80g", 2);
  experiment.models = {seven_billion()};
  experiment.workload = read_workload("make:steady,rate=10,duration=60").value();
  experiment.seeds = 3;
  experiment.first_seed = 1;
  return experiment;
}

Contender fixed(std::uint8_t gear) {
  Contender contender;
  contender.name = "gear " + std::to_string(gear);
  contender.gears = {gear};
  return contender;
}

TEST(Experiment, MeansHaveIntervalsOverSeeds) {
  std::size_t steps = 0;
  const auto all = compare(small(), {fixed(1), fixed(3)}, makers(), [&](std::size_t, std::size_t) { ++steps; });
  ASSERT_TRUE(all);
  EXPECT_EQ(steps, 7U) << "a beginning, and 2 contenders × 3 seeds";
  for (const Scored& scored : all.value()) {
    ASSERT_EQ(scored.p99s.size(), 3U);
    for (const auto& [name, figure] : scored.figures) {
      if (name != "mean_s") continue;
      EXPECT_LT(figure.low, figure.mean);
      EXPECT_GT(figure.high, figure.mean);
      EXPECT_NEAR(figure.high - figure.mean, figure.mean - figure.low, 1e-12);
    }
  }
  EXPECT_LT(all.value()[1].figure("mean_s"), all.value()[0].figure("mean_s"))
      << "at low load tensor parallel is faster";
}

/// Of equal requests: mixed ones carry less, since the long ones stay longer and hold more of the caches.
TEST(Experiment, SaturationIsAboutWhatThePriceModelSays) {
  Experiment experiment = small();
  experiment.seeds = 1;
  experiment.saturation = true;
  Arrival arrival;
  arrival.input_tokens = 512;
  arrival.output_tokens = 128;
  Trace trace;
  trace.arrivals.assign(10'000, arrival);
  experiment.trace = trace;
  experiment.workload.reset();
  gears::Demand mix;
  mix.prompt_tokens = 512;
  mix.output_tokens = 128;
  for (const std::uint8_t gear : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{3}}) {
    const auto scored = score(experiment, fixed(gear), makers(), [] {});
    ASSERT_TRUE(scored);
    const auto layout = gears::layout_of(gear, 8);
    const double told =
        2 * gears::capacity_of(mix, experiment.models[0].shape, experiment.cluster.sets[0].card, *layout);
    EXPECT_NEAR(scored.value().figure("saturation_requests_per_s"), told, 0.25 * told) << "gear " << int{gear};
  }
}

TEST(Hindsight, IsNeverWorseThanAnyFixedGear) {
  Experiment experiment = small();
  experiment.seeds = 1;
  const auto best = best_gear(experiment, makers());
  const auto layout = best_layout(experiment, makers());
  ASSERT_TRUE(best);
  ASSERT_TRUE(layout);
  const double least = score(experiment, best.value(), makers(), [] {}).value().p99s[0];
  for (std::uint8_t gear = 1; gear <= 6; ++gear)
    EXPECT_LE(least, score(experiment, fixed(gear), makers(), [] {}).value().p99s[0]);
  EXPECT_LE(score(experiment, layout.value(), makers(), [] {}).value().p99s[0], least);
  const auto bound = clairvoyant(experiment, makers(), 1);
  ASSERT_TRUE(bound);
  EXPECT_LE(bound.value().p99_s, least * 1.0001);
}

TEST(Report, JsonAndHtmlTellTheSame) {
  Experiment experiment = small();
  Contender policy;
  policy.name = "<policy & \"co\">";
  policy.policy = "cost_model";
  const auto all = compare(experiment, {policy, fixed(1)}, makers(), [](std::size_t, std::size_t) {});
  ASSERT_TRUE(all);
  const std::optional<Clairvoyant> bound;
  const Report report{experiment, all.value(), bound, "make:steady"};
  boost::system::error_code bad;
  const auto value = boost::json::parse(json_of(report), bad);
  ASSERT_FALSE(bad);
  EXPECT_EQ(value.at("contenders").as_array().size(), 2U);
  EXPECT_GT(value.at("contenders").at(0).at("figures").at("p99_s").at("mean").as_double(), 0);
  const std::string html = html_of(report);
  EXPECT_NE(html.find("&lt;policy &amp; &quot;co&quot;&gt;"), std::string::npos);
  EXPECT_EQ(html.find("<policy"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "nothing is fetched";
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("nan"), std::string::npos);
}

TEST(Chart, AnEmptyOneIsDrawnToo) {
  Chart chart;
  chart.x_logarithmic = true;
  chart.lines.emplace_back();
  const std::string svg = svg_of(chart);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(svg.rfind("</svg>"), svg.size() - 6);
}

}  // namespace
}  // namespace gearbox::replay
