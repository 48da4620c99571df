#include "plugin_host/elf_check.hpp"

#include <gmock/gmock.h>

#include <random>

#include "fixture_files.hpp"

namespace gearbox::plugin_host {
namespace {

using ::testing::HasSubstr;

std::string reason(std::string_view content) {
  const auto checked = check_elf(view_of(content));
  return checked ? std::string() : checked.error().detail;
}

TEST(ElfCheck, TakesAWholeLibrary) {
  EXPECT_EQ(reason(content_of(fixture("moody_a"))), "");
}

TEST(ElfCheck, RefusesALibraryCutAnywhere) {
  const std::string whole = content_of(fixture("moody_a"));
  EXPECT_NE(reason(std::string_view(whole).substr(0, whole.size() - 1)), "") << "by one byte";
  EXPECT_NE(reason(std::string_view(whole).substr(0, whole.size() / 2)), "");
  EXPECT_NE(reason(std::string_view(whole).substr(0, 2000)), "");
  EXPECT_NE(reason(std::string_view(whole).substr(0, 64)), "");
  EXPECT_THAT(reason(std::string_view(whole).substr(0, 20)), HasSubstr("is cut"));
  const std::size_t step = whole.size() / 997 + 1;
  for (std::size_t length = 0; length < whole.size(); length += step) {
    EXPECT_NE(reason(std::string_view(whole).substr(0, length)), "") << length;
  }
}

TEST(ElfCheck, SaysWhatAFileIsThatIsNoLibrary) {
  EXPECT_EQ(reason(""), "is empty");
  EXPECT_EQ(reason("not a library\n"), "is no library (no ELF magic)");
  EXPECT_EQ(reason(content_of(GEARBOX_CHECKER)), "exports no gearbox_plugin");
}

TEST(ElfCheck, RefusesAnotherMachine) {
  std::string other = content_of(fixture("moody_a"));
  other[18] = '\x28';  // e_machine: 32-bit ARM
  other[19] = '\0';
  EXPECT_THAT(reason(other), HasSubstr("is for another machine (ELF number 40"));
}

TEST(ElfCheck, RefusesUniqueSymbolsByName) {
  EXPECT_THAT(reason(content_of(fixture("unique_symbol"))), HasSubstr("and could never be unloaded"));
}

TEST(ElfCheck, RefusesALibraryWithoutTheEntryOrWithASmallOne) {
  EXPECT_EQ(reason(content_of(fixture("no_entry"))), "exports no gearbox_plugin");
  EXPECT_EQ(reason(content_of(fixture("tiny_entry"))), "exports a gearbox_plugin that is no descriptor");
}

TEST(ElfCheck, NeverReadsOutsideWhateverTheHeadersSay) {
  // Random bytes over header and section table; the sanitizer builds see any read outside.
  const std::string whole = content_of(fixture("moody_a"));
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string spoilt = whole;
    for (int change = 0; change < 4; ++change) {
      const std::size_t at = random() % 2 == 0 ? random() % 512 : spoilt.size() - 1 - random() % 2048;
      spoilt[at] = static_cast<char>(random());
    }
    if (!reason(spoilt).empty()) ++refused;
  }
  EXPECT_GT(refused, 100U);
}

}  // namespace
}  // namespace gearbox::plugin_host
