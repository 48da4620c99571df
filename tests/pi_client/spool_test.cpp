// The spool's folder: bounds, order, kills at any moment, damage, two processes.
#include "spool.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <random>
#include <set>

#include "homes.hpp"
#include "pictures.hpp"
#include "spool_fill.hpp"

namespace gearbox::client {
namespace {

namespace fs = std::filesystem;

Bytes bytes_of_text(const std::string& text) {
  const ByteView view = view_of(text);
  return Bytes(view.begin(), view.end());
}

class SpoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<Spool> open(SpoolLimits limits = {}) {
    Outcome<std::unique_ptr<Spool>> spool = Spool::open(scratch.path() / "spool", limits);
    if (!spool) {
      ADD_FAILURE() << describe(spool.error());
      std::abort();
    }
    return std::move(spool).value();
  }
  static Outcome<SpoolFill::Filled> add(Spool& spool, const std::string& name, const std::string& picture) {
    RequestOptions request;
    request.task = "echo";
    Outcome<SpoolFill> fill = SpoolFill::create(&spool, request);
    if (!fill) return fill.error();
    return fill.value().add(name, bytes_of_text(picture));
  }
  static std::vector<std::string> names(Spool& spool) {
    std::vector<std::string> found;
    for (const auto& each : listed(spool)) found.push_back(each->item.name);
    return found;
  }
  fs::path file_of(const std::string& end) const {
    for (const auto& entry : fs::directory_iterator(scratch.path() / "spool")) {
      const std::string name = entry.path().filename().string();
      if (name.size() > 40 && name.ends_with(end)) return entry.path();
    }
    return {};
  }
  ScratchFolder scratch;
};

TEST_F(SpoolTest, KeepsAnnouncementAndBytesOverARestart) {
  // A coded one and a stored one: the announcement must come back to the last word, and so must the tiles.
  for (const std::string& picture : {smooth_picture(1'200, 900), noise_picture(40, 40)}) {
    ScratchFolder folder;
    const Payload before = prepare(InputFile{"image", "a.ppm"}, bytes_of_text(picture), {}).value();
    RequestId id;
    {
      const auto spool = Spool::open(folder.path() / "s", {}).value();
      RequestOptions request;
      request.task = "echo";
      request.priority = 7;
      request.deadline = milliseconds(1'234);
      id = SpoolFill::create(spool.get(), request).value().add("a.ppm", bytes_of_text(picture)).value().id;
    }
    const auto spool = Spool::open(folder.path() / "s", {}).value();
    const auto items = spool->list().value();
    ASSERT_EQ(items.size(), 1U);
    EXPECT_EQ(items[0]->item.id, id);
    EXPECT_EQ(items[0]->item.priority, 7);
    EXPECT_EQ(items[0]->item.deadline, milliseconds(1'234));
    EXPECT_EQ(items[0]->item.submit.task, "echo");
    Payload after = spool->load(id).value();
    EXPECT_EQ(after.stored, before.stored);
    wire::Submit expected = before.submit;
    expected.task = "echo";
    EXPECT_EQ(wire::to_json(after.submit), wire::to_json(expected));
    while (!before.sender->finished()) {
      ASSERT_FALSE(after.sender->finished());
      const auto left = before.sender->next();
      const auto right = after.sender->next();
      ASSERT_EQ(left.offset, right.offset);
      ASSERT_TRUE(std::equal(left.bytes.begin(), left.bytes.end(), right.bytes.begin(), right.bytes.end()));
    }
    EXPECT_TRUE(after.sender->finished());
  }
}

TEST_F(SpoolTest, KeepAllRefusesTheNewcomerAndSaysSo) {
  const auto spool = open({SpoolPolicy::keep_all, 2, 1 << 20});
  ASSERT_TRUE(add(*spool, "1", noise_picture(10, 10, 1)));
  ASSERT_TRUE(add(*spool, "2", noise_picture(10, 10, 2)));
  const auto refused = add(*spool, "3", noise_picture(10, 10, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::no_space);
  EXPECT_NE(refused.error().detail.find("full"), std::string::npos) << refused.error().detail;
  EXPECT_EQ(names(*spool), (std::vector<std::string>{"1", "2"}));
}

TEST_F(SpoolTest, BytesAreBoundedToo) {
  const auto spool = open({SpoolPolicy::keep_all, 100, 40'000});
  ASSERT_TRUE(add(*spool, "1", noise_picture(100, 100, 1)));  // 30,000 bytes and its description
  const auto refused = add(*spool, "2", noise_picture(100, 100, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::no_space);
}

TEST_F(SpoolTest, DropOldestMakesRoomButNotByWhatIsBeingSent) {
  const auto spool = open({SpoolPolicy::drop_oldest, 3, 1 << 20});
  const RequestId first = add(*spool, "1", noise_picture(10, 10, 1)).value().id;
  ASSERT_TRUE(add(*spool, "2", noise_picture(10, 10, 2)));
  ASSERT_TRUE(add(*spool, "3", noise_picture(10, 10, 3)));
  spool->pin(first);
  const auto added = add(*spool, "4", noise_picture(10, 10, 4));
  ASSERT_TRUE(added);
  ASSERT_EQ(added.value().dropped.size(), 1U);
  EXPECT_EQ(added.value().dropped[0].item.name, "2");
  EXPECT_EQ(names(*spool), (std::vector<std::string>{"1", "3", "4"}));
  spool->unpin(first);
  ASSERT_TRUE(add(*spool, "5", noise_picture(10, 10, 5)));
  EXPECT_EQ(names(*spool), (std::vector<std::string>{"3", "4", "5"}));
}

TEST_F(SpoolTest, NewestOnlyReplacesAllThatWait) {
  const auto spool = open({SpoolPolicy::newest_only, 10, 1 << 20});
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(add(*spool, std::to_string(i), noise_picture(10, 10, 1)));
  EXPECT_EQ(names(*spool), (std::vector<std::string>{"3"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(spool->folder()), fs::directory_iterator()), 3);  // lock, .bin, .json
}

SpoolItem numbered(std::uint8_t number) {
  SpoolItem item;
  item.id = request_id_from(std::string(30, '0') + "0" + std::to_string(number)).value();
  item.name = std::to_string(number);
  item.submit.task = "echo";
  item.submit.wire_bytes = 1'000;
  return item;
}

/// A write to PATH.new finds the disk full, the first time.
void fill_disk_at(const fs::path& path) {
  fs::create_symlink("/dev/full", path.string() + ".new");
}

class FullDisk : public SpoolTest {
 protected:
  void SetUp() override {
    spool = open({SpoolPolicy::drop_oldest, 100, 1 << 20});
    for (std::uint8_t i = 1; i <= 5; ++i) ASSERT_TRUE(spool->add(numbered(i), Bytes(1'000)));
  }
  fs::path of_sixth(const std::string& end) const {
    return spool->folder() / ("00000000000006-" + to_text(numbered(6).id) + end);
  }
  Outcome<Spool::Added> add_sixth(std::size_t bytes) {
    SpoolItem item = numbered(6);
    item.submit.wire_bytes = bytes;
    return spool->add(item, Bytes(bytes));
  }
  std::unique_ptr<Spool> spool;
};

TEST_F(FullDisk, TheOldestGiveWayAsFarAsTheNewcomerNeedsIt) {
  fill_disk_at(of_sixth(".bin"));
  const auto added = add_sixth(2'000);
  ASSERT_TRUE(added) << describe(added.error());
  EXPECT_EQ(added.value().dropped.size(), 2U);
  EXPECT_EQ(names(*spool), (std::vector<std::string>{"3", "4", "5", "6"}));
}

TEST_F(FullDisk, NobodyGoesForWhatCannotHelp) {
  fill_disk_at(of_sixth(".bin"));
  const auto added = add_sixth(100'000);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::no_space);
  EXPECT_EQ(names(*spool).size(), 5U);
}

TEST_F(FullDisk, WhenThatHasNotHelpedNoMoreGoAndThoseThatWentAreNamed) {
  fill_disk_at(of_sixth(".bin"));
  fill_disk_at(of_sixth(".json"));  // met by the second try
  const auto added = add_sixth(2'000);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::no_space);
  EXPECT_NE(added.error().detail.find("in vain: 1 2"), std::string::npos) << added.error().detail;
  EXPECT_EQ(names(*spool), (std::vector<std::string>{"3", "4", "5"}));
}

TEST_F(SpoolTest, WhatANodeHasAcknowledgedDoesNotMakeRoomInAnyProcess) {
  for (const SpoolPolicy policy : {SpoolPolicy::drop_oldest, SpoolPolicy::newest_only}) {
    fs::remove_all(scratch.path() / "spool");
    const auto sends = open({policy, 2, 1 << 20});
    const auto other = open({policy, 2, 1 << 20});
    const std::string picture = noise_picture(10, 10, 1);
    const RequestId first = add(*sends, "1", picture).value().id;
    Homes homes(sends->homes_file());
    ASSERT_TRUE(homes.note(first, "barn", {}));
    ASSERT_TRUE(add(*other, "2", picture));
    const RequestId third = add(*other, "3", picture).value().id;
    EXPECT_EQ(names(*other), (std::vector<std::string>{"1", "3"}));
    ASSERT_TRUE(homes.note(third, "barn", {}));
    const auto refused = add(*other, "4", picture);
    ASSERT_FALSE(refused) << "the bound holds in any case";
    EXPECT_EQ(refused.error().code, Errc::no_space);
    ASSERT_TRUE(homes.note_lost(first, "barn"));
    ASSERT_TRUE(add(*other, "4", picture));
    EXPECT_EQ(names(*other), (std::vector<std::string>{"3", "4"}));
  }
}

TEST_F(SpoolTest, WhoPinsWaitsForNobodyAndAProcessThatHoldsTheSpoolIsNotWaitedForForEver) {
  SpoolLimits limits;
  limits.lock_within = milliseconds(300);
  const auto spool = open(limits);
  const auto held = lock_file(spool->folder() / "lock", milliseconds(0));
  ASSERT_TRUE(held);
  auto listed = std::async(std::launch::async, [&] { return spool->list(); });
  const Instant begun = Clock::now();
  while (Clock::now() < begun + milliseconds(100)) {
    spool->pin(numbered(1).id);
    spool->unpin(numbered(1).id);
  }
  EXPECT_EQ(listed.wait_for(milliseconds(0)), std::future_status::timeout) << "a pin has waited for the other process";
  const auto found = listed.get();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::overloaded);
  EXPECT_NE(found.error().detail.find("another process"), std::string::npos);
}

TEST_F(SpoolTest, AfterALookThatFailedItLooksAgain) {
  const auto spool = open();
  const auto other = open();
  ASSERT_TRUE(add(*other, "1", noise_picture(10, 10, 1)));
  const fs::path head = file_of(".json");
  const fs::path aside = scratch.path() / "aside.json";
  fs::rename(head, aside);
  fs::create_directory(head);  // cannot be read, and is not damage
  EXPECT_FALSE(spool->list());
  fs::remove(head);
  fs::rename(aside, head);
  EXPECT_EQ(names(*spool), (std::vector<std::string>{"1"}));
}

TEST_F(SpoolTest, TwoProcessesSeeEachOthersItems) {
  const auto one = open();
  const auto other = open();
  const RequestId id = add(*one, "1", noise_picture(10, 10, 1)).value().id;
  ASSERT_TRUE(add(*other, "2", noise_picture(10, 10, 2)));
  EXPECT_EQ(names(*one), (std::vector<std::string>{"1", "2"}));
  EXPECT_TRUE(other->remove(id).value());
  EXPECT_EQ(names(*one), (std::vector<std::string>{"2"}));
  EXPECT_FALSE(one->remove(id).value());
  const auto gone = one->load(id);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::not_found);
}

TEST_F(SpoolTest, OneSendsAtATime) {
  const auto one = open();
  const auto other = open();
  {
    const auto sending = one->lock_for_sending();
    ASSERT_TRUE(sending);
    ASSERT_FALSE(other->lock_for_sending());
    EXPECT_EQ(other->lock_for_sending().error().code, Errc::overloaded);
  }
  EXPECT_TRUE(other->lock_for_sending());
}

TEST_F(SpoolTest, DescriptionsThatAreCutOrZeroFilledAreSetAside) {
  const std::string whole = [&] {
    const auto spool = open();
    EXPECT_TRUE(add(*spool, "a.ppm", noise_picture(10, 10, 1)));
    std::ifstream in(file_of(".json"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  const fs::path head = file_of(".json");
  const fs::path body = file_of(".bin");
  const fs::path copy = scratch.path() / "copy.bin";
  fs::copy_file(body, copy);
  std::size_t refused = 0;
  for (std::size_t cut = 0; cut + 1 < whole.size(); cut += 7) {
    for (const bool zeroes : {false, true}) {
      fs::remove_all(scratch.path() / "spool/damaged");
      std::ofstream(head, std::ios::binary)
          << whole.substr(0, cut) << std::string(zeroes ? whole.size() - cut : 0, '\0');
      fs::copy_file(copy, body, fs::copy_options::overwrite_existing);
      const auto spool = open();
      EXPECT_EQ(spool->list().value().size(), 0U) << "cut at " << cut;
      EXPECT_EQ(spool->set_aside(), 1U);
      EXPECT_TRUE(fs::exists(scratch.path() / "spool/damaged" / head.filename()));
      ++refused;
    }
  }
  EXPECT_GT(refused, 50U);
  std::ofstream(head, std::ios::binary) << whole;
  fs::copy_file(copy, body, fs::copy_options::overwrite_existing);
  EXPECT_EQ(open()->list().value().size(), 1U);
}

TEST_F(SpoolTest, BytesThatAreCutOrChangedAreSetAside) {
  const auto spool = open();
  const RequestId cut = add(*spool, "cut.ppm", noise_picture(10, 10, 1)).value().id;
  fs::resize_file(file_of(".bin"), 100);
  EXPECT_EQ(open()->list().value().size(), 1U);  // until it is to be sent, and somebody can be told
  ASSERT_FALSE(spool->load(cut));
  EXPECT_EQ(open()->list().value().size(), 0U);  // another process sees it at once
  const RequestId missing = add(*spool, "missing.ppm", noise_picture(10, 10, 1)).value().id;
  fs::remove(file_of(".bin"));
  const auto nothing = spool->load(missing);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Errc::corrupt_data);
  const RequestId zero = add(*spool, "zero.ppm", noise_picture(10, 10, 1)).value().id;
  const fs::path body = file_of(".bin");
  const auto size = fs::file_size(body);
  fs::resize_file(body, 0);
  fs::resize_file(body, size);
  const auto loaded = spool->load(zero);  // of the right length: only the digest tells
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Errc::corrupt_data);
  EXPECT_EQ(names(*spool), std::vector<std::string>{});
  EXPECT_TRUE(fs::exists(scratch.path() / "spool/damaged" / body.filename()));
}

TEST_F(SpoolTest, KilledAtAnyMomentItKeepsWhatWasAddedWhole) {
  // A child adds and removes as fast as it can, says what was done, and is killed. What it said is there, or has gone;
  // what it was in the middle of is whole or not there.
  std::mt19937 random(20240607);
  std::set<RequestId> known;
  for (int round = 0; round < 25; ++round) {
    int said[2];
    ASSERT_EQ(::pipe(said), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(said[0]);
      const auto spool = Spool::open(scratch.path() / "spool", {SpoolPolicy::drop_oldest, 6, 1 << 22}).value();
      for (std::uint32_t i = 0;; ++i) {
        const auto added = add(*spool, "x", noise_picture(30 + i % 5, 40, i));
        if (!added) ::_exit(3);
        std::string words = "+" + to_text(added.value().id);
        for (const Spooled& gone : added.value().dropped) words += "-" + to_text(gone.item.id);
        words += "\n";
        if (::write(said[1], words.data(), words.size()) < 0) ::_exit(4);
      }
    }
    ::close(said[1]);
    std::string heard;
    char piece[4096];
    const std::size_t enough = std::uniform_int_distribution<std::size_t>(1, 700)(random);
    while (heard.size() < enough) {
      const ssize_t got = ::read(said[0], piece, sizeof piece);
      ASSERT_GT(got, 0);
      heard.append(piece, static_cast<std::size_t>(got));
    }
    ::usleep(std::uniform_int_distribution<useconds_t>(0, 3'000)(random));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (ssize_t got = 1; got > 0;) {
      got = ::read(said[0], piece, sizeof piece);
      if (got > 0) heard.append(piece, static_cast<std::size_t>(got));
    }
    ::close(said[0]);
    for (std::size_t at = 0; at + 33 <= heard.size(); ++at) {
      if (heard[at] == '+') known.insert(request_id_from(heard.substr(at + 1, 32)).value());
      if (heard[at] == '-') known.erase(request_id_from(heard.substr(at + 1, 32)).value());
    }
    const auto spool = open({SpoolPolicy::drop_oldest, 6, 1 << 22});
    EXPECT_EQ(spool->set_aside(), 0U);
    std::set<RequestId> there;
    for (const auto& each : listed(*spool)) {
      EXPECT_TRUE(spool->load(each->item.id)) << "round " << round;
      there.insert(each->item.id);
    }
    // The last add may have been done without being said, and with it one drop.
    std::size_t missing = 0;
    for (const RequestId& id : known) missing += there.count(id) == 0 ? 1 : 0;
    EXPECT_LE(missing, 1U) << "round " << round;
    std::size_t more = 0;
    for (const RequestId& id : there) more += known.count(id) == 0 ? 1 : 0;
    EXPECT_LE(more, 1U) << "round " << round;
    for (const auto& entry : fs::directory_iterator(spool->folder())) EXPECT_NE(entry.path().extension(), ".new");
    known = there;
  }
}

TEST_F(SpoolTest, NobodySeesAnItemBeforeItsOriginalIsSettled) {
  const auto spool = open();
  const auto other = open();
  RequestOptions request;
  request.task = "echo";
  bool called = false;
  const auto before_seen = [&] {
    called = true;
    EXPECT_FALSE(lock_file(spool->folder() / "lock", milliseconds(0)));  // list() of any process waits for this lock
  };
  ASSERT_TRUE(SpoolFill::create(spool.get(), request)
                  .value()
                  .add("a", bytes_of_text(noise_picture(5, 5)), SourceFile{"/x/a", 3, 4}, before_seen));
  EXPECT_TRUE(called);
  EXPECT_EQ(other->list().value().at(0)->item.source, (SourceFile{"/x/a", 3, 4}));
}

}  // namespace
}  // namespace gearbox::client
