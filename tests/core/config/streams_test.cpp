// Where a model that streams may stand in a task, and what its record may say.
#include <gmock/gmock.h>

#include "config_folder.hpp"

namespace gearbox::config {
namespace {

using ::testing::HasSubstr;

const std::string kTell =
    "name = \"tell\"\nversion = \"1\"\nstream = true\n"
    "[[input]]\nname = \"picture\"\ndtype = \"UINT8\"\nshape = [-1, -1, 3]\n"
    "[[output]]\nname = \"text\"\ndtype = \"BYTES\"\nshape = [1]\n";
const std::string kStep = "[[step]]\nname = \"tell\"\nmodel = \"tell\"\n[step.inputs]\npicture = \"request.image\"\n";

class StreamingTask : public ConfigFolder {
 protected:
  void SetUp() override {
    ConfigFolder::SetUp();
    write("models/tell/model.toml", kTell);
    write("models/tell/model.py", "class Model: pass\n");
    with(kStep);
  }
  /// The task with more steps, whose result has the story too.
  void with(const std::string& steps) {
    write_changed("tasks/read-text.toml", kTask, "[result]\n", steps + "[result]\nstory = \"tell.text\"\n");
  }
};

TEST_F(StreamingTask, MayHaveOneStepThatStreamsToItsResult) {
  const auto loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const model::Record* record = find_model(*loaded.value(), "tell", "latest");
  ASSERT_NE(record, nullptr);
  EXPECT_TRUE(record->stream);
  EXPECT_EQ(record->streams, 4U);
}

TEST_F(StreamingTask, MayNotScatterIt) {
  with(
      "[[step]]\nname = \"tell\"\nmodel = \"tell\"\nfor_each = \"picture\"\n[step.inputs]\npicture = "
      "\"detect.crops\"\n");
  EXPECT_THAT(faults(), HasSubstr("for_each: model 'tell' streams its answers: it runs once in a request"));
}

TEST_F(StreamingTask, MayNotHaveTwoOfThem) {
  with(kStep + "[[step]]\nname = \"again\"\nmodel = \"tell\"\n[step.inputs]\npicture = \"request.image\"\n");
  EXPECT_THAT(faults(), HasSubstr("'tell' streams its answers, as step 'tell' does already"));
}

TEST_F(StreamingTask, MayNotFeedAnotherStepFromIt) {
  write("models/list/model.toml",
        "name = \"list\"\nversion = \"1\"\n[[input]]\nname = \"words\"\ndtype = \"BYTES\"\nshape = [1]\n"
        "[[output]]\nname = \"text\"\ndtype = \"BYTES\"\nshape = [1]\n");
  write("models/list/model.py", "class Model: pass\n");
  with(kStep + "[[step]]\nname = \"after\"\nmodel = \"list\"\n[step.inputs]\nwords = \"tell.text\"\n");
  EXPECT_THAT(faults(), HasSubstr("words: comes from step 'tell', whose model 'tell' streams its answers"));
}

struct BadRecord {
  const char* from;
  const char* to;
  const char* expect;
};
TEST_F(StreamingTask, RecordsThatCannotStreamAreRefused) {
  for (const BadRecord& bad :
       {BadRecord{"stream = true", "stream = true\nmax_batch = 4", "max_batch: a model that streams gets its requests"},
        BadRecord{"stream = true", "streams = 4", "streams: only a model with stream = true has them"},
        BadRecord{"stream = true", "stream = true\nstreams = 0", "streams"},
        BadRecord{"shape = [1]\n", "shape = [1]\nlist = true\n", "stream: each part gives single tensors"}}) {
    write_changed("models/tell/model.toml", kTell, bad.from, bad.to);
    EXPECT_THAT(faults(), HasSubstr(bad.expect)) << bad.to;
  }
}

}  // namespace
}  // namespace gearbox::config
