#include "gearbox/link/secure_channel.hpp"

#include <gtest/gtest.h>

#include "core/link/channel_pair.hpp"
#include "core/link/code_of.hpp"

namespace gearbox::link {
namespace {

class Channel : public testing::Test {
 protected:
  ChannelKeys keys_ = make_channel_keys();
  ChannelPair pair_ = connect(keys_);
};

TEST_F(Channel, ScatteredPlainTextIsSealedAsOneRecord) {
  Bytes record(6 + kSealBytes);
  pair_.client.seal(view_of("abc"), view_of("def"), view_of("head"), record);
  EXPECT_EQ(opened(pair_.server, record, "head").value(), "abcdef");
  pair_.client.seal({}, view_of("second"), view_of("head"), record);
  EXPECT_EQ(opened(pair_.server, record, "head").value(), "second");
}

TEST_F(Channel, AFlippedBitAnywhereIsRefused) {
  const std::size_t bytes = sealed(pair_.client, "payload", "additional").size();
  for (std::size_t i = 0; i < bytes; ++i) {
    ChannelPair pair = connect(keys_);
    Bytes record = sealed(pair.client, "payload", "additional");
    record[i] ^= std::byte{0x10};
    EXPECT_EQ(code_of(opened(pair.server, record, "additional")), Errc::decrypt_failed) << i;
  }
}

TEST_F(Channel, OtherAdditionalDataIsRefused) {
  const Bytes record = sealed(pair_.client, "payload", "offset 0");
  EXPECT_EQ(code_of(opened(pair_.server, record, "offset 1")), Errc::decrypt_failed);
}

TEST_F(Channel, ARepeatedRecordIsRefused) {
  const Bytes record = sealed(pair_.client, "once");
  ASSERT_TRUE(opened(pair_.server, record).has_value());
  EXPECT_EQ(code_of(opened(pair_.server, record)), Errc::decrypt_failed);
}

TEST_F(Channel, RecordsInAnotherOrderAreRefusedAndTheChannelIsDeadThen) {
  const Bytes first = sealed(pair_.client, "first");
  const Bytes second = sealed(pair_.client, "second");
  EXPECT_EQ(code_of(opened(pair_.server, second)), Errc::decrypt_failed);
  EXPECT_EQ(code_of(opened(pair_.server, first)), Errc::decrypt_failed) << "nothing after a bad record may be acted on";
}

TEST_F(Channel, ACutRecordIsRefused) {
  const Bytes record = sealed(pair_.client, "payload");
  for (std::size_t bytes = 0; bytes < record.size(); ++bytes) {
    ChannelPair pair = connect(keys_);
    const Bytes whole = sealed(pair.client, "payload");
    EXPECT_EQ(code_of(opened(pair.server, ByteView(whole).first(bytes))), Errc::decrypt_failed) << bytes;
  }
}

TEST_F(Channel, ARecordOfTheOtherDirectionOrAnotherChannelIsRefused) {
  const Bytes record = sealed(pair_.client, "payload");
  EXPECT_EQ(code_of(opened(pair_.client, record)), Errc::decrypt_failed);
  ChannelPair other = connect(keys_);
  EXPECT_EQ(code_of(opened(other.server, record)), Errc::decrypt_failed);
}

TEST_F(Channel, OnlyTheEndMarkSaysThatNothingWasCutOff) {
  ASSERT_TRUE(opened(pair_.server, sealed(pair_.client, "a")).has_value());
  EXPECT_FALSE(pair_.server.peer_finished());
  ASSERT_TRUE(opened(pair_.server, sealed(pair_.client, "end", {}, true)).has_value());
  EXPECT_TRUE(pair_.server.peer_finished());
  EXPECT_FALSE(pair_.client.peer_finished()) << "each direction has its own end";
  EXPECT_EQ(code_of(opened(pair_.server, sealed(pair_.client, "more"))), Errc::closed);
}

TEST_F(Channel, AnEndMarkInPiecesCountsToo) {
  std::byte head{};
  std::array<std::byte, kSealBytes - 1> tail{};
  pair_.client.seal_begin({}, head, true);
  pair_.client.seal_end(tail);
  ASSERT_TRUE(pair_.server.open_begin({}, head).has_value());
  ASSERT_TRUE(pair_.server.open_end(tail).has_value());
  EXPECT_TRUE(pair_.server.peer_finished());
}

TEST_F(Channel, AnAlteredRecordInPiecesIsRefusedAndTheChannelIsDeadThen) {
  Bytes record = sealed(pair_.client, "payload");
  record[3] ^= std::byte{1};
  Bytes plain(7);
  ASSERT_TRUE(pair_.server.open_begin({}, record[0]).has_value());
  pair_.server.open_part(ByteView(record).subspan(1, 7), plain);
  EXPECT_EQ(code_of(pair_.server.open_end(std::span(record).subspan<8, kSealBytes - 1>())), Errc::decrypt_failed);
  EXPECT_EQ(code_of(pair_.server.open_begin({}, record[0])), Errc::decrypt_failed);
}

}  // namespace
}  // namespace gearbox::link
