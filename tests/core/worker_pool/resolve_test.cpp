#include "follow_fixture.hpp"

namespace gearbox::worker_pool {
namespace {

class Resolve : public FollowFixture {
 protected:
  std::string version_of(const config::Config& config, const std::string& version = "latest") const {
    const Resolved now = pool_->resolve(config, "echo", version);
    return now.record ? now.record->version + (now.record->digest.empty() ? "" : "/" + now.record->digest) : "nothing";
  }
  Service service_of(const config::Config& config, const std::string& version = "latest") const {
    return pool_->resolve(config, "echo", version).service;
  }
  static model::TensorDecl decl(const std::string& name, wire::DType dtype) {
    model::TensorDecl made;
    made.name = name;
    made.dtype = dtype;
    made.shape = {-1};
    return made;
  }
};

TEST_F(Resolve, LatestIsTheNewestThatIsReady) {
  habits_["echo@1.10"] = "never_attach";
  add_model("echo", "1.2");
  add_model("echo", "1.9");
  add_model("echo", "1.10");
  want("echo", 1);
  begin();
  EXPECT_EQ(version_of(config_), "1.10") << "nobody is ready: the newest that may become it";
  EXPECT_EQ(service_of(config_), Service::coming);
  ASSERT_TRUE(becomes("1.2", "ready"));
  ASSERT_TRUE(becomes("1.9", "ready"));
  EXPECT_EQ(version_of(config_), "1.9");
  EXPECT_EQ(service_of(config_), Service::ready);
  EXPECT_EQ(version_of(config_, "1.10"), "1.10") << "exactly that one was asked for";
  EXPECT_EQ(service_of(config_, "1.10"), Service::coming);
}

TEST_F(Resolve, ARangeIsTheNewestInsideThatIsReady) {
  for (const char* version : {"0.9", "1.2", "1.10", "2.0"}) add_model("echo", version);
  habits_["echo@1.10"] = "never_attach";
  want("echo", 1);
  begin();
  EXPECT_EQ(version_of(config_, ">=1,<2"), "1.10") << "nobody is ready: the newest inside that may become it";
  EXPECT_EQ(service_of(config_, ">=1,<2"), Service::coming);
  for (const char* version : {"0.9", "1.2", "2.0"}) ASSERT_TRUE(becomes(version, "ready"));
  EXPECT_EQ(version_of(config_, ">=1,<2"), "1.2") << "2.0 is ready, and outside";
  EXPECT_EQ(service_of(config_, ">=1,<2"), Service::ready);
  EXPECT_EQ(version_of(config_, "~1.10"), "1.10");
  EXPECT_EQ(service_of(config_, "~1.10"), Service::coming);
  EXPECT_EQ(version_of(config_, ">=3"), "nothing");
  EXPECT_EQ(service_of(config_, ">=3"), Service::none);
}

TEST_F(Resolve, ANewVersionIsUsedWhenTheRangeAdmitsItAndItFits) {
  const auto declare = [](model::Record& record, wire::DType takes) {
    record.inputs = {decl("x", takes)};
    record.outputs = {decl("y", wire::DType::fp32)};
  };
  declare(add_model("echo", "1.0"), wire::DType::uint8);
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1.0", "ready"));
  const config::Snapshot before = snapshot();
  declare(add_model("echo", "1.1"), wire::DType::uint8);
  declare(add_model("echo", "2.0"), wire::DType::uint8);
  reload();
  ASSERT_TRUE(becomes("1.1", "ready"));
  ASSERT_TRUE(becomes("2.0", "ready"));
  EXPECT_EQ(version_of(config_, "1.*"), "1.1");
  EXPECT_EQ(version_of(config_, "latest"), "2.0");
  EXPECT_EQ(version_of(*before, "1.*"), "1.0") << "a request keeps what its snapshot knows";
  // Of those that the range admits, one that takes something else than the newest inside is never chosen.
  declare(config_.models[1], wire::DType::fp32);
  config_.models[1].digest = "other";
  EXPECT_EQ(config_.models[1].version, "1.1");
  EXPECT_EQ(version_of(config_, "1.*"), "1.1/other");
  EXPECT_EQ(service_of(config_, "1.*"), Service::none) << "1.0 and the old 1.1 do not take what this 1.1 does";
}

TEST_F(Resolve, AVersionThatNoWorkerIsConfiguredForIsNotWaitedFor) {
  add_model("echo", "1");
  add_model("echo", "2");
  want("echo", 1, "1");
  begin();
  EXPECT_EQ(version_of(config_), "1");
  EXPECT_EQ(service_of(config_, "2"), Service::none);
  EXPECT_EQ(version_of(config_, "2"), "2");
  EXPECT_EQ(version_of(config_, "3"), "nothing");
}

TEST_F(Resolve, OfTwoContentsOfAVersionASnapshotsOwnGoesFirst) {
  add_model("echo", "1", "aaaa");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  const config::Snapshot before = snapshot();
  pool_->apply(before);
  by_folder_->habits["echo@1"] = "never_attach";
  config_.models[0].digest = "bbbb";
  reload();
  ASSERT_TRUE(becomes("1", "loading"));
  EXPECT_EQ(version_of(config_), "1/aaaa") << "the old content serves until the new one is ready";
  EXPECT_EQ(version_of(config_, "1"), "1/aaaa");
  by_folder_->habits.clear();
  ::kill(pool_->workers()[1].pid, SIGKILL);
  ASSERT_TRUE(becomes("1", "ready", 2));
  EXPECT_EQ(version_of(config_), "1/bbbb");
  EXPECT_EQ(version_of(config_, "1"), "1/bbbb");
  EXPECT_EQ(version_of(*before), "1/aaaa");
  EXPECT_EQ(version_of(*before, "1"), "1/aaaa");
  ::kill(pool_->workers()[0].pid, SIGKILL);
  ASSERT_TRUE(becomes("1", "", 1));
  EXPECT_EQ(version_of(*before, "1"), "1/bbbb") << "nobody else is left";
}

TEST_F(Resolve, AVersionThatTakesOtherInputsDoesNotStandIn) {
  add_model("echo", "1").inputs = {decl("x", wire::DType::uint8)};
  config_.models[0].outputs = {decl("y", wire::DType::fp32)};
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  by_folder_->habits["echo@2"] = "never_attach";
  const auto next_is = [&](const std::vector<model::TensorDecl>& inputs,
                           const std::vector<model::TensorDecl>& outputs) {
    config_.models.clear();
    model::Record& record = add_model("echo", "2");
    record.inputs = inputs;
    record.outputs = outputs;
    return version_of(config_);
  };
  const auto x = decl("x", wire::DType::uint8);
  const auto y = decl("y", wire::DType::fp32);
  EXPECT_EQ(next_is({x}, {y}), "1");
  EXPECT_EQ(next_is({x}, {}), "1") << "it gives more than is known of";
  EXPECT_EQ(next_is({decl("x", wire::DType::fp32)}, {y}), "2");
  EXPECT_EQ(next_is({x, decl("threshold", wire::DType::fp32)}, {y}), "2");
  EXPECT_EQ(next_is({}, {y}), "2");
  EXPECT_EQ(next_is({x}, {y, decl("score", wire::DType::fp32)}), "2");
  EXPECT_EQ(next_is({x}, {decl("y", wire::DType::int64)}), "2");
  EXPECT_EQ(service_of(config_), Service::none);
}

}  // namespace
}  // namespace gearbox::worker_pool
