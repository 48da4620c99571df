#include "explain/book.hpp"

#include <gtest/gtest.h>

namespace gearbox::explain {
namespace {

RequestKey key_of(unsigned number, unsigned device = 1) {
  RequestKey key;
  key.id.bytes[0] = std::byte{0xAB};
  key.id.bytes[1] = std::byte{static_cast<unsigned char>(number >> 8)};
  key.id.bytes[2] = std::byte{static_cast<unsigned char>(number)};
  key.device.bytes[0] = std::byte{static_cast<unsigned char>(device)};
  return key;
}

Call call_of(std::uint32_t item, milliseconds took, Errc error = Errc{}) {
  Call call;
  call.item = item;
  call.submitted = Instant{} + seconds(1);
  call.ended = call.submitted + took;
  call.error = error;
  return call;
}

std::vector<std::uint32_t> items_of(const std::vector<Call>& calls) {
  std::vector<std::uint32_t> items;
  for (const Call& call : calls) items.push_back(call.item);
  return items;
}

TEST(ExplainBook, RemembersTheLastOnesOnly) {
  Book book(3);
  for (unsigned i = 1; i <= 5; ++i) book.end(*book.begin(key_of(i)));
  EXPECT_EQ(book.size(), 3U);
  EXPECT_EQ(book.find(to_text(key_of(2).id)).error().code, Errc::not_found);
  EXPECT_EQ(book.find(to_text(key_of(3).id)).value()->key, key_of(3));
  EXPECT_EQ(book.find("ab0005").value()->key, key_of(5));
}

TEST(ExplainBook, ALimitOfZeroRemembersNothingAndSaysSo) {
  Book book(2);
  const TracePtr open = book.begin(key_of(1));
  book.limit(0);
  EXPECT_EQ(book.begin(key_of(2)), nullptr);
  book.end(*open);  // it ended after it was forgotten
  EXPECT_EQ(book.size(), 0U);
  EXPECT_EQ(book.bytes(), 0U);
  const auto found = book.find("ab0001");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().detail.find("explain_requests is 0"), std::string::npos) << found.error().detail;
}

TEST(ExplainBook, AnAmbiguousPrefixIsRefusedAndTheSameIdMeansTheLatest) {
  Book book(10);
  book.begin(key_of(1));
  book.begin(key_of(2));
  const TracePtr again = book.begin(key_of(2, 7));
  EXPECT_EQ(book.find("ab00").error().code, Errc::bad_input);
  EXPECT_EQ(book.find("ab0002").value(), again);
  for (const char* bad : {"ab0", "AB0001", "xyz0", "", "ab000100000000000000000000000000f"}) {
    EXPECT_EQ(book.find(bad).error().code, Errc::bad_input) << bad;
  }
}

TEST(ExplainBook, IsBoundedInBytes) {
  Book book(1'000'000);
  for (unsigned i = 0; i < 2000; ++i) {
    const TracePtr trace = book.begin(key_of(i));
    trace->reason = std::string(20'000, 'x');
    book.end(*trace);
    ASSERT_LE(book.bytes(), Book::kMaxBytes);
  }
  EXPECT_LT(book.size(), 450U);
  EXPECT_GT(book.size(), 350U);
}

TEST(ExplainStep, KeepsTheFirstAndTheSlowestCallsAndCountsTheRest) {
  Step step;
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < 4096; ++i) step.add(call_of(i, milliseconds(i == 1000 ? 9000 : i % 100)), bytes);
  EXPECT_EQ(step.answered, 4096U);
  EXPECT_EQ(items_of(step.first), (std::vector<std::uint32_t>{0, 1}));
  ASSERT_EQ(step.slowest.size(), kSlowestCalls);
  EXPECT_EQ(step.slowest[0].item, 1000U);
  EXPECT_EQ(step.slowest[1].item % 100, 99U);
  EXPECT_EQ(step.longest_queue, milliseconds(9000));
  EXPECT_LT(bytes, 4096U);
}

TEST(ExplainStep, AFailedCallGoesBeforeSlowOnes) {
  Step step;
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < 100; ++i) step.add(call_of(i, milliseconds(100)), bytes);
  step.add(call_of(100, milliseconds(1), Errc::model_failed), bytes);
  step.add(call_of(101, milliseconds(500)), bytes);
  EXPECT_EQ(step.slowest.front().item, 100U);
  EXPECT_EQ(step.slowest[1].item, 101U);
  EXPECT_EQ(step.failed, 1U);
}

TEST(ExplainStep, BeyondItsBytesATraceKeepsTheFirstCallOnly) {
  Trace trace;
  trace.kept_bytes = kTraceBytes;
  Step& step = trace.steps.emplace_back();
  for (std::uint32_t i = 0; i < 10; ++i) step.add(call_of(i, milliseconds(i)), trace.kept_bytes);
  step.add_open(call_of(10, milliseconds(0)), trace.kept_bytes);
  EXPECT_EQ(items_of(step.first), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(step.slowest.empty());
  EXPECT_TRUE(step.still_open.empty());
  EXPECT_EQ(step.answered + step.open, 11U);
}

TEST(ExplainCall, KeepsTheFirstPicksAndTheLast) {
  Call call;
  for (std::uint32_t i = 0; i < 10; ++i) {
    Pick pick;
    pick.attempt = i;
    call.add(std::move(pick));
  }
  ASSERT_EQ(call.picks.size(), kPicks);
  EXPECT_EQ(call.picks.front().attempt, 0U);
  EXPECT_EQ(call.picks.back().attempt, 9U);
  EXPECT_EQ(call.picks_left_out, 6U);
}

}  // namespace
}  // namespace gearbox::explain
