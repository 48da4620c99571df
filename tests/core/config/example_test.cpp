// The set in configs/ must load as it stands.
#include <gtest/gtest.h>

#include "config/config.hpp"

namespace gearbox::config {
namespace {

TEST(ExampleConfiguration, LoadsWithItsTaskAndBothModels) {
  const auto loaded = load(std::filesystem::path(GEARBOX_SOURCE_DIR) / "configs");
  ASSERT_TRUE(loaded) << loaded.error().detail;
  EXPECT_TRUE(loaded.value()->tasks.contains("read-text"));
  EXPECT_NE(find_model(*loaded.value(), "ppocr-det", "latest"), nullptr);
  EXPECT_NE(find_model(*loaded.value(), "ppocr-rec", "latest"), nullptr);
  EXPECT_EQ(loaded.value()->workers.size(), 2U);
}

TEST(ExampleConfiguration, ShowsTheDefaults) {
  const auto loaded = load(std::filesystem::path(GEARBOX_SOURCE_DIR) / "configs");
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const CentralConfig central;
  const LimitsConfig limits;
  const StoreConfig store;
  EXPECT_EQ(loaded.value()->central.listen, central.listen);
  EXPECT_EQ(loaded.value()->central.database, central.database);
  EXPECT_EQ(loaded.value()->central.node_silent, central.node_silent);
  EXPECT_EQ(loaded.value()->central.ticket_ttl, central.ticket_ttl);
  EXPECT_EQ(loaded.value()->central.idle, central.idle);
  EXPECT_EQ(loaded.value()->central.max_connections, central.max_connections);
  EXPECT_EQ(loaded.value()->node.limits.max_upload_bytes, limits.max_upload_bytes);
  EXPECT_EQ(loaded.value()->node.limits.input_arena_bytes, limits.input_arena_bytes);
  EXPECT_EQ(loaded.value()->node.limits.output_arena_bytes, limits.output_arena_bytes);
  EXPECT_EQ(loaded.value()->node.limits.max_connections, limits.max_connections);
  EXPECT_EQ(loaded.value()->node.limits.max_requests, limits.max_requests);
  EXPECT_EQ(loaded.value()->node.limits.idle, limits.idle);
  EXPECT_EQ(loaded.value()->node.store.max_bytes, store.max_bytes);
  EXPECT_EQ(loaded.value()->node.store.keep_hours, store.keep_hours);
}

}  // namespace
}  // namespace gearbox::config
