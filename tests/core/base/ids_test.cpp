#include "gearbox/base/ids.hpp"

#include <gtest/gtest.h>

namespace gearbox {
namespace {

TEST(Hex, GoesThereAndBack) {
  PublicKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<std::byte>(i * 8 + 1);
  const std::string text = to_text(key);
  EXPECT_EQ(text.size(), 64U);
  EXPECT_EQ(text.substr(0, 6), "010911");
  EXPECT_EQ(public_key_from(text).value(), key);
}

TEST(Hex, TakesUpperCase) {
  EXPECT_EQ(request_id_from("000102030405060708090A0B0C0D0E0F").value().bytes[10], std::byte{0x0A});
}

TEST(Hex, RefusesAnotherLengthOrOtherCharacters) {
  for (const char* bad : {"", "00", "000102030405060708090a0b0c0d0e0", "000102030405060708090a0b0c0d0e0f00",
                          "000102030405060708090a0b0c0d0e0g", " 00102030405060708090a0b0c0d0e0f"}) {
    const auto refused = request_id_from(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, Errc::bad_input);
  }
}

TEST(RequestId, IsNilUntilItIsSet) {
  RequestId id;
  EXPECT_TRUE(id.is_nil());
  id.bytes[15] = std::byte{1};
  EXPECT_FALSE(id.is_nil());
}

TEST(RequestKey, HashesDifferentKeysApart) {
  RequestKey a;
  RequestKey b;
  b.device.bytes[0] = std::byte{1};
  EXPECT_NE(RequestKeyHash{}(a), RequestKeyHash{}(b));
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace gearbox
