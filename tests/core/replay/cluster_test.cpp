#include "replay/cluster.hpp"

#include "scene.hpp"

namespace gearbox::replay {
namespace {

TEST(ClusterFile, TheExamplesAreGood) {
  for (const char* name : {"mixed-8", "mixed-8-slow-links", "a100-8", "gpus-1000"}) {
    const auto cluster = read_cluster(std::string(GEARBOX_EXAMPLES "/") + name + ".toml");
    ASSERT_TRUE(cluster) << cluster.error().detail;
    EXPECT_EQ(cluster.value().name, name);
  }
  EXPECT_EQ(read_cluster(GEARBOX_EXAMPLES "/mixed-8.toml").value().cards(), 64U);
  EXPECT_EQ(read_cluster(GEARBOX_EXAMPLES "/gpus-1000.toml").value().cards(), 1000U);
  for (const char* name : {"llm-7b", "ear-tags"}) {
    const auto model = read_model(std::string(GEARBOX_EXAMPLES "/") + name + ".toml");
    ASSERT_TRUE(model) << model.error().detail;
    EXPECT_EQ(model.value().name, name);
  }
}

TEST(ClusterFile, FiguresOfOnesOwnGoBeforeTheCards) {
  const Cluster cluster = cluster_of("[[nodes]]\nname = 'n'\ncard = 'a100-80g'\nmemory_gb = 40\n");
  EXPECT_EQ(cluster.sets[0].card.memory_bytes, 40e9);
  EXPECT_EQ(cluster.sets[0].card.flops, gears::card_named("a100-80g")->flops);
}

TEST(ClusterFile, EachFaultIsTold) {
  const std::string node = "[[nodes]]\nname = 'n'\ncard = 'a100-80g'\n";
  for (const std::string& text :
       {std::string("name = 'x'\n"), std::string("[[nodes]]\nname = 'n'\ncard = 'h100'\n"), node + "cards = 0\n",
        node + "cards = 8\ngroups = 3\n", node + "gear = 7\n", node + "memory_gb = -1\n", node + "speed = 3\n",
        node + "full_speed_replicas = 0.5\n", node + node, node + "[[happenings]]\nkind = 'quake'\nnode = 'n-0'\n",
        node + "[[happenings]]\nkind = 'fail'\nnode = 'm-0'\n", node + "[shift]\nhow = 'magic'\n",
        node + "[[pools]]\nname = 'p'\nnodes = ['q']\n", node + "[[pools]]\nname = 'p'\ngears = [9]\n"}) {
    const auto cluster = parse_cluster(text, "c.toml");
    ASSERT_FALSE(cluster) << text;
    EXPECT_EQ(cluster.error().code, Errc::bad_config);
    EXPECT_NE(cluster.error().detail.find("c.toml:"), std::string::npos) << cluster.error().detail;
  }
  EXPECT_FALSE(parse_model("name = 'm'\nkind = 'pipeline'\n[[steps]]\nname = 's'\n", "m.toml")) << "it takes no time";
  EXPECT_FALSE(parse_model("name = 'm'\nlayers = 3\n", "m.toml")) << "its shape is not told";
}

TEST(Pools, ServeTheirTenantsAndBorrowWhatIsIdle) {
  const std::string nodes =
      "[[nodes]]\nname = 'a'\ncard = 'a100-80g'\ncards = 2\n[[nodes]]\nname = 'b'\ncard = "
      "'a100-80g'\ncards = 2\n";
  const auto split = [&](const char* borrow) {
    return cluster_of(nodes + "[[pools]]\nname = 'one'\nnodes = ['a']\ntenants = ['ann']\n" + borrow +
                      "[[pools]]\nname = 'two'\nnodes = ['b']\n");
  };
  Trace trace;
  trace.tenants = {"", "ann"};
  for (int i = 0; i < 40; ++i) {
    Arrival arrival;
    arrival.at = i * kSecond / 20;
    arrival.tenant = 1;
    arrival.input_tokens = 2000;
    arrival.output_tokens = 200;
    trace.arrivals.push_back(arrival);
  }
  const Model model = seven_billion();
  Scenario scenario = in_gear(1);
  scenario.gears = {1, 1};
  scenario.tenant_names = trace.tenants;
  const double hard = run(scenario, split("borrow = false\n"), model, *source_of(trace, 1, 0)).latency.mean();
  const double soft = run(scenario, split("borrow = true\n"), model, *source_of(trace, 1, 0)).latency.mean();
  EXPECT_LT(soft, 0.97 * hard);
}

}  // namespace
}  // namespace gearbox::replay
