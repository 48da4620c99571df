#include "outbox.hpp"

#include <gtest/gtest.h>

#include "gearbox/link/keys.hpp"
#include "pictures.hpp"
#include "rate_limit.hpp"
#include "spool_item.hpp"

namespace gearbox::client {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// As to_json(Report) begins it; spool_upload_test.cpp has whole ones.
std::string line_for(const RequestId& id, const std::string& escaped_file) {
  return "{\"file\":\"" + escaped_file + "\",\"ok\":true,\"request\":\"" + to_text(id) + "\",\"task\":\"echo\"}";
}

TEST(Outbox, KnowsWhatIsAnsweredAndTakesBackACutLine) {
  const ScratchFolder scratch;
  const Outbox outbox(scratch.path() / "answers.jsonl");
  const RequestId one = link::random_request_id();
  const RequestId two = link::random_request_id();
  const RequestId three = link::random_request_id();
  EXPECT_TRUE(outbox.answered({one}).value().empty());
  EXPECT_FALSE(std::filesystem::exists(outbox.file()));
  ASSERT_TRUE(outbox.append(line_for(one, "a.jpg")));
  // A name that looks like an id's place.
  ASSERT_TRUE(outbox.append(line_for(two, R"(\"request\":\")" + to_text(three) + R"(\")")));
  const std::string whole = content(outbox.file());
  const std::string cut = line_for(three, "c.jpg");
  for (const std::string& tail : {cut, cut.substr(0, 20), std::string(300, '\0')}) {
    std::ofstream(outbox.file(), std::ios::binary) << whole << tail;
    EXPECT_EQ(outbox.answered({one, two, three}).value(), (std::set<RequestId>{one, two}));
    EXPECT_EQ(content(outbox.file()), whole);
  }
  EXPECT_EQ(outbox.answered({two}).value(), (std::set<RequestId>{two}));
}

TEST(Outbox, ManyLongLinesAreReadInPieces) {
  const ScratchFolder scratch;
  const Outbox outbox(scratch.path() / "answers.jsonl");
  std::set<RequestId> ids;
  for (int i = 0; i < 40; ++i) {
    const RequestId id = link::random_request_id();
    ids.insert(id);
    ASSERT_TRUE(outbox.append(line_for(id, "a") + std::string(100'000, ' ')));
  }
  EXPECT_EQ(outbox.answered(ids).value(), ids);
}

TEST(Outbox, MayBeRenamedAtAnyTime) {
  const ScratchFolder scratch;
  const Outbox outbox(scratch.path() / "answers.jsonl");
  ASSERT_TRUE(outbox.append("1"));
  std::filesystem::rename(outbox.file(), scratch.path() / "old");
  ASSERT_TRUE(outbox.append("2"));
  EXPECT_EQ(content(outbox.file()), "2\n");
  EXPECT_EQ(content(scratch.path() / "old"), "1\n");
}

TEST(Outbox, SaysWhenItCannotWrite) {
  const Outcome<void> full = Outbox("/dev/full").append("x");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::no_space);
  const Outcome<void> nowhere = Outbox("/nowhere/at/all").append("x");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Errc::io_error);
}

TEST(RateLimit, SpreadsAndNeverCatchesUp) {
  RateLimit rate(1'000, seconds(1));
  const Instant start{seconds(100)};
  EXPECT_EQ(rate.take(500, start), start);
  EXPECT_EQ(rate.take(500, start), start + milliseconds(500));
  EXPECT_EQ(rate.take(1'000, start + milliseconds(600)), start + seconds(1));
  // Ten idle seconds are lost, not saved for a burst.
  EXPECT_EQ(rate.take(2'000, start + seconds(12)), start + seconds(12));
  EXPECT_EQ(rate.take(1, start + seconds(12)), start + seconds(14));
  RateLimit none(0, seconds(1));
  EXPECT_EQ(none.take(1 << 30, start), start);
  EXPECT_EQ(none.take(1 << 30, start), start);
}

TEST(SpoolItem, AgesWithinABootOnly) {
  EXPECT_EQ(between({"a", 1'000}, {"a", 3'500}), milliseconds(2'500));
  EXPECT_EQ(between({"a", 1'000}, {"b", 3'500}), std::nullopt);
  EXPECT_EQ(between({"a", 1'000}, {"a", 500}), std::nullopt);
  const BootTime now = boot_now();
  EXPECT_FALSE(now.boot.empty());
  EXPECT_GT(now.ms, 0);
}

}  // namespace
}  // namespace gearbox::client
