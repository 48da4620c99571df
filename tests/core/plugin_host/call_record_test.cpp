#include "plugin_host/call_record.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "core/plugin_host/scratch_folder.hpp"
#include "plugin_host/call_record_layout.hpp"

namespace gearbox::plugin_host {
namespace {

CallRecord::Label label_of(char digit) {
  return CallRecord::label("balancer", std::string("plugin-") + digit, std::string("1.") + digit,
                           std::string(64, digit));
}

class CallRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto created = CallRecord::create(file);
    ASSERT_TRUE(created) << created.error().detail;
    record = std::move(created).value();
  }
  std::vector<CallBeing> calls() {
    auto found = calls_under_way(file);
    EXPECT_TRUE(found) << (found ? "" : found.error().detail);
    return found ? std::move(found).value() : std::vector<CallBeing>();
  }
  /// The file as it is, with `bytes` at `offset`, in a file of its own.
  fs::path altered(std::size_t offset, std::string_view bytes) {
    std::string content = content_of(file);
    content.replace(offset, bytes.size(), bytes);
    return write_file(folder / "altered", content);
  }
  ScratchFolder folder;
  fs::path file = folder / "node.calling";
  std::shared_ptr<CallRecord> record;
  const Instant begun = Clock::now();
};

TEST_F(CallRecordTest, ShowsACallAsLongAsItIsUnderWay) {
  EXPECT_TRUE(calls().empty());
  {
    const CallRecord::Mark mark(*record, label_of('a'), "pick", begun, after(begun, seconds(10)));
    const auto found = calls();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].kind, "balancer");
    EXPECT_EQ(found[0].name, "plugin-a");
    EXPECT_EQ(found[0].version, "1.a");
    EXPECT_EQ(found[0].checksum, std::string(64, 'a'));
    EXPECT_EQ(found[0].function, "pick");
    EXPECT_EQ(found[0].begun, begun);
    EXPECT_EQ(found[0].hung_after, after(begun, seconds(10)));
  }
  EXPECT_TRUE(calls().empty());
}

TEST_F(CallRecordTest, GivesTheCallThatBeganLastFirst) {
  const CallRecord::Mark middle(*record, label_of('b'), "encode", begun - seconds(2), Instant::max());
  const CallRecord::Mark newest(*record, label_of('c'), "pick", begun - seconds(1), Instant::max());
  const CallRecord::Mark oldest(*record, label_of('a'), "connect", begun - seconds(3), Instant::max());
  const auto found = calls();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "plugin-c");
  EXPECT_EQ(found[1].name, "plugin-b");
  EXPECT_EQ(found[2].name, "plugin-a");
  EXPECT_EQ(found[0].hung_after, Instant::max());
}

TEST_F(CallRecordTest, TellsTwoCallsOfOnePlaceApart) {
  std::vector<CallBeing> first;
  {
    const CallRecord::Mark mark(*record, label_of('a'), "pick", begun, Instant::max());
    first = calls();
  }
  const CallRecord::Mark mark(*record, label_of('a'), "pick", begun, Instant::max());
  const auto second = calls();
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].place, second[0].place);
  EXPECT_NE(first[0].turn, second[0].turn);
}

TEST_F(CallRecordTest, CallsPastTheLastPlaceGoUnrecorded) {
  std::vector<std::unique_ptr<CallRecord::Mark>> marks;
  for (std::size_t i = 0; i < kCallPlaces + 5; ++i) {
    marks.push_back(std::make_unique<CallRecord::Mark>(*record, label_of('a'), "pick", begun, Instant::max()));
  }
  EXPECT_EQ(calls().size(), kCallPlaces);
  marks.clear();
  EXPECT_TRUE(calls().empty());
  const CallRecord::Mark mark(*record, label_of('b'), "pick", begun, Instant::max());
  EXPECT_EQ(calls().size(), 1U);
}

TEST_F(CallRecordTest, CutsLongTexts) {
  const auto label =
      CallRecord::label(std::string(100, 'k'), std::string(100, 'n'), std::string(100, 'v'), std::string(100, 'c'));
  const std::string function(100, 'f');
  const CallRecord::Mark mark(*record, label, function.c_str(), begun, Instant::max());
  const auto found = calls();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, std::string(32, 'k'));
  EXPECT_EQ(found[0].name, std::string(64, 'n'));
  EXPECT_EQ(found[0].version, std::string(32, 'v'));
  EXPECT_EQ(found[0].function, std::string(32, 'f'));
}

TEST_F(CallRecordTest, AnUnrecordedOneTakesCallsAndShowsNone) {
  const auto silent = CallRecord::unrecorded();
  const CallRecord::Mark mark(*silent, label_of('a'), "pick", begun, Instant::max());
  EXPECT_TRUE(calls().empty());
}

TEST_F(CallRecordTest, IsForItsUserAlone) {
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_GE(info.st_blocks * 512,
            static_cast<blkcnt_t>(sizeof(CallFile)));  // no hole that a full disk could turn into SIGBUS
}

TEST_F(CallRecordTest, IsMadeAnewAndRemovedOnlyByItsOwner) {
  std::shared_ptr<CallRecord> second;
  {
    const CallRecord::Mark mark(*record, label_of('a'), "pick", begun, Instant::max());
    ASSERT_EQ(calls().size(), 1U);
    auto created = CallRecord::create(file);
    ASSERT_TRUE(created);
    second = std::move(created).value();
    EXPECT_TRUE(calls().empty());
  }
  record.reset();
  EXPECT_TRUE(fs::exists(file));
  second.reset();
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(CallRecordTest, OutlivesAProcessThatWasKilledInACall) {
  const fs::path theirs = folder / "killed.calling";
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    auto own = CallRecord::create(theirs);
    if (!own) ::_exit(1);
    const CallRecord::Mark mark(*own.value(), label_of('d'), "decode", Clock::now(), Instant::max());
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto found = calls_under_way(theirs);
  ASSERT_TRUE(found);
  ASSERT_EQ(found.value().size(), 1U);
  EXPECT_EQ(found.value()[0].function, "decode");
}

TEST_F(CallRecordTest, AFileThatIsNoneIsToldSo) {
  EXPECT_EQ(calls_under_way(folder / "none").error().code, Errc::not_found);
  const std::string whole = content_of(file);
  for (const std::string& content : {std::string(), whole.substr(0, 100), whole.substr(0, whole.size() - 1),
                                     whole + "x", std::string(whole.size(), '\0'), std::string(whole.size(), '\xff')}) {
    const auto found = calls_under_way(write_file(folder / "altered", content));
    ASSERT_FALSE(found) << content.size();
    EXPECT_EQ(found.error().code, Errc::corrupt_data);
  }
  for (const std::size_t offset : {offsetof(CallFile, magic), offsetof(CallFile, layout), offsetof(CallFile, places),
                                   offsetof(CallFile, place_bytes)}) {
    EXPECT_FALSE(calls_under_way(altered(offset, "\x07"))) << offset;
  }
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(calls_under_way(folder / "fifo").error().code, Errc::corrupt_data);
  fs::create_symlink(file, folder / "link");
  EXPECT_EQ(calls_under_way(folder / "link").error().code, Errc::corrupt_data);
  EXPECT_EQ(calls_under_way(folder.path()).error().code, Errc::corrupt_data);
}

TEST_F(CallRecordTest, APlaceThatMakesNoSenseIsLeftOut) {
  const CallRecord::Mark mark(*record, label_of('a'), "pick", begun, after(begun, seconds(1)));
  const std::size_t at = offsetof(CallFile, place) + calls().at(0).place * sizeof(CallPlace);
  const std::size_t label = at + offsetof(CallPlace, text);
  const auto calls_in = [](const fs::path& from) {
    const auto found = calls_under_way(from);
    return found ? found.value().size() : 99;
  };
  ASSERT_EQ(calls_in(altered(label, "balancer")), 1U);
  EXPECT_EQ(calls_in(altered(label, "bal\nncer")), 0U);
  EXPECT_EQ(calls_in(altered(label, std::string(32, '\xff'))), 0U);
  EXPECT_EQ(calls_in(altered(label + offsetof(CallRecord::Label, name), "../../x")), 0U);
  EXPECT_EQ(calls_in(altered(label + offsetof(CallRecord::Label, checksum), "A")), 0U);
  EXPECT_EQ(calls_in(altered(label + sizeof(CallRecord::Label), std::string(kFunctionBytes, '\0'))), 0U);
  const std::string future =
      std::string(6, '\xff') + '\x7f' + '\0' + std::string(7, '\xff') + '\x7f';  // and never hung
  EXPECT_EQ(calls_in(altered(at + offsetof(CallPlace, begun_ns), future)), 0U);
  EXPECT_EQ(calls_in(altered(at + offsetof(CallPlace, begun_ns), std::string(8, '\xff'))), 0U);  // negative
  EXPECT_EQ(calls_in(altered(at + offsetof(CallPlace, hung_after_ns), std::string(8, '\0'))),
            0U);                                 // over before it began
  EXPECT_EQ(calls_in(altered(at, "\x01")), 0U);  // still being claimed
}

TEST_F(CallRecordTest, AnyBytesAreReadWithoutHarm) {
  const CallRecord::Mark one(*record, label_of('a'), "pick", begun, Instant::max());
  const CallRecord::Mark two(*record, label_of('b'), "encode", begun, Instant::max());
  const std::string whole = content_of(file);
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string content = whole;
    for (int i = 0; i < 40; ++i) content[64 + random() % (whole.size() - 64)] = static_cast<char>(random());
    for (std::size_t place = 0; place < kCallPlaces; ++place) content[64 + place * sizeof(CallPlace)] = '\x02';
    const auto found = calls_under_way(write_file(folder / "altered", content));
    ASSERT_TRUE(found);
    for (const CallBeing& call : found.value()) {
      EXPECT_EQ(call.checksum.size(), 64U);
      EXPECT_EQ(call.version.find('\x1b'), std::string::npos);
      EXPECT_LE(call.begun, call.hung_after);
    }
  }
}

TEST_F(CallRecordTest, AReaderNeverSeesAMixtureOfTwoCalls) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const CallRecord::Label own[] = {label_of(static_cast<char>('0' + thread)),
                                       label_of(static_cast<char>('a' + thread))};
      const char* functions[] = {"pick", "encode"};
      for (unsigned i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        const CallRecord::Mark mark(*record, own[i % 2], functions[i % 2], begun, Instant::max());
      }
    });
  }
  std::size_t seen = 0;
  std::size_t mixed = 0;
  const Instant deadline = after(Clock::now(), seconds(20));
  while (seen < 5000 && Clock::now() < deadline) {
    for (const CallBeing& call : calls()) {
      ++seen;
      const char digit = call.name.back();
      const std::string function = digit >= 'a' ? "encode" : "pick";
      if (call.checksum != std::string(64, digit) || call.version.back() != digit || call.function != function) ++mixed;
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixed, 0U);
  EXPECT_GT(seen, 0U);
  EXPECT_TRUE(calls().empty());
}

}  // namespace
}  // namespace gearbox::plugin_host
