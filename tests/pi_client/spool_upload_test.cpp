// `pi_client run` against a node that speaks the whole protocol and misbehaves as told.
#include "spool_upload.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "run_command.hpp"
#include "spool_command.hpp"
#include "spooling.hpp"

namespace gearbox::client {
namespace {

namespace fs = std::filesystem;

std::string error_name(const boost::json::object& line) {
  return line.contains("error") ? std::string(line.at("error").at("name").as_string()) : std::string("none");
}

/// Connects only from the `n`-th time on.
class AwayAtFirst final : public plugin::Transport {
 public:
  explicit AwayAtFirst(int n) : left_(n) {}
  std::string_view scheme() const override { return "tcp"; }
  Outcome<plugin::Listening> listen(std::string_view url) override { return tcp_.listen(url); }
  Outcome<plugin::Connection> accept(int listening) override { return tcp_.accept(listening); }
  Outcome<plugin::Connection> connect(std::string_view url, Instant deadline) override {
    if (left_-- > 0) return Error{Errc::unreachable, "away"};
    return tcp_.connect(url, deadline);
  }

 private:
  transport_tcp::TcpTransport tcp_;
  std::atomic<int> left_;
};

TEST(SpoolUpload, EachItemGetsOneAnswerAndLeaves) {
  test::FakeNode fake({});
  Spooling device(fake);
  std::vector<std::string> files;
  for (std::uint32_t i = 0; i < 12; ++i) files.push_back(device.picture(std::to_string(i) + ".ppm", 20 + i * 20, i));
  device.add(files);
  const std::set<std::string> ids = device.ids();
  ASSERT_EQ(ids.size(), 12U);
  EXPECT_EQ(device.run(), 0) << device.console.err;
  EXPECT_TRUE(fake.wait_for_acks(12));
  fake.stop();
  EXPECT_EQ(fake.counts().runs, 12);
  EXPECT_EQ(fake.counts().acks, 12);
  EXPECT_TRUE(device.ids().empty());
  std::set<std::string> answered;
  for (const auto& line : device.answers()) {
    EXPECT_TRUE(line.at("ok").as_bool());
    EXPECT_TRUE(answered.insert(std::string(line.at("request").as_string())).second) << "two answers";
  }
  EXPECT_EQ(answered, ids);
}

TEST(SpoolUpload, ACentralThatIsAwayIsAskedUntilItIsThere) {
  test::FakeNode fake({});
  Spooling device(fake);
  device.add({device.picture("a.ppm", 30, 1)});
  device.settings.first_contact = milliseconds(0);  // `send` would give up at the first failure
  AwayAtFirst away(8);
  EXPECT_EQ(run_spooled(device.options, device.settings, away, device.console), 0) << device.console.err;
  EXPECT_EQ(device.answers().size(), 1U);
}

TEST(SpoolUpload, TheNextProcessAsksUnderTheSameIds) {
  test::FakeScript script;
  script.never_answer = true;
  std::atomic<int> accepted = 0;
  script.on_accepted = [&accepted] { ++accepted; };
  test::FakeNode first(script);
  Spooling device(first);
  device.add({device.picture("a.ppm", 30, 1), device.picture("b.ppm", 300, 2)});
  const std::set<std::string> ids = device.ids();
  {
    const StopWhen stop([&accepted] { return accepted == 2; });
    EXPECT_EQ(device.run(), 0) << device.console.err;
  }
  first.stop();
  EXPECT_EQ(first.counts().cancels, 0);  // the node goes on with what it has accepted
  EXPECT_EQ(device.ids(), ids);
  EXPECT_TRUE(device.answers().empty());
  test::FakeNode second({});
  device.options.central.url = second.central_url();
  device.options.central.server_key = second.central_key();
  EXPECT_EQ(device.run(), 0) << device.console.err;
  EXPECT_TRUE(second.wait_for_acks(2));
  second.stop();
  std::set<std::string> asked;
  for (const auto& [id, digest] : second.counts().digests) asked.insert(to_text(id));
  EXPECT_EQ(asked, ids);
  EXPECT_EQ(first.counts().digests, second.counts().digests);
  EXPECT_EQ(device.answers().size(), 2U);
}

TEST(SpoolUpload, WhatIsAmongTheAnswersIsNotSentAgain) {
  test::FakeNode fake({});
  Spooling device(fake);
  device.add({device.picture("a.ppm", 30, 1), device.picture("b.ppm", 30, 2)});
  const std::string id = *device.ids().begin();
  device.scratch.file("spool/answers.jsonl",
                      "{\"file\":\"a\",\"ok\":true,\"request\":\"" + id + "\"}\n{\"file\":\"cut");
  EXPECT_EQ(device.run(), 0);
  fake.stop();
  EXPECT_EQ(fake.counts().submits, 1);
  EXPECT_EQ(device.answers().size(), 2U);  // the line that was cut has gone
}

TEST(SpoolUpload, AnAnswerThatCannotBeWrittenIsAskedForAgainAndNotAcknowledged) {
  test::FakeScript script;
  std::atomic<int> accepted = 0;
  script.on_accepted = [&accepted] { ++accepted; };
  test::FakeNode fake(script);
  Spooling device(fake);
  device.add({device.picture("a.ppm", 30, 1)});
  device.options.spool.answers = "/dev/full";
  device.options.spool.until_empty = false;
  {
    const StopWhen stop([&accepted] { return accepted >= 3; });
    EXPECT_EQ(device.run(), 0);
  }
  fake.stop();
  EXPECT_EQ(fake.counts().acks, 0);
  EXPECT_EQ(fake.counts().runs, 1);
  EXPECT_EQ(device.ids().size(), 1U);
  EXPECT_NE(device.console.err.find("cannot be written down"), std::string::npos) << device.console.err;
}

TEST(SpoolUpload, AFailureAfterAcceptanceIsTheAnswer) {
  test::FakeScript script;
  script.fail_request = Error{Errc::model_failed, "no cow"};
  test::FakeNode fake(script);
  Spooling device(fake);
  device.add({device.picture("a.ppm", 30, 1)});
  EXPECT_EQ(device.run(), 0);
  fake.stop();
  ASSERT_EQ(device.answers().size(), 1U);
  EXPECT_EQ(error_name(device.answers()[0]), "model_failed");
  EXPECT_EQ(fake.counts().submits, 1);
}

TEST(SpoolUpload, ABusyNodeIsAskedAgain) {
  test::FakeScript script;
  script.busy_submits = 3;
  script.retry_after_ms = 20;
  test::FakeNode fake(script);
  Spooling device(fake);
  device.add({device.picture("a.ppm", 30, 1), device.picture("b.ppm", 30, 2)});
  EXPECT_EQ(device.run(), 0);
  fake.stop();
  EXPECT_EQ(fake.counts().runs, 2);
  EXPECT_EQ(fake.counts().submits, 5);
}

TEST(SpoolUpload, AnUnknownTaskWaitsAndHoldsNobodyUp) {
  test::FakeNode fake({});
  Spooling device(fake);
  std::vector<std::string> files;
  for (std::uint32_t i = 0; i < 6; ++i) files.push_back(device.picture(std::to_string(i) + ".ppm", 20, i));
  device.add(files, "no-such-task");  // older, and more than there are places
  device.add({device.picture("good.ppm", 30, 9)});
  device.options.spool.until_empty = false;
  {
    const StopWhen stop([&fake] { return fake.wait_for_acks(1); });
    EXPECT_EQ(device.run(), 0);
  }
  EXPECT_EQ(device.answers().size(), 1U);
  EXPECT_EQ(device.ids().size(), 6U);
  EXPECT_NE(device.console.err.find("unknown_task"), std::string::npos) << device.console.err;
}

/// A node that allows a device eight connections at once.
class EightAtOnce final : public plugin::Transport {
 public:
  explicit EightAtOnce(std::string node) : node_(std::move(node)) {}
  std::string_view scheme() const override { return "tcp"; }
  Outcome<plugin::Listening> listen(std::string_view url) override { return tcp_.listen(url); }
  Outcome<plugin::Connection> accept(int listening) override { return tcp_.accept(listening); }
  Outcome<plugin::Connection> connect(std::string_view url, Instant deadline) override {
    if (url != node_) return tcp_.connect(url, deadline);
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const auto& each) { return inode_of(each.first) != each.second; });
    if (open_.size() >= 8) return Error{Errc::unreachable, "this device has 8 connections, its limit"};
    Outcome<plugin::Connection> made = tcp_.connect(url, deadline);
    if (made) open_[made.value().descriptor] = inode_of(made.value().descriptor);
    return made;
  }

 private:
  static ino_t inode_of(int descriptor) {
    struct stat status {};
    return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
  }
  std::string node_;
  transport_tcp::TcpTransport tcp_;
  std::mutex mutex_;
  std::map<int, ino_t> open_;
};

TEST(SpoolUpload, MoreTasksThanANodeAllowsConnectionsTakeTurns) {
  test::FakeScript script;
  script.task.clear();  // own steps
  test::FakeNode fake(script);
  Spooling device(fake);
  const std::string picture = device.picture("a.ppm", 20, 1);
  for (int i = 0; i < 12; ++i) {
    const std::string model = "model-" + std::to_string(i);
    const std::string steps = device.scratch.file(
        model + ".toml", "[[step]]\nname = \"s\"\nmodel = \"" + model +
                             "\"\ninputs.image = \"request.image\"\n[result]\nlabel = \"s.label\"\n");
    SpoolOptions adding = device.options.spool;
    adding.request.steps_file = steps;
    adding.files = {picture};
    StringConsole quiet;
    ASSERT_EQ(run_spool_add(adding, quiet), 0) << quiet.err;
  }
  device.options.spool.until_empty = false;
  EightAtOnce transport(fake.node_url());
  {
    const StopWhen stop([&fake] { return fake.acks() >= 12; });
    EXPECT_EQ(run_spooled(device.options, device.settings, transport, device.console), 0);
  }
  EXPECT_EQ(device.answers().size(), 12U) << device.console.err;
  EXPECT_TRUE(device.ids().empty());
}

TEST(SpoolUpload, WhatIsTooOldIsAnsweredWithoutBeingSent) {
  test::FakeNode fake({});
  Spooling device(fake);
  device.options.spool.request.max_age = milliseconds(1);
  device.add({device.picture("a.ppm", 30, 1)});
  const Instant aged = Clock::now() + milliseconds(5);
  while (Clock::now() < aged) std::this_thread::yield();
  EXPECT_EQ(device.run(), 0);
  fake.stop();
  EXPECT_EQ(fake.counts().submits, 0);
  ASSERT_EQ(device.answers().size(), 1U);
  EXPECT_EQ(error_name(device.answers()[0]), "deadline_exceeded");
}

TEST(SpoolUpload, ADamagedItemIsAnsweredAsThat) {
  test::FakeNode fake({});
  Spooling device(fake);
  device.add({device.picture("a.ppm", 30, 1)});
  for (const auto& entry : fs::directory_iterator(device.options.spool.folder)) {
    if (entry.path().extension() != ".bin") continue;
    const auto size = fs::file_size(entry.path());
    fs::resize_file(entry.path(), 10);
    fs::resize_file(entry.path(), size);
  }
  EXPECT_EQ(device.run(), 0);
  fake.stop();
  EXPECT_EQ(fake.counts().submits, 0);
  ASSERT_EQ(device.answers().size(), 1U);
  EXPECT_EQ(error_name(device.answers()[0]), "corrupt_data");
}

TEST(SpoolUpload, TheRateHoldsOverAllUploadsTogether) {
  test::FakeNode fake({});
  Spooling device(fake);
  for (std::uint32_t i = 0; i < 3; ++i)
    device.add({device.picture(std::to_string(i) + ".ppm", 200, i)});  // 120,000 each
  device.options.spool.max_rate = 600'000;
  const Instant from = Clock::now();
  EXPECT_EQ(device.run(), 0);
  // 360,000 bytes; the last piece, a quarter of a second's worth at most, needs not wait for its own time.
  EXPECT_GE(elapsed(from, Clock::now()), milliseconds(350));
  fake.stop();
  EXPECT_EQ(fake.counts().runs, 3);
  EXPECT_EQ(fake.counts().bad_chunks, 0);
  EXPECT_EQ(fake.counts().upload_bytes, 360'000U);
}

TEST(SpoolUpload, BeginningsAreSpreadOverTheMinute) {
  test::FakeNode fake({});
  Spooling device(fake);
  for (std::uint32_t i = 0; i < 4; ++i) device.add({device.picture(std::to_string(i) + ".ppm", 10, i)});
  device.options.spool.max_per_minute = 600;  // one in 100 ms
  const Instant from = Clock::now();
  EXPECT_EQ(device.run(), 0);
  EXPECT_GE(elapsed(from, Clock::now()), milliseconds(300));
  EXPECT_EQ(device.answers().size(), 4U);
}

TEST(SpoolUpload, TwoCannotSendFromOneSpool) {
  test::FakeNode fake({});
  Spooling device(fake);
  const auto spool = Spool::open(device.options.spool.folder, {}).value();
  const auto sending = spool->lock_for_sending();
  ASSERT_TRUE(sending);
  EXPECT_EQ(device.run(), 1);
  EXPECT_NE(device.console.err.find("another process"), std::string::npos) << device.console.err;
}

TEST(SpoolCommand, WhereNoSpoolIsThatIsSaidAndNoneIsMade) {
  test::FakeNode fake({});
  Spooling device(fake);
  StringConsole console;
  EXPECT_EQ(run_spool_list(device.options.spool, console), 1);
  device.options.spool.all = true;
  EXPECT_EQ(run_spool_drop(device.options.spool, console), 1);
  EXPECT_NE(console.err.find("no spool"), std::string::npos) << console.err;
  EXPECT_FALSE(fs::exists(device.options.spool.folder));
}

TEST(SpoolCommand, AddListDrop) {
  test::FakeNode fake({});
  Spooling device(fake);
  const std::string bad = device.scratch.file("bad.jpg", "no picture");
  SpoolOptions adding = device.options.spool;
  adding.request.task = "echo";
  adding.files = {bad, device.picture("a.ppm", 10, 1)};
  adding.json = true;
  StringConsole console;
  EXPECT_EQ(run_spool_add(adding, console), 1);
  const auto lines = Spooling::lines_of(console.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(error_name(lines[0]), "bad_picture");
  const std::string id(lines[1].at("request").as_string());
  EXPECT_EQ(device.ids(), std::set<std::string>{id});
  SpoolOptions dropping = device.options.spool;
  dropping.ids = {id};
  EXPECT_EQ(run_spool_drop(dropping, console), 0);
  EXPECT_EQ(run_spool_drop(dropping, console), 1);
  EXPECT_TRUE(device.ids().empty());
}

}  // namespace
}  // namespace gearbox::client
