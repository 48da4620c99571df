#include "homes.hpp"

#include <gtest/gtest.h>

#include "gearbox/link/keys.hpp"
#include "pictures.hpp"

namespace gearbox::client {
namespace {

TEST(Homes, AreThereForTheNextProcess) {
  const ScratchFolder scratch;
  Homes homes(scratch.path() / "homes");
  const RequestId one = link::random_request_id();
  const RequestId two = link::random_request_id();
  const RequestId gone = link::random_request_id();
  EXPECT_TRUE(homes.load({one}).value().empty());
  ASSERT_TRUE(homes.note(one, "barn", {}));
  ASSERT_TRUE(homes.note(gone, "barn", {}));
  ASSERT_TRUE(homes.note(two, "barn", {}));
  ASSERT_TRUE(homes.note(one, "attic", {}));
  ASSERT_TRUE(homes.note(one, "barn", {}));
  const NodesByRequest known = Homes(scratch.path() / "homes").load({one, two}).value();
  EXPECT_EQ(known, (NodesByRequest{{one, {"barn", "attic"}}, {two, {"barn"}}}));
}

TEST(Homes, LinesThatAreNoneArePassedOver) {
  const ScratchFolder scratch;
  const RequestId id = link::random_request_id();
  scratch.file("homes", "nonsense\n\n" + to_text(id) + "\n" + to_text(id) + " ../../etc\n" + std::string(100, '\0') +
                            "\n" + to_text(id) + " barn\n" + to_text(id) + " att");
  const NodesByRequest known = Homes(scratch.path() / "homes").load({id}).value();
  EXPECT_EQ(known, (NodesByRequest{{id, {"barn"}}}));
}

TEST(Homes, TheFileIsWrittenAnewWhenItHasGrown) {
  const ScratchFolder scratch;
  Homes homes(scratch.path() / "homes");
  const RequestId id = link::random_request_id();
  scratch.file("homes", std::string(2 << 20, '\n'));
  const NodesByRequest live{{id, {"barn"}}};
  ASSERT_TRUE(homes.note(id, "barn", live));
  EXPECT_LT(std::filesystem::file_size(scratch.path() / "homes"), 100U);
  EXPECT_EQ(homes.load({id}).value(), live);
}

}  // namespace
}  // namespace gearbox::client
