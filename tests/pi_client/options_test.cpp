#include "options.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gearbox::client {
namespace {

const std::string kKey(64, 'a');

Parsed parse_line(std::vector<std::string> words) {
  words.insert(words.begin(), "pi_client");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse(static_cast<int>(argv.size()), argv.data(), "/home/anna");
}

std::vector<std::string> send_line(std::vector<std::string> more) {
  std::vector<std::string> words = {
      "send", "--central", "tcp://localhost:7400", "--server-key", kKey, "--user", "anna", "--task", "read-text"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Options, ReadsASendLine) {
  const Parsed parsed = parse_line(send_line({"a.jpg", "b.jpg", "--json", "--deadline-ms", "500", "--lossy", "90"}));
  ASSERT_TRUE(parsed.options) << parsed.text;
  const Options& options = *parsed.options;
  EXPECT_EQ(options.command, Command::send);
  EXPECT_EQ(options.central.server_key[0], std::byte{0xAA});
  EXPECT_EQ(options.keys, "/home/anna/.config/gearbox");
  EXPECT_EQ(options.send.files, (std::vector<std::string>{"a.jpg", "b.jpg"}));
  EXPECT_TRUE(options.send.json);
  EXPECT_EQ(options.send.deadline, milliseconds(500));
  EXPECT_EQ(options.send.lossy, 90);
  EXPECT_EQ(options.send.parallel, 4U);
}

TEST(Options, NamesSeveralInputsOfOneRequest) {
  const Parsed parsed = parse_line(send_line({"--input", "color=c.ppm", "--input", "depth=d=1.npy"}));
  ASSERT_TRUE(parsed.options) << parsed.text;
  ASSERT_EQ(parsed.options->send.inputs.size(), 2U);
  EXPECT_EQ(parsed.options->send.inputs[1].first, "depth");
  EXPECT_EQ(parsed.options->send.inputs[1].second, "d=1.npy");
}

TEST(Options, SeveralCentralsHaveOneKeyOrOneEach) {
  const std::string other(64, 'b');
  const std::vector<std::string> two = {"run",       "--spool",   "s",         "--user",   "a",
                                        "--central", "tcp://x:1", "--central", "tcp://y:2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), two.begin(), two.end());
    return parse_line(more);
  };
  const Parsed one_key = with({"--server-key", kKey});
  ASSERT_TRUE(one_key.options) << one_key.text;
  EXPECT_EQ(one_key.options->central.url, "tcp://x:1");
  ASSERT_EQ(one_key.options->central.others.size(), 1U);
  EXPECT_EQ(one_key.options->central.others[0].url, "tcp://y:2");
  EXPECT_EQ(one_key.options->central.others[0].server_key, one_key.options->central.server_key);
  const Parsed two_keys = with({"--server-key", kKey, "--server-key", other});
  ASSERT_TRUE(two_keys.options) << two_keys.text;
  EXPECT_EQ(two_keys.options->central.server_key[0], std::byte{0xAA});
  EXPECT_EQ(two_keys.options->central.others[0].server_key[0], std::byte{0xBB});
  EXPECT_EQ(with({"--server-key", kKey, "--server-key", kKey, "--server-key", kKey}).exit_code, 2);
  EXPECT_NE(with({"--server-key", kKey, "--central", "nowhere"}).text.find("tcp://HOST:PORT"), std::string::npos);
}

TEST(Options, TellsWhenARequestMayMove) {
  EXPECT_EQ(parse_line(send_line({"a.jpg"})).options->send.move_after, milliseconds(60'000));
  EXPECT_EQ(parse_line(send_line({"a.jpg", "--move-after-ms", "5"})).options->send.move_after, milliseconds(5));
  const std::vector<std::string> run = {"run",       "--spool",      "s", "--user", "a", "--central",
                                        "tcp://x:1", "--server-key", kKey};
  EXPECT_EQ(parse_line(run).options->spool.move_after, milliseconds(60'000));
  std::vector<std::string> never = run;
  never.insert(never.end(), {"--move-after-ms", "0"});
  EXPECT_EQ(parse_line(never).options->spool.move_after, milliseconds(0));
}

TEST(Options, WrongUsageIsExitCode2AndNamesTheFault) {
  const struct {
    std::vector<std::string> words;
    std::string says;
  } kCases[] = {
      {{}, "subcommand"},
      {{"sned"}, "subcommand"},
      {send_line({}), "FILE"},
      {send_line({"a.jpg", "--parallel", "0"}), "--parallel"},
      {send_line({"a.jpg", "--lossy", "101"}), "--lossy"},
      {send_line({"a.jpg", "--timeout-ms", "12x"}), "--timeout-ms"},
      {send_line({"a.jpg", "--deadline-ms", "99999999999999999999"}), "--deadline-ms"},
      {send_line({"a.jpg", "--frobnicate"}), "--frobnicate"},
      {send_line({"a.jpg", "--input", "color=c.ppm"}), "--input"},
      {send_line({"--input", "c.ppm"}), "NAME=FILE"},
      {send_line({"--input", "../x=c.ppm"}), "../x"},
      {{"send", "--central", "http://x:1", "--server-key", kKey, "--user", "a", "--task", "t", "f"}, "tcp://HOST:PORT"},
      {{"send", "--central", "tcp://x:65616", "--server-key", kKey, "--user", "a", "--task", "t", "f"}, "port"},
      {{"send", "--central", "tcp://x", "--server-key", kKey, "--user", "a", "--task", "t", "f"}, "PORT"},
      {{"send", "--central", "tcp://x:1", "--server-key", "abc", "--user", "a", "--task", "t", "f"}, "64 hexadecimal"},
      {{"send", "--central", "tcp://x:1", "--server-key", kKey, "--user", "a b", "--task", "t", "f"}, "user name"},
      {{"send", "--central", "tcp://x:1", "--server-key", kKey, "--user", "a", "--task", "../t", "f"}, "task name"},
      {{"enrol", "--central", "tcp://x:1", "--user", "a"}, "--server-key"},
      {{"key"}, "subcommand"},
  };
  for (const auto& c : kCases) {
    const Parsed parsed = parse_line(c.words);
    EXPECT_FALSE(parsed.options);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_NE(parsed.text.find(c.says), std::string::npos) << "expected '" << c.says << "' in: " << parsed.text;
  }
}

TEST(Options, StepsStandInPlaceOfATask) {
  const std::vector<std::string> common = {"send", "--central", "tcp://x:1", "--server-key", kKey, "--user", "a"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return parse_line(more);
  };
  const Parsed own = with({"--steps", "s.toml", "a.jpg"});
  ASSERT_TRUE(own.options) << own.text;
  EXPECT_EQ(own.options->send.steps_file, "s.toml");
  EXPECT_EQ(own.options->send.task, "");
  EXPECT_EQ(with({"--steps", "s.toml", "--task", "t", "a.jpg"}).exit_code, 2);
  const Parsed none = with({"a.jpg"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.text.find("--task or --steps"), std::string::npos) << none.text;
}

TEST(Options, RunAndSpool) {
  const std::vector<std::string> common = {"run",          "--spool", "s",      "--central", "tcp://x:1",
                                           "--server-key", kKey,      "--user", "a"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return parse_line(more);
  };
  const Parsed bare = with({});  // only what `spool add` puts there
  ASSERT_TRUE(bare.options) << bare.text;
  EXPECT_EQ(bare.options->command, Command::run);
  EXPECT_EQ(bare.options->spool.limits.policy, SpoolPolicy::keep_all);
  EXPECT_EQ(bare.options->spool.limits.max_bytes, 1'024ULL << 20);
  const Parsed watch =
      with({"--task", "t", "--watch", "w", "--after", "move:m", "--policy", "drop-oldest", "--max-mb", "5"});
  ASSERT_TRUE(watch.options) << watch.text;
  EXPECT_EQ(watch.options->spool.watch.after, After::move);
  EXPECT_EQ(watch.options->spool.watch.move_to, "m");
  EXPECT_EQ(watch.options->spool.limits.policy, SpoolPolicy::drop_oldest);
  EXPECT_EQ(watch.options->spool.limits.max_bytes, 5ULL << 20);
  const Parsed camera = with({"--task", "t", "--camera", "/dev/video0", "--every", "40", "--size", "640x480"});
  ASSERT_TRUE(camera.options) << camera.text;
  EXPECT_EQ(camera.options->spool.camera.every, milliseconds(40));
  EXPECT_EQ(camera.options->spool.camera.width, 640U);
  EXPECT_EQ(camera.options->spool.camera.height, 480U);
  const Parsed drop = parse_line({"spool", "drop", "--spool", "s", "00112233445566778899aabbccddeeff"});
  ASSERT_TRUE(drop.options) << drop.text;
  EXPECT_EQ(drop.options->command, Command::spool_drop);

  EXPECT_NE(with({"--watch", "w"}).text.find("--task or --steps"), std::string::npos);
  EXPECT_EQ(with({"--task", "t", "--watch", "w", "--camera", "c"}).exit_code, 2);
  EXPECT_EQ(with({"--task", "t", "--watch", "w", "--after", "burn"}).exit_code, 2);
  EXPECT_EQ(with({"--task", "t", "--every", "40"}).exit_code, 2);
  EXPECT_EQ(with({"--task", "t", "--camera", "c", "--size", "640"}).exit_code, 2);
  EXPECT_EQ(with({"--task", "t", "--watch", "w", "--until-empty"}).exit_code, 2);
  EXPECT_EQ(with({"--policy", "some"}).exit_code, 2);
  EXPECT_EQ(parse_line({"spool", "drop", "--spool", "s", "xyz"}).exit_code, 2);
  EXPECT_EQ(parse_line({"spool", "drop", "--spool", "s"}).exit_code, 2);
  EXPECT_EQ(parse_line({"spool", "add", "--spool", "s", "a.jpg"}).exit_code, 2);
}

TEST(Options, HelpOfEachCommandHasAnExample) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--help"},
                                                                                     {"enrol", "--help"},
                                                                                     {"send", "--help"},
                                                                                     {"key", "--help"},
                                                                                     {"key", "show", "--help"},
                                                                                     {"run", "--help"},
                                                                                     {"spool", "--help"},
                                                                                     {"spool", "add", "--help"},
                                                                                     {"spool", "list", "--help"},
                                                                                     {"spool", "drop", "--help"}}) {
    const Parsed parsed = parse_line(words);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_NE(parsed.text.find("Example:"), std::string::npos) << parsed.text;
  }
}

TEST(Options, TellsItsVersion) {
  const Parsed parsed = parse_line({"--version"});
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_EQ(parsed.text, std::string(kAgent) + "\n");
}

}  // namespace
}  // namespace gearbox::client
