// Calls through the ring into Python and back: what is right comes back bit for bit, what is wrong is a failed call
// with its reason, and the same process answers the next one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <map>

#include "worker_shim/test_node.hpp"

namespace gearbox::test {
namespace {

using ::testing::HasSubstr;
using wire::DType;

std::string bytes_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

/// One attached worker with the model `commands` for all tests of the suite: each leaves it able to answer the next.
class Commands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    node_ = new TestNode;
    node_->start("commands", {"--threads", "2"});
    attached_ = node_->attach();
  }
  static void TearDownTestSuite() {
    delete node_;
    node_ = nullptr;
  }
  void SetUp() override { ASSERT_TRUE(attached_) << node_->log(); }
  void TearDown() override {
    if (HasFailure()) std::fputs(node_->log().c_str(), stderr);
    const auto after = tell("echo");
    ASSERT_TRUE(after.has_value()) << "the worker is gone: " << node_->log();
    EXPECT_FALSE(after->failed) << after->text;
  }
  static std::vector<Tensor> inputs(const std::string& command) {
    return {text_tensor("command", command), uint8_tensor("data", std::string("\x01\x02\x03\x04\x05", 5))};
  }
  static std::optional<Answer> tell(const std::string& command) { return node_->ask(inputs(command)); }
  static void expect_failure(const std::string& command, Errc code, const std::string& text) {
    const auto got = tell(command);
    ASSERT_TRUE(got.has_value()) << command;
    ASSERT_TRUE(got->failed) << command;
    EXPECT_EQ(name_of(got->code), name_of(code)) << command << ": " << got->text;
    EXPECT_EQ(got->text, text);
  }
  static std::string number(const Answer& answer) { return answer.find("number")->bytes; }
  static std::string text(const Answer& answer) { return answer.find("text")->bytes.substr(4); }

  static TestNode* node_;
  static bool attached_;
};
TestNode* Commands::node_ = nullptr;
bool Commands::attached_ = false;

TEST_F(Commands, GivesListsOutOfViewsOfAnyStride) {
  const auto got = tell("echo");
  ASSERT_TRUE(got && !got->failed);
  ASSERT_EQ(got->outputs.size(), 4U);
  EXPECT_EQ(got->find("parts", 0)->bytes, std::string("\x01\x02\x03\x04\x05", 5));
  EXPECT_EQ(got->find("parts", 1)->bytes, std::string("\x01\x03\x05", 3));
  EXPECT_EQ(got->find("parts", 1)->shape, std::vector<std::int64_t>{3});
}

TEST_F(Commands, ProbesWithTheModelsOwnExample) {
  const std::uint64_t probe = node_->probe();
  const auto got = node_->answer();
  ASSERT_TRUE(got && !got->failed);
  EXPECT_EQ(got->request, probe);
  EXPECT_EQ(text(*got), "probe of [0, 1, 2]");
}

TEST_F(Commands, TakesNumbersInEachPlainForm) {
  for (const auto& [command, numbers] :
       std::vector<std::pair<std::string, std::vector<float>>>{{"in_place", {1, 2, 3}},
                                                               {"strided", {0, 3}},
                                                               {"plain_list", {1.5F, 2.5F}},
                                                               {"one_number", {7}},
                                                               {"big_endian", {1, 2}}}) {
    const auto got = tell(command);
    ASSERT_TRUE(got && !got->failed) << command << (got ? got->text : "");
    EXPECT_EQ(number(*got), bytes_of(numbers)) << command;
  }
}

TEST_F(Commands, WritesInPlaceIntoSharedMemory) {
  const auto got = tell("in_place");
  ASSERT_TRUE(got && !got->failed);
  EXPECT_EQ(text(*got), "MemoryView");
}

TEST_F(Commands, KeepsEachBitOfSpecialNumbers) {
  const auto got = tell("special_numbers");
  ASSERT_TRUE(got && !got->failed);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(number(*got), bytes_of({1.0F, std::numeric_limits<float>::quiet_NaN(), inf, -inf, -0.0F, 1e-45F}));
}

TEST_F(Commands, PassesBytesUnchangedAndTextAsUtf8) {
  auto got = tell("not_utf8");
  ASSERT_TRUE(got && !got->failed);
  EXPECT_EQ(text(*got),
            "\xff\xfe\x80"
            "caf\xe9");
  got = tell("text_list");
  ASSERT_TRUE(got && !got->failed);
  EXPECT_EQ(text(*got), "\xc3\xa4 \xe2\x82\xac");
}

TEST_F(Commands, SetsTheThreadsOfNumericLibraries) {
  const auto got = tell("threads");
  ASSERT_TRUE(got && !got->failed);
  EXPECT_EQ(text(*got), "2");
}

TEST_F(Commands, SaysWhyAModelRaised) {
  expect_failure("raises", Errc::model_failed, "ValueError: first line / second line");
  expect_failure("unprintable", Errc::model_failed, "gearbox_model.Bad: <exception str() failed>");
  expect_failure("system_exit", Errc::model_failed, "SystemExit: enough");
  expect_failure("keyboard_interrupt", Errc::model_failed, "KeyboardInterrupt");
  expect_failure("no_such_command", Errc::model_failed,
                 "AttributeError: 'Model' object has no attribute 'no_such_command'");
}

TEST_F(Commands, TellsARefusedRequestFromAFailedModel) {
  expect_failure("bad_input", Errc::bad_input, "not like this");
  expect_failure("bad_picture_item", Errc::bad_picture, "cut");
}

TEST_F(Commands, NamesTheOutputThatDoesNotFitTheRecord) {
  const std::string misfit = "the model's output does not fit its record: tensor 'number': expected FP32 [-1], got ";
  expect_failure("wrong_dtype", Errc::bad_result, misfit + "FP64 [2]");
  expect_failure("wrong_shape", Errc::bad_result, misfit + "FP32 [2, 2]");
  expect_failure("missing", Errc::bad_result, "output 'parts': missing in what infer() gave");
  expect_failure("undeclared", Errc::bad_result, "output 'nmuber' is not in the model's record");
  expect_failure("no_dict", Errc::bad_result, "infer() gave list for one item of the batch, not a dict of outputs");
  expect_failure("one_more", Errc::bad_result,
                 "infer() gave a list of 2 for a batch of 1, not a list of as many dicts");
  expect_failure("surrogate", Errc::bad_result,
                 "output 'text': the text has no UTF-8 form (it holds lone surrogates); give bytes instead");
  expect_failure("no_list", Errc::bad_result, "output 'parts': expected a list of tensors, got int");
  expect_failure("object_part", Errc::bad_result,
                 "output 'parts': numpy.ndarray is no tensor: TypeError: an array of object is no tensor");
  expect_failure("too_many", Errc::result_too_large,
                 "output 'parts': 1000 tensors; one answer holds at most 128, list items counted singly");
}

TEST_F(Commands, SurvivesResultsThatRaiseWhenTheyAreLookedAt) {
  expect_failure("no_length", Errc::bad_result, "what infer() gave cannot be read: ValueError: no length");
  expect_failure("no_items", Errc::bad_result, "what infer() gave cannot be read: ValueError: no items");
  for (const char* command : {"surrogate_key", "text_key", "shapeless", "surrogate_message"}) {
    const auto got = tell(command);
    ASSERT_TRUE(got) << command << ": " << node_->log();
    EXPECT_TRUE(got->failed) << command;
  }
  const auto next = tell("echo");
  ASSERT_TRUE(next);
  EXPECT_FALSE(next->failed);
}

TEST_F(Commands, RefusesAResultThatTheGrantDoesNotHold) {
  const auto got = tell("too_large");
  ASSERT_TRUE(got && got->failed);
  EXPECT_EQ(got->code, Errc::result_too_large);
}

TEST_F(Commands, GivesInputsThatCannotBeWritten) {
  expect_failure("read_only", Errc::model_failed, "ValueError: assignment destination is read-only");
}

TEST_F(Commands, RefusesInputsThatDoNotFitTheRecord) {
  const auto ask = [](const std::vector<Tensor>& given) {
    const auto got = node_->ask(given);
    return got && got->failed ? std::string(name_of(got->code)) + ": " + got->text : std::string("accepted");
  };
  EXPECT_EQ(ask({text_tensor("command", "echo")}), "bad_input: input 'data' is missing");
  EXPECT_EQ(ask({text_tensor("command", "echo"), uint8_tensor("dta", "x")}),
            "bad_input: input 'dta' is not in the model's record");
  EXPECT_EQ(ask({text_tensor("command", "echo"), Tensor{"data", DType::int8, {1}, "x"}}),
            "bad_input: tensor 'data': expected UINT8 [-1], got INT8 [1]");
}

TEST_F(Commands, DoesNotRunACallWhoseTimeIsUp) {
  node_->call(inputs("echo"), std::chrono::microseconds(0));
  const auto got = node_->answer();
  ASSERT_TRUE(got && got->failed);
  EXPECT_EQ(got->code, Errc::deadline_exceeded);
}

TEST_F(Commands, DoesNotRunACallWhoseTimeWasUpWhileItWaitedInTheRing) {
  node_->signal(SIGSTOP);
  node_->call(inputs("echo"), std::chrono::milliseconds(20));
  const Instant until = Clock::now() + milliseconds(30);
  while (Clock::now() < until) {
  }
  node_->signal(SIGCONT);
  const auto got = node_->answer();
  ASSERT_TRUE(got && got->failed);
  EXPECT_EQ(got->code, Errc::deadline_exceeded);
}

TEST_F(Commands, DoesNotRunACallThatWasCancelledWhileItWaitedInTheRing) {
  node_->signal(SIGSTOP);
  node_->call(inputs("echo"));
  node_->cancel_last();
  node_->signal(SIGCONT);
  const auto got = node_->answer();
  ASSERT_TRUE(got && got->failed);
  EXPECT_EQ(got->code, Errc::cancelled);
  const auto next = node_->ask(inputs("echo"));
  ASSERT_TRUE(next);
  EXPECT_FALSE(next->failed);
}

TEST_F(Commands, FailsOneOfABatchAndServesItsNeighbours) {
  const auto numbers =
      node_->calls({inputs("echo"), inputs("raises"), inputs("batch_sizes"), inputs("bad_picture_item")});
  std::map<std::uint64_t, Answer> got;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    auto one = node_->answer();
    ASSERT_TRUE(one.has_value());
    const std::uint64_t request = one->request;
    EXPECT_TRUE(got.emplace(request, std::move(*one)).second) << "answered twice";
  }
  EXPECT_FALSE(got.at(numbers[0]).failed);
  EXPECT_EQ(got.at(numbers[1]).text, "ValueError: first line / second line");
  ASSERT_FALSE(got.at(numbers[2]).failed);
  EXPECT_EQ(got.at(numbers[3]).code, Errc::bad_picture);
  // That it was one batch of four before it was run one by one.
  const std::string sizes = number(got.at(numbers[2]));
  EXPECT_THAT(sizes, HasSubstr(bytes_of({4, 1, 1, 1})));
}

TEST(WorkerShimViews, CopiesForAModelThatKeepsItsInputs) {
  TestNode node;
  node.start("commands");
  ASSERT_TRUE(node.attach()) << node.log();
  const auto tell = [&node](const std::string& command, const std::string& data) {
    return node.ask({text_tensor("command", command), uint8_tensor("data", data)});
  };
  ASSERT_FALSE(tell("keep", "first")->failed);
  // From the second on what it keeps is its own: the places of the ring are all used again before it looks.
  ASSERT_FALSE(tell("keep", "second")->failed);
  EXPECT_THAT(node.log(), HasSubstr("keeps 1 arrays of an answered call"));
  for (std::uint32_t i = 0; i < 2 * shm::kRingCapacity; ++i) ASSERT_FALSE(tell("echo", "xxxxxx")->failed);
  const auto got = tell("kept", "-");
  ASSERT_TRUE(got && !got->failed);
  EXPECT_EQ(got->find("parts", 1)->bytes, "econd");
}

TEST(WorkerShimEcho, GivesBackEachTypeBitForBit) {
  TestNode node;
  node.start("echo_any");
  ASSERT_TRUE(node.attach()) << node.log();
  std::string pattern;
  for (int i = 0; i < 256; ++i)
    pattern += static_cast<char>(i);  // NaNs, denormals and -0 of each width are among these
  for (std::uint32_t number = 1; number <= 12; ++number) {
    const DType dtype = *wire::dtype_from(number);
    const auto elements = static_cast<std::int64_t>(pattern.size() / wire::element_bytes(dtype));
    const Tensor sent{"data", dtype, {2, elements / 2}, pattern};
    const auto got = node.ask({sent});
    ASSERT_TRUE(got && !got->failed) << wire::name_of(dtype) << (got ? got->text : node.log());
    EXPECT_EQ(got->outputs[0].dtype, dtype);
    EXPECT_EQ(got->outputs[0].shape, sent.shape);
    EXPECT_EQ(got->outputs[0].bytes, pattern) << wire::name_of(dtype);
  }
  Tensor texts = text_tensor("data", std::string("\0\xff", 2));
  texts.shape = {2, 1};
  texts.bytes += text_tensor("", "").bytes;
  const auto got = node.ask({texts});
  ASSERT_TRUE(got && !got->failed) << (got ? got->text : node.log());
  EXPECT_EQ(got->outputs[0].bytes, texts.bytes);
  EXPECT_EQ(got->outputs[0].shape, texts.shape);
}

TEST(WorkerShimEcho, TakesTensorsWithoutElements) {
  TestNode node;
  node.start("echo_any");
  ASSERT_TRUE(node.attach()) << node.log();
  const auto got = node.ask({Tensor{"data", DType::fp32, {0, 4}, ""}});
  ASSERT_TRUE(got && !got->failed) << (got ? got->text : node.log());
  EXPECT_EQ(got->outputs[0].shape, (std::vector<std::int64_t>{0, 4}));
}

}  // namespace
}  // namespace gearbox::test
