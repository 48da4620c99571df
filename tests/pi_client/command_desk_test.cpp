// What people ask of this device, each thing once, across kills.
#include "command_desk.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "gearbox/wire/messages.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::client {
namespace {

class Desk : public ::testing::Test {
 public:
  CommandDesk desk(bool runs = true) {
    CommandDesk::Ends ends;
    if (runs) {
      ends.status = [this] { return "looked " + std::to_string(++looks_); };
      ends.set_rate = [this](SetRate rate) { rates_.push_back(rate); };
      ends.restart = [this] { ++restarts_; };
    }
    return CommandDesk(folder_.path().string(), ends);
  }
  static wire::CommandAnswer ask(CommandDesk& desk, std::uint64_t number, std::vector<std::string> words) {
    wire::Command command;
    command.number = number;
    command.words = std::move(words);
    const CommandDesk::Carried carried = desk.carry_out(command);
    desk.take_effect(command, carried);
    EXPECT_EQ(carried.answer.number, number);
    return carried.answer;
  }
  std::filesystem::path file() const { return CommandRecord::file(folder_.path().string()); }

  testing::TempDir folder_;
  int looks_ = 0;
  int restarts_ = 0;
  std::vector<SetRate> rates_;
};

TEST_F(Desk, CarriesACommandOutOnceAndRepeatsItsAnswer) {
  CommandDesk first = desk();
  const wire::CommandAnswer answer = ask(first, 7, {"status"});
  EXPECT_TRUE(answer.ok);
  EXPECT_NE(answer.text.find("looked 1"), std::string::npos) << answer.text;
  EXPECT_EQ(ask(first, 7, {"status"}).text, answer.text);
  CommandDesk after_a_kill = desk();
  EXPECT_EQ(ask(after_a_kill, 7, {"status"}).text, answer.text);
  EXPECT_EQ(looks_, 1);
}

TEST_F(Desk, ARestartIsNotRepeated) {
  CommandDesk before = desk();
  EXPECT_TRUE(ask(before, 7, {"restart"}).ok);
  CommandDesk after_it = desk();
  EXPECT_TRUE(ask(after_it, 7, {"restart"}).ok);
  EXPECT_EQ(restarts_, 1);
  EXPECT_TRUE(ask(after_it, 8, {"restart"}).ok);
  EXPECT_EQ(restarts_, 2);
}

TEST_F(Desk, AnOlderNumberIsNotCarriedOut) {
  CommandDesk one = desk();
  ask(one, 7, {"status"});
  EXPECT_FALSE(ask(one, 6, {"restart"}).ok);
  EXPECT_EQ(restarts_, 0);
  EXPECT_EQ(CommandRecord::load(file()).value().number, 7U);
}

TEST_F(Desk, ARateIsKeptForTheNextStart) {
  CommandDesk one = desk();
  EXPECT_TRUE(ask(one, 1, {"set-rate", "20000"}).ok);
  EXPECT_EQ(CommandRecord::load(file()).value().rate, SetRate(20000));
  EXPECT_TRUE(ask(one, 2, {"status"}).ok);
  EXPECT_EQ(CommandRecord::load(file()).value().rate, SetRate(20000)) << "another command leaves it alone";
  EXPECT_TRUE(ask(one, 3, {"set-rate", "off"}).ok);
  EXPECT_EQ(CommandRecord::load(file()).value().rate, SetRate(0));
  EXPECT_TRUE(ask(one, 4, {"set-rate", "default"}).ok);
  EXPECT_EQ(CommandRecord::load(file()).value().rate, SetRate());
  EXPECT_EQ(rates_, (std::vector<SetRate>{20000, 0, SetRate()}));
}

TEST_F(Desk, WrongWordsChangeNothing) {
  CommandDesk one = desk();
  std::uint64_t number = 0;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"set-rate"},
                                                                                     {"set-rate", "999"},
                                                                                     {"set-rate", "-1"},
                                                                                     {"set-rate", "5k"},
                                                                                     {"set-rate", "2000", "3000"},
                                                                                     {"restart", "now"},
                                                                                     {"status", "all"},
                                                                                     {"rm", "-rf", "/"}}) {
    EXPECT_FALSE(ask(one, ++number, words).ok) << words.front();
  }
  EXPECT_NE(ask(one, ++number, {"reboot"}).text.find("unknown command 'reboot'"), std::string::npos);
  EXPECT_EQ(restarts_, 0);
  EXPECT_TRUE(rates_.empty());
}

TEST_F(Desk, AProgramThatCannotRestartSaysSo) {
  CommandDesk send = desk(false);
  EXPECT_FALSE(ask(send, 1, {"restart"}).ok);
  EXPECT_TRUE(ask(send, 2, {"set-rate", "5000"}).ok);
  EXPECT_TRUE(ask(send, 3, {"status"}).ok);
}

TEST_F(Desk, ADamagedRecordCarriesNothingOutAndIsReplaced) {
  CommandDesk one = desk();
  ask(one, 5, {"status"});
  std::ofstream(file(), std::ios::trunc) << "gearbox comm";
  EXPECT_FALSE(ask(one, 6, {"restart"}).ok);
  EXPECT_EQ(restarts_, 0);
  EXPECT_TRUE(ask(one, 7, {"restart"}).ok);
  EXPECT_EQ(restarts_, 1);
}

TEST_F(Desk, WithoutAPlaceForTheRecordNothingIsCarriedOut) {
  CommandDesk::Ends ends;
  ends.restart = [this] { ++restarts_; };
  CommandDesk one((folder_.path() / "gone").string(), ends);
  const wire::CommandAnswer answer = ask(one, 5, {"restart"});
  EXPECT_FALSE(answer.ok);
  EXPECT_EQ(restarts_, 0);
  EXPECT_LT(answer.text.size(), wire::kMaxCommandAnswerBytes);
}

TEST_F(Desk, AnAnswerFitsIntoItsFrame) {
  CommandDesk::Ends ends;
  ends.status = [] { return std::string(5000, '\\'); };
  CommandDesk one(folder_.path().string(), ends);
  const wire::CommandAnswer answer = ask(one, 5, {"status"});
  EXPECT_LT(wire::to_json(answer).size(), 4096U);
  EXPECT_TRUE(wire::parse<wire::CommandAnswer>(wire::to_json(answer)));
}

}  // namespace
}  // namespace gearbox::client
