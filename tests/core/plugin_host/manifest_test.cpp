#include "plugin_host/manifest.hpp"

#include <gtest/gtest.h>

#include <sodium.h>
#include <sys/stat.h>

#include "core/plugin_host/scratch_folder.hpp"

namespace gearbox::plugin_host {
namespace {

constexpr const char* kSumOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class ManifestTest : public ::testing::Test {
 protected:
  Outcome<Manifest> read(std::string_view text) {
    write_file(folder / "moody.toml", text);
    return read_manifest(library);
  }
  std::string fault_of(std::string_view text) {
    const auto manifest = read(text);
    EXPECT_FALSE(manifest) << text;
    if (manifest) return {};
    EXPECT_EQ(manifest.error().code, Errc::bad_plugin);
    return manifest.error().detail;
  }
  ScratchFolder folder;
  fs::path library = folder / "moody.so";
};

TEST_F(ManifestTest, LiesBesideTheLibrary) {
  EXPECT_EQ(manifest_of("/x/moody.so"), "/x/moody.toml");
  EXPECT_EQ(signature_of("/x/moody.so"), "/x/moody.so.sig");
}

TEST_F(ManifestTest, MayBeMissing) {
  const auto manifest = read_manifest(library);
  ASSERT_TRUE(manifest);
  EXPECT_FALSE(manifest.value().sha256);
  EXPECT_TRUE(manifest.value().options.empty());
  EXPECT_TRUE(check_manifest(manifest.value(), view_of("abc"), "balancer", 7));
}

TEST_F(ManifestTest, SaysWhatTheFileMustBe) {
  const auto manifest = read(
      "sha256 = \"BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD\"\n"
      "lowest_api = 2\nhighest_api = 3\n[options]\nfill = 4\nshare = 0.5\nloud = true\nmood = 'x'\n");
  ASSERT_TRUE(manifest) << manifest.error().detail;
  EXPECT_EQ(manifest.value().sha256, kSumOfAbc);
  EXPECT_EQ(manifest.value().options.size(), 4U);
  EXPECT_EQ(std::get<std::int64_t>(manifest.value().options.at("fill")), 4);
  EXPECT_EQ(std::get<std::string>(manifest.value().options.at("mood")), "x");
  EXPECT_TRUE(check_manifest(manifest.value(), view_of("abc"), "balancer", 2));
  EXPECT_TRUE(check_manifest(manifest.value(), view_of("abc"), "balancer", 3));
  const auto low = check_manifest(manifest.value(), view_of("abc"), "balancer", 1);
  ASSERT_FALSE(low);
  EXPECT_EQ(low.error().detail, "the interface of a balancer has version 1, but its manifest says lowest_api = 2");
  const auto high = check_manifest(manifest.value(), view_of("abc"), "balancer", 4);
  ASSERT_FALSE(high);
  EXPECT_EQ(high.error().detail, "the interface of a balancer has version 4, but its manifest says highest_api = 3");
  const auto other = check_manifest(manifest.value(), view_of("abd"), "balancer", 2);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().detail.find(kSumOfAbc), std::string::npos);
  EXPECT_NE(other.error().detail.find("its sha256 is a52d159f"), std::string::npos) << other.error().detail;
}

TEST_F(ManifestTest, NamesFileLineAndColumnOfEachFault) {
  const std::string faults = fault_of("sha256 = \"12\"\nlowest_ap = 1\nhighest_api = 0\n[options]\nfill = [1]\n");
  EXPECT_NE(faults.find("moody.toml:1:10: sha256: must be 64 hexadecimal digits"), std::string::npos) << faults;
  EXPECT_NE(faults.find("moody.toml:2:1: lowest_ap: "), std::string::npos) << faults;
  EXPECT_NE(faults.find("lowest_api"), std::string::npos) << faults;
  EXPECT_NE(faults.find("moody.toml:3:"), std::string::npos) << faults;
  EXPECT_NE(faults.find("moody.toml:5:"), std::string::npos) << faults;
  EXPECT_NE(fault_of("lowest_api = 3\nhighest_api = 2\n").find("is below lowest_api"), std::string::npos);
  EXPECT_NE(fault_of("sha256 = \n").find("moody.toml:1:"), std::string::npos);
  EXPECT_NE(fault_of("").find("moody.toml: is empty"), std::string::npos);
  EXPECT_NE(fault_of(std::string(300 * 1024, '#')).find("is larger than"), std::string::npos);
}

TEST_F(ManifestTest, IsNotBelievedWhenOthersMayWriteToIt) {
  ASSERT_TRUE(read("lowest_api = 1\n"));
  fs::permissions(folder / "moody.toml", fs::perms(0666));
  const auto manifest = read_manifest(library);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code, Errc::bad_plugin);
  EXPECT_NE(manifest.error().detail.find("moody.toml: others may write to it"), std::string::npos);
  fs::remove(folder / "moody.toml");
  ASSERT_EQ(::mkfifo((folder / "moody.toml").c_str(), 0600), 0);
  EXPECT_FALSE(read_manifest(library));
}

class SignatureTest : public ::testing::Test {
 protected:
  SignatureTest() { link::crypto_ready(); }
  Outcome<void> check(std::string_view content) { return check_signature(library, view_of(content), trusted); }
  ScratchFolder folder;
  fs::path library = write_file(folder / "moody.so", "the library");
  link::SigningKeys keys = link::make_signing_keys();
  std::vector<PublicKey> trusted{link::make_signing_keys().public_key, keys.public_key};
};

TEST_F(SignatureTest, OfATrustedKeyHoldsForThisContentAlone) {
  ASSERT_TRUE(sign_plugin(library, keys));
  EXPECT_EQ(fs::file_size(folder / "moody.so.sig"), 64U);
  EXPECT_FALSE(fs::exists(folder / "moody.so.sig.new"));
  EXPECT_TRUE(check("the library"));
  const auto other = check("the librarx");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::bad_plugin);
  EXPECT_EQ(other.error().detail, "moody.so.sig: is no signature of this file by any of plugins.trusted_keys");
}

TEST_F(SignatureTest, OfAnotherKeyOrPurposeIsNone) {
  ASSERT_TRUE(sign_plugin(library, link::make_signing_keys()));
  EXPECT_FALSE(check("the library"));
  std::array<std::byte, 32> hash{};
  const std::string content = "the library";
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(content.data()), content.size(), nullptr, 0);
  write_file(folder / "moody.so.sig", text_of(link::sign(keys, "gearbox plugin", hash)));
  ASSERT_TRUE(check("the library"));
  const auto ticket = link::sign(keys, "ticket", hash);
  write_file(folder / "moody.so.sig", text_of(ticket));
  EXPECT_FALSE(check("the library"));
  trusted.clear();
  ASSERT_TRUE(sign_plugin(library, keys));
  EXPECT_FALSE(check("the library"));
}

TEST_F(SignatureTest, ThatIsMissingCutOrLongerIsToldSo) {
  const auto missing = check("the library");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::bad_plugin);
  EXPECT_NE(missing.error().detail.find("is not signed"), std::string::npos);
  ASSERT_TRUE(sign_plugin(library, keys));
  const std::string whole = content_of(folder / "moody.so.sig");
  write_file(folder / "moody.so.sig", whole.substr(0, 63));
  EXPECT_EQ(check("the library").error().detail, "moody.so.sig: has 63 bytes, a signature has 64");
  write_file(folder / "moody.so.sig", whole + "\n");
  EXPECT_FALSE(check("the library"));
  write_file(folder / "moody.so.sig", "");
  EXPECT_FALSE(check("the library"));
}

TEST_F(SignatureTest, IsMadeAnewForAnotherBuild) {
  ASSERT_TRUE(sign_plugin(library, keys));
  write_file(library, "the next one");
  ASSERT_TRUE(sign_plugin(library, keys));
  EXPECT_TRUE(check("the next one"));
  EXPECT_FALSE(check("the library"));
  const auto none = sign_plugin(folder / "none.so", keys);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::bad_plugin);
  EXPECT_FALSE(fs::exists(folder / "none.so.sig"));
}

}  // namespace
}  // namespace gearbox::plugin_host
