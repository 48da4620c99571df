#include "config/versions.hpp"

#include <gmock/gmock.h>

#include "config/config.hpp"

namespace gearbox::config {
namespace {

struct Case {
  const char* asked;
  const char* version;
  bool admitted;
};

class Admits : public ::testing::TestWithParam<Case> {};

TEST_P(Admits, ThoseThatItNames) {
  const Case& one = GetParam();
  EXPECT_EQ(asked_fault(one.asked), "");
  EXPECT_EQ(admits(one.asked, one.version), one.admitted) << one.asked << " " << one.version;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Admits,
    ::testing::Values(Case{"latest", "1.2", true}, Case{"", "anything", true}, Case{"*", "3", true},
                      // exact: as it is written
                      Case{"1.2", "1.2", true}, Case{"1.2", "1.2.0", false}, Case{"1.2", "1.20", false},
                      Case{"1.2", "1.1", false},
                      // comparisons: as numbers
                      Case{">=1.2,<2", "1.2", true}, Case{">=1.2,<2", "1.10", true}, Case{">=1.2,<2", "1.99.99", true},
                      Case{">=1.2,<2", "1.1.9", false}, Case{">=1.2,<2", "2", false}, Case{">=1.2,<2", "2.0", false},
                      Case{">=1.2,<2", "2.rc1", false}, Case{">=1.2,<2", "1.9.rc1", true}, Case{"<2", "2.0.1", false},
                      Case{"<2", "1", true}, Case{">1.2", "1.2.0", false}, Case{">1.2", "1.2.1", true},
                      Case{"<=1.2", "1.2.0", true}, Case{"<=1.2", "1.2.1", false}, Case{"=1.2", "1.2.0", true},
                      Case{"=1.2", "1.3", false}, Case{"!=1.2", "1.2.0", false}, Case{"!=1.2", "1.3", true},
                      Case{">=1,!=1.5", "1.5", false}, Case{" >= 1.2 , < 2 ", "1.5", true},
                      // nearly the same
                      Case{"~1.2", "1.2", true}, Case{"~1.2", "1.2.9", true}, Case{"~1.2", "1.3", false},
                      Case{"~1.2", "1.1", false}, Case{"~1.2", "1.3.rc1", false}, Case{"~1", "1.9", true},
                      Case{"~1", "2", false}, Case{"~1", "0.9", false}, Case{"~1.2.3", "1.2.3", true},
                      Case{"~1.2.3", "1.2.2", false}, Case{"~1.2.3", "1.2.10", true}, Case{"~1.2.3", "1.3", false},
                      // by its beginning
                      Case{"1.*", "1.0", true}, Case{"1.*", "1", true}, Case{"1.*", "10.1", false},
                      Case{"1.*", "2", false}, Case{"1.2.*", "1.2.7", true}, Case{"1.2.*", "1.20", false},
                      Case{"1.*,>=1.5", "1.4", false}, Case{"1.*,>=1.5", "1.6", true}));

TEST(AskedFault, SaysWhatIsWrongAndWhatIsValid) {
  for (const char* wrong : {">=", "1.2,", ",1.2", ">=1.2,2", "=>1.2", ">=1.2 <2", "~", "~>1.2", "1.*.2", "*.1",
                            ">=../x", "1.2 ", "^1.2", "==1", ">=1.2,<", "1.2|1.3"}) {
    EXPECT_THAT(asked_fault(wrong), ::testing::HasSubstr("no version and no comparison; valid are")) << wrong;
    EXPECT_FALSE(admits(wrong, "1.2")) << wrong;
  }
  EXPECT_THAT(asked_fault(">=" + std::string(200, '1')), ::testing::HasSubstr("longer than 128 bytes"));
}

TEST(AskedFault, SaysThatARangeIsEmptyInItself) {
  for (const char* empty : {">2,<1", ">1,<1", ">=1,<1", ">1,<=1", "=1,=2", "1.*,>=2", "1.*,<1", "1.*,2.*", "~1.2,>=2",
                            "~1.2,<1.2", "2.1.*,<2"}) {
    EXPECT_THAT(asked_fault(empty), ::testing::HasSubstr("is an empty range")) << empty;
  }
  for (const char* fine : {">=1,<=1", ">1,<2", "*", "1.*,>=1.5", "~1.2,<2", "1.*,1.2.*", "1.*,!=1.9", "<2,<1", ">=1,>2",
                           "1.*,<2", "1.*,>=1", "<=1.5,1.*"}) {
    EXPECT_EQ(asked_fault(fine), "") << fine;
  }
}

TEST(FindModel, OfARangeIsTheNewestInside) {
  Config config;
  for (const char* version : {"0.9", "1.2", "1.10", "2.0"}) {
    model::Record& record = config.models.emplace_back();
    record.name = "m";
    record.version = version;
  }
  EXPECT_EQ(find_model(config, "m", ">=1,<2")->version, "1.10");
  EXPECT_EQ(find_model(config, "m", "~1.2")->version, "1.2");
  EXPECT_EQ(find_model(config, "m", "*")->version, "2.0");
  EXPECT_EQ(find_model(config, "m", ">=3"), nullptr);
}

}  // namespace
}  // namespace gearbox::config
