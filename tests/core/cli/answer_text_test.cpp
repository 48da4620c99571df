#include "cli/answer_text.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include <array>

namespace gearbox::cli {
namespace {

struct Tensors {
  std::vector<wire::TensorSpec> specs;
  Bytes payload;
  Tensors& add(const std::string& name, wire::DType type, std::vector<std::int64_t> shape, const std::string& bytes) {
    specs.push_back({name, type, std::move(shape), bytes.size()});
    payload.insert(payload.end(), view_of(bytes).begin(), view_of(bytes).end());
    return *this;
  }
  Tensors& text(const std::string& word) {
    std::array<std::byte, 4> length{};
    store_le(length.data(), static_cast<std::uint32_t>(word.size()));
    return add("text", wire::DType::bytes, {1}, std::string(text_of(length)) + word);
  }
};

TEST(AnswerText, PrintsWordsAndDescribesTheRest) {
  const Tensors all = Tensors().text("hello\x1b[2J").add("boxes", wire::DType::fp32, {2, 1}, std::string(8, '\0'));
  EXPECT_EQ(tensors_text(all.specs, all.payload), "hello\\x1b[2J\nboxes: FP32 [2,1]\n");
  EXPECT_EQ(boost::json::serialize(tensors_json(all.specs, all.payload, false)),
            R"([{"name":"text","dtype":"BYTES","shape":[1],"bytes":13,"values":["hello\u001b[2J"]},)"
            R"({"name":"boxes","dtype":"FP32","shape":[2,1],"bytes":8}])");
}

TEST(AnswerText, TellsTheBytesOfAPartWhereAsked) {
  const Tensors part = Tensors().add("text", wire::DType::uint8, {2}, "hi");
  EXPECT_EQ(boost::json::serialize(tensors_json(part.specs, part.payload, true)),
            R"([{"name":"text","dtype":"UINT8","shape":[2],"bytes":2,"values":[104,105]}])");
}

TEST(PartsText, RunsOnOverPartsWithoutTearingCharacters) {
  PartsText text;
  const auto add = [&](const std::string& bytes) {
    const Tensors part = Tensors().add("text", wire::DType::uint8, {static_cast<std::int64_t>(bytes.size())}, bytes);
    return text.add(part.specs, part.payload);
  };
  EXPECT_EQ(add("caf\xC3"), "caf");
  EXPECT_EQ(add("\xA9 au"), "\xC3\xA9 au");
  const Tensors word = Tensors().text(" lait");
  EXPECT_EQ(text.add(word.specs, word.payload), " lait");
  const Tensors other = Tensors().add("score", wire::DType::fp32, {1}, std::string(4, '\0'));
  EXPECT_EQ(text.add(other.specs, other.payload), "\nscore: FP32 [1]\n");
  EXPECT_EQ(text.end(), "");
  EXPECT_EQ(add("\xE6"), "");
  EXPECT_EQ(text.end(), "\\xe6\n");
}

}  // namespace
}  // namespace gearbox::cli
