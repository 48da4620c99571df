#include "gearbox/link/ticket.hpp"

#include <gtest/gtest.h>

#include "core/link/channel_pair.hpp"
#include "core/link/code_of.hpp"
#include "gearbox/link/login.hpp"

namespace gearbox::link {
namespace {

class TicketTest : public testing::Test {
 protected:
  TicketTest() {
    ticket_.device = device_.public_key;
    ticket_.user = "ada";
    ticket_.tasks = {"read-text"};
    ticket_.node = to_text(node_.public_key);
    ticket_.expires_unix_ms = 10'000;
    ticket_.key_id = "k1";
    trusted_ = {{"k1", central_.public_key}};
  }
  TicketCheck against() const { return {&trusted_, to_text(node_.public_key), device_.public_key, 9'999}; }
  Errc refusal(std::string_view text, const TicketCheck& check) const {
    const auto outcome = check_ticket(text, check);
    return outcome ? Errc{} : outcome.error().code;
  }

  SigningKeys central_ = make_signing_keys();
  SigningKeys device_ = make_signing_keys();
  SigningKeys node_ = make_signing_keys();
  wire::Ticket ticket_;
  std::map<std::string, PublicKey> trusted_;
};

TEST_F(TicketTest, IsAcceptedFromItsDeviceAtItsNodeInItsTime) {
  const auto checked = check_ticket(sign_ticket(central_, ticket_), against());
  ASSERT_TRUE(checked.has_value()) << checked.error().detail;
  EXPECT_EQ(checked.value().user, "ada");
  EXPECT_TRUE(check_task(checked.value(), "read-text").has_value());
  EXPECT_EQ(code_of(check_task(checked.value(), "other")), Errc::not_allowed);
  ticket_.tasks = {"*"};
  EXPECT_TRUE(check_task(ticket_, "other").has_value());
}

TEST_F(TicketTest, IsRefusedFromAnotherDevice) {
  TicketCheck thief = against();
  thief.device = make_signing_keys().public_key;
  const auto checked = check_ticket(sign_ticket(central_, ticket_), thief);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(code_of(checked), Errc::bad_ticket);
  EXPECT_NE(checked.error().detail.find("another device"), std::string::npos);
}

TEST_F(TicketTest, IsRefusedAtAnotherNode) {
  TicketCheck elsewhere = against();
  elsewhere.node = to_text(make_signing_keys().public_key);
  EXPECT_EQ(refusal(sign_ticket(central_, ticket_), elsewhere), Errc::bad_ticket);
}

TEST_F(TicketTest, IsRefusedFromTheMomentItExpires) {
  TicketCheck late = against();
  late.central_unix_ms = 10'000;
  EXPECT_EQ(refusal(sign_ticket(central_, ticket_), late), Errc::expired_ticket);
}

TEST_F(TicketTest, IsRefusedWhenSignedWithAnUnknownKeyOrByAnother) {
  ticket_.key_id = "k2";
  EXPECT_EQ(refusal(sign_ticket(central_, ticket_), against()), Errc::bad_ticket);
  ticket_.key_id = "k1";
  EXPECT_EQ(refusal(sign_ticket(make_signing_keys(), ticket_), against()), Errc::bad_ticket);
}

TEST_F(TicketTest, IsRefusedWithAnyDigitChanged) {
  const std::string text = sign_ticket(central_, ticket_);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string forged = text;
    forged[i] = forged[i] == '3' ? '2' : '3';
    EXPECT_EQ(refusal(forged, against()), Errc::bad_ticket) << i;
  }
}

TEST_F(TicketTest, IsRefusedWithALetterThatTheDecoderWouldTakeForAnother) {
  std::string good;
  while (good.find('_') == std::string::npos) {  // most signatures have one
    ++ticket_.placement;
    good = sign_ticket(central_, ticket_);
  }
  for (int letter = 128; letter < 256; ++letter) {
    std::string bad = good;
    bad[good.find('_')] = static_cast<char>(letter);
    EXPECT_EQ(refusal(bad, against()), Errc::bad_ticket) << letter;
  }
}

TEST_F(TicketTest, IsRefusedWhenItHasNoTicketsShape) {
  for (const std::string& text : {std::string(), std::string("."), std::string("7b7d"), std::string("7b7d."),
                                  std::string("7b.zz"), std::string("7b7d.") + std::string(128, '0'),
                                  std::string(100'000, '0'), sign_ticket(central_, ticket_) + "00"}) {
    EXPECT_EQ(refusal(text, against()), Errc::bad_ticket) << text.substr(0, 20);
  }
}

TEST(Login, IsProvenOnItsOwnChannelOnly) {
  const ChannelKeys server = make_channel_keys();
  const ChannelPair channel = connect(server);
  const ChannelPair other = connect(server);
  const SigningKeys device = make_signing_keys();
  wire::Hello hello;
  hello.role = "device";
  sign_hello(device, channel.client.h(), hello);
  EXPECT_TRUE(check_hello(hello, channel.server.h()).has_value());
  EXPECT_EQ(code_of(check_hello(hello, other.server.h())), Errc::auth_failed) << "a recorded login was replayed";
  wire::Hello as_node = hello;
  as_node.role = "node";
  EXPECT_EQ(code_of(check_hello(as_node, channel.server.h())), Errc::auth_failed);
  wire::Hello as_other = hello;
  as_other.key = make_signing_keys().public_key;
  EXPECT_EQ(code_of(check_hello(as_other, channel.server.h())), Errc::auth_failed);
  EXPECT_EQ(code_of(check_hello(hello, {})), Errc::auth_failed) << "a plain connection has no h";

  wire::Enrol enrol;
  sign_enrol(device, channel.client.h(), enrol);
  EXPECT_TRUE(check_enrol(enrol, channel.server.h()).has_value());
  EXPECT_EQ(code_of(check_enrol(enrol, other.server.h())), Errc::auth_failed);
  enrol.signature = hello.signature;
  EXPECT_EQ(code_of(check_enrol(enrol, channel.server.h())), Errc::auth_failed) << "a login's signature enrols nothing";
}

}  // namespace
}  // namespace gearbox::link
