// manifest.hpp: what may lie beside a plugin's NAME.so in the drop folder: NAME.toml, which says what the file must be,
// and NAME.so.sig, which says who vouches for it.
//
//   # NAME.toml; every key may be missing
//   sha256 = "64 hexadecimal digits"   # of NAME.so
//   lowest_api = 1                     # versions of its kind's interface that it was made for
//   highest_api = 1
//   [options]                          # its options; [plugins.NAME] in gearbox.toml goes before them, key by key
//   queue_limit = 64
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "gearbox/base/bytes.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/link/keys.hpp"

namespace gearbox::plugin_host {

struct Manifest {
  std::optional<std::string> sha256;  // lower-case hex
  std::optional<std::uint32_t> lowest_api, highest_api;
  std::map<std::string, config::OptionValue> options;
};

/// NAME.toml beside `library`; an empty manifest when there is none. Errors: bad_plugin: each fault with file, line and
/// column; its owner or mode cannot be trusted.
Outcome<Manifest> read_manifest(const std::filesystem::path& library);
/// Does `content` have the sum and `api` the number that the manifest asks for? Errors: bad_plugin, with both values.
Outcome<void> check_manifest(const Manifest& manifest, ByteView content, std::string_view kind, std::uint32_t api);

std::filesystem::path manifest_of(const std::filesystem::path& library);   // NAME.toml
std::filesystem::path signature_of(const std::filesystem::path& library);  // NAME.so.sig

/// Is NAME.so.sig a signature of `content` by one of `trusted`? Errors: bad_plugin: missing, of another size, by nobody
/// who is trusted.
Outcome<void> check_signature(const std::filesystem::path& library, ByteView content,
                              const std::vector<PublicKey>& trusted);
/// Puts the signature of `library` beside its private copy, for later: a build that is put back must be vouched for as
/// well. Errors: io_error, no_space.
Outcome<void> keep_signature(const std::filesystem::path& library, const std::filesystem::path& copy);
/// Writes NAME.so.sig beside `library` (beside and renamed into place). Errors: bad_plugin when the library cannot be
/// read; io_error.
Outcome<void> sign_plugin(const std::filesystem::path& library, const link::SigningKeys& keys);

}  // namespace gearbox::plugin_host
