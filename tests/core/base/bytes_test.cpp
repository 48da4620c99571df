#include "gearbox/base/bytes.hpp"

#include <gtest/gtest.h>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/error.hpp"

namespace gearbox {
namespace {

TEST(LittleEndian, StoresTheLowByteFirstAtAnyAddress) {
  std::array<std::byte, 16> room{};
  for (std::size_t at = 0; at < 8; ++at) {
    store_le<std::uint64_t>(&room[at], 0x0102030405060708ULL);
    EXPECT_EQ(room[at], std::byte{8});
    EXPECT_EQ(room[at + 7], std::byte{1});
    EXPECT_EQ(load_le<std::uint64_t>(&room[at]), 0x0102030405060708ULL);
  }
  store_le<std::uint16_t>(room.data(), 0xFFFE);
  EXPECT_EQ(load_le<std::uint16_t>(room.data()), 0xFFFE);
  store_le<std::uint32_t>(room.data(), 0x80000001U);
  EXPECT_EQ(load_le<std::uint32_t>(room.data()), 0x80000001U);
}

TEST(Clock, NeverWrapsAndNeverGoesBack) {
  const Instant now = Clock::now();
  EXPECT_GT(after(now, milliseconds::max()), now);
  EXPECT_EQ(elapsed(now, now - seconds(1)), microseconds{0});
  EXPECT_EQ(elapsed(now, after(now, milliseconds(2))), microseconds{2000});
}

TEST(Errors, HaveNamesAndReadAsASentence) {
  EXPECT_EQ(name_of(Errc::unknown_task), "unknown_task");
  EXPECT_EQ(name_of(static_cast<Errc>(9999)), "unknown");
  EXPECT_EQ(describe(Error{Errc::bad_input, "no"}), "bad_input: no");
  EXPECT_EQ(describe(Error{Errc::closed, {}}), "closed");
}

}  // namespace
}  // namespace gearbox
