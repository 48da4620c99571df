// What the node remembers of requests: who could have had each call, who got it, and why it went as it did.
#include "core/session/node_fixture.hpp"
#include "explain/book.hpp"

namespace gearbox::session {
namespace {

using explain::Standing;
using wire::FrameType;

class Explains : public NodeFixture {
 protected:
  explain::Trace trace_of(unsigned char number) {
    const auto found = book_.find(to_text(id_of(number)));
    EXPECT_TRUE(found) << describe(found.error());
    return found ? requests_->as_of_now(*found.value()) : explain::Trace{};
  }
  void send_inline(const DevicePtr& device, const std::string& task, unsigned char number,
                   std::uint32_t remaining_ms = wire::kNoDeadline) {
    const Bytes bytes = some_bytes(10);
    send(device, FrameType::submit, id_of(number), submit_of(task, bytes), bytes, 0, wire::kInlinePayload,
         remaining_ms);
  }
  static const explain::Seen* seen(const explain::Pick& pick, WorkerId worker) {
    for (const explain::Seen& each : pick.seen) {
      if (each.worker == worker) return &each;
    }
    return nullptr;
  }
};

TEST_F(Explains, ARequestThatWentWell) {
  start({"echo", "echo"});
  const DevicePtr device = log_in();
  dispatcher_->use(std::make_shared<FirstOne>(),
                   std::make_shared<const explain::Chooser>(explain::Chooser{"first", "3.1", "abc"}));
  const wire::Frame frame = ask(device, "echo", some_bytes(1000), id_of(1));
  ASSERT_EQ(frame.header.type, FrameType::result);
  send(device, FrameType::result_ack, id_of(1), {});
  ASSERT_TRUE(until([&] { return trace_of(1).acknowledged != Instant{}; }));
  const explain::Trace trace = trace_of(1);
  EXPECT_TRUE(trace.over);
  EXPECT_EQ(trace.error, Errc{});
  EXPECT_LE(trace.arrived, trace.admitted);
  EXPECT_LE(trace.admitted, trace.verified);
  EXPECT_LE(trace.verified, trace.ready);
  EXPECT_LE(trace.ready, trace.sent);
  EXPECT_EQ(trace.plain_bytes, 1000U);
  EXPECT_EQ(trace.result_bytes, 1000U);
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].version, "1");
  ASSERT_EQ(trace.steps[0].first.size(), 1U);
  const explain::Call& call = trace.steps[0].first[0];
  EXPECT_EQ(call.attempts, 1U);
  EXPECT_EQ(call.batch, 1U);
  ASSERT_EQ(call.picks.size(), 1U);
  const explain::Pick& pick = call.picks[0];
  ASSERT_TRUE(pick.chooser);
  EXPECT_EQ(pick.chooser->version, "3.1");
  ASSERT_EQ(pick.seen.size(), 2U);
  ASSERT_TRUE(pick.chosen);
  EXPECT_EQ(*pick.chosen, pick.seen[0].worker);
  EXPECT_EQ(pick.seen[0].pid, pool_->workers()[0].pid);
  EXPECT_EQ(pick.seen[1].slot, 2U);
}

TEST_F(Explains, ADeadWorkerTheRetryAndWhoWasLeftOut) {
  start({"die", "die", "echo"});
  const Error error = error_of(ask(log_in(), "die", some_bytes(10), id_of(1)));
  EXPECT_EQ(error.code, Errc::quarantined);
  const explain::Trace trace = trace_of(1);
  EXPECT_EQ(trace.error, Errc::quarantined);
  ASSERT_EQ(trace.steps.at(0).first.size(), 1U);
  const explain::Call& call = trace.steps[0].first[0];
  EXPECT_EQ(call.attempts, 2U);
  EXPECT_EQ(trace.steps[0].retried, 1U);
  EXPECT_EQ(trace.steps[0].failed, 1U);
  std::vector<const explain::Pick*> handed;
  for (const explain::Pick& pick : call.picks) {
    if (pick.chosen) handed.push_back(&pick);
  }
  ASSERT_EQ(handed.size(), 2U);
  for (const explain::Pick* pick : handed) {
    EXPECT_EQ(pick->error, Errc::worker_lost);
    EXPECT_TRUE(pick->begun);
    EXPECT_FALSE(pick->reason.empty());
    EXPECT_LE(pick->at, pick->ended);
  }
  EXPECT_NE(*handed[0]->chosen, *handed[1]->chosen);
  // At the second one the first worker is no candidate, and it is said why.
  EXPECT_EQ(seen(*handed[1], *handed[0]->chosen), nullptr);
  ASSERT_FALSE(handed[1]->others->workers.empty());
  EXPECT_NE(handed[1]->others->workers[0].seen.standing, Standing::candidate);
}

TEST_F(Explains, AFullWorkerIsExcludedAndACallThatWaitsSaysWhy) {
  for (model::Record& record : config_.models) record.max_output_bytes = 1000;
  start({"hang"});
  const DevicePtr device = log_in();
  const std::uint32_t capacity = pool_->workers()[0].capacity;
  const auto last = static_cast<unsigned char>(capacity + 1);
  for (unsigned char i = 1; i <= last; ++i) send_inline(device, "hang", i, i == last ? 300 : wire::kNoDeadline);
  ASSERT_TRUE(until([&] { return dispatcher_->load()["hang"].queued == 1; }));
  const auto check = [&](const explain::Trace& trace) {
    ASSERT_EQ(trace.steps.at(0).still_open.size(), 1U);
    const explain::Call& call = trace.steps[0].still_open[0];
    ASSERT_EQ(call.picks.size(), 1U);
    EXPECT_FALSE(call.picks[0].chosen);
    ASSERT_EQ(call.picks[0].seen.size(), 1U);
    EXPECT_EQ(call.picks[0].seen[0].standing, Standing::full);
    EXPECT_EQ(call.picks[0].seen[0].queued, capacity - 1);
  };
  check(trace_of(last));  // while it waits
  EXPECT_EQ(error_of(next_final(device)).code, Errc::deadline_exceeded);
  EXPECT_TRUE(trace_of(last).over);
  check(trace_of(last));  // and after that
  const auto running = trace_of(1);
  EXPECT_FALSE(running.over);
  EXPECT_EQ(running.steps.at(0).still_open.at(0).attempts, 1U);
}

TEST_F(Explains, ACallThatRanUntilTheDeadlineTellsHowLongItHadBeenThere) {
  start({"hang"});
  const DevicePtr device = log_in();
  send_inline(device, "hang", 1, 400);
  EXPECT_EQ(error_of(next_final(device)).code, Errc::deadline_exceeded);
  const explain::Trace trace = trace_of(1);
  ASSERT_TRUE(trace.over);
  const explain::Step& step = trace.steps.at(0);
  ASSERT_EQ(step.still_open.size(), 1U);
  const explain::Call& call = step.still_open[0];
  const microseconds there = call.been_there(trace.ready);
  EXPECT_EQ(there, elapsed(step.open_since, trace.ready));
  EXPECT_GT(there, milliseconds(100));  // of the 400, a slow machine may take some before it gets there
  EXPECT_LE(call.waited_at_node(trace.ready) + there, elapsed(trace.arrived, trace.ready));
}

TEST_F(Explains, AForEachOfManyCallsKeepsFew) {
  start({"split", "echo", "echo"});
  ASSERT_EQ(ask(log_in(), "scatter", some_bytes(60), id_of(1)).header.type, FrameType::result);
  const explain::Trace trace = trace_of(1);
  ASSERT_EQ(trace.steps.size(), 2U);
  const explain::Step& each = trace.steps[1];
  EXPECT_TRUE(each.scattered);
  EXPECT_EQ(each.calls, 60U);
  EXPECT_EQ(each.answered, 60U);
  EXPECT_EQ(each.open, 0U);
  EXPECT_EQ(each.first.size(), explain::kFirstCalls);
  EXPECT_EQ(each.slowest.size(), explain::kSlowestCalls);
  EXPECT_NE(each.ended, Instant{});
  EXPECT_GT(book_.bytes(), 0U);
  EXPECT_LT(book_.bytes(), 16'000U);
}

TEST_F(Explains, TheVersionThatATaskNamesAndAnotherThatIsComing) {
  config_.tasks["echo"].steps[0].version = "1";
  start({"echo"});
  add_model("echo");
  config_.models.back().version = "2";
  config_.models.back().folder = folder_.path() / "echo@2";
  launcher_->habits["echo@2"] = "never_attach";
  config::TaskConfig& latest = add_task("latest", {{"run", "echo"}});
  latest.steps[0].version = "latest";
  reload();
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(10), id_of(1)).header.type, FrameType::result);
  ASSERT_EQ(ask(device, "latest", some_bytes(10), id_of(2)).header.type, FrameType::result);
  const explain::Step named = trace_of(1).steps.at(0);
  EXPECT_EQ(named.version + " of " + named.newest, "1 of 2");
  EXPECT_EQ(named.note, explain::VersionNote::exact);
  const explain::Step coming = trace_of(2).steps.at(0);
  EXPECT_EQ(coming.version + " of " + coming.newest, "1 of 2");
  EXPECT_EQ(coming.note, explain::VersionNote::coming);
  const auto& others = coming.first.at(0).picks.at(0).others->workers;
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].version, "2");
}

TEST_F(Explains, ABalancerThatChoosesNobodyIsNamed) {
  struct Nobody final : plugin::Balancer {
    Outcome<plugin::CandidateId> pick(const plugin::RequestView&, std::span<const plugin::CandidateView>,
                                      Instant) override {
      return plugin::CandidateId{4711};
    }
  };
  start({"echo"});
  dispatcher_->use(std::make_shared<Nobody>());
  ASSERT_EQ(ask(log_in(), "echo", some_bytes(10), id_of(1)).header.type, FrameType::result);
  EXPECT_TRUE(trace_of(1).steps.at(0).first.at(0).picks.at(0).stood_in);
}

TEST_F(Explains, NothingIsNotedWhenNothingIsRemembered) {
  start({"echo"});
  book_.limit(0);
  ASSERT_EQ(ask(log_in(), "echo", some_bytes(10), id_of(1)).header.type, FrameType::result);
  EXPECT_EQ(book_.find(to_text(id_of(1))).error().code, Errc::not_found);
}

}  // namespace
}  // namespace gearbox::session
