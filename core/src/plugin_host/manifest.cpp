#include "plugin_host/manifest.hpp"

#include <sodium.h>

#include <cctype>
#include <limits>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"
#include "plugin_host/trusted_file.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kSumDigits = 64;
constexpr std::size_t kMaxOptions = 256;

std::optional<std::string> read_sum(const toml::Table& table) {
  if (!table.has("sha256")) return std::nullopt;
  std::string sum = table.text("sha256", "", 1024);
  for (char& digit : sum) digit = static_cast<char>(std::tolower(static_cast<unsigned char>(digit)));
  if (sum.size() == kSumDigits && sum.find_first_not_of("0123456789abcdef") == std::string::npos) return sum;
  if (!sum.empty()) table.fault("sha256", "must be 64 hexadecimal digits (sha256sum NAME.so)");
  return std::nullopt;
}

std::optional<std::uint32_t> read_api(const toml::Table& table, std::string_view key) {
  if (!table.has(key)) return std::nullopt;
  return static_cast<std::uint32_t>(table.integer(key, 1, 1, std::numeric_limits<std::uint32_t>::max()));
}

void read_options(const toml::Table& table, Manifest& manifest) {
  const auto options = table.table("options");
  if (!options) return;
  const std::vector<std::string> keys = options->keys();
  if (keys.size() > kMaxOptions) table.fault("options", "has more than " + std::to_string(kMaxOptions) + " keys");
  for (const std::string& key : keys) {
    // Which options there are, of which type and range, only the library can say: checked once it has been asked.
    if (auto value = options->scalar(key)) manifest.options.emplace(key, std::move(*value));
  }
}

std::string sha256_of(ByteView content) {
  std::array<std::byte, crypto_hash_sha256_BYTES> sum{};
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(sum.data()),
                     reinterpret_cast<const unsigned char*>(content.data()), content.size());
  return to_hex(sum);
}

}  // namespace

fs::path manifest_of(const fs::path& library) {
  fs::path file = library;
  return file.replace_extension(".toml");
}

Outcome<Manifest> read_manifest(const fs::path& library) {
  const fs::path file = manifest_of(library);
  const std::string shown = file.filename().string();
  Outcome<Bytes> content = read_trusted_file(file, toml::kMaxFileBytes);
  if (!content) {
    if (content.error().code == Errc::not_found) return Manifest();
    return Error{Errc::bad_plugin, escaped(shown) + ": " + content.error().detail};
  }
  toml::Faults faults;
  Manifest manifest;
  if (const auto document = toml::Document::parse(std::string(text_of(content.value())), shown, faults)) {
    const toml::Table root = document->root();
    manifest.sha256 = read_sum(root);
    manifest.lowest_api = read_api(root, "lowest_api");
    manifest.highest_api = read_api(root, "highest_api");
    if (manifest.lowest_api && manifest.highest_api && *manifest.lowest_api > *manifest.highest_api)
      root.fault("highest_api", "is below lowest_api");
    read_options(root, manifest);
    document->report_unknown_keys();
  }
  if (!faults.empty()) return Error{Errc::bad_plugin, faults.error().detail};
  return manifest;
}

Outcome<void> check_manifest(const Manifest& manifest, ByteView content, std::string_view kind, std::uint32_t api) {
  if (manifest.sha256) {
    const std::string sum = sha256_of(content);
    if (sum != *manifest.sha256)
      return Error{Errc::bad_plugin, "its sha256 is " + sum + ", but its manifest asks for " + *manifest.sha256};
  }
  const auto outside = [&](std::string_view bound, std::uint32_t number) {
    return Error{Errc::bad_plugin, "the interface of a " + std::string(kind) + " has version " + std::to_string(api) +
                                       ", but its manifest says " + std::string(bound) + " = " +
                                       std::to_string(number)};
  };
  if (manifest.lowest_api && api < *manifest.lowest_api) return outside("lowest_api", *manifest.lowest_api);
  if (manifest.highest_api && api > *manifest.highest_api) return outside("highest_api", *manifest.highest_api);
  return done();
}

}  // namespace gearbox::plugin_host
