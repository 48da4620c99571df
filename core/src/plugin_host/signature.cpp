// NAME.so.sig: 64 bytes, an Ed25519 signature for the purpose "gearbox plugin" over the BLAKE2b-256 hash of NAME.so:
// the checksum that the lists show.
#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "gearbox/base/text.hpp"
#include "plugin_host/manifest.hpp"
#include "plugin_host/private_copy.hpp"
#include "plugin_host/trusted_file.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPurpose = "gearbox plugin";
constexpr std::size_t kSignatureBytes = 64;

std::array<std::byte, 32> hash_of(ByteView content) {
  std::array<std::byte, 32> hash{};
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(content.data()), content.size(), nullptr, 0);
  return hash;
}

Error failed(const fs::path& file, int number) {
  return Error{Errc::io_error, file.string() + ": " + std::generic_category().message(number)};
}

Outcome<void> write_durably(const fs::path& file, ByteView content, mode_t mode) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
  if (descriptor < 0) return failed(file, errno);
  const ssize_t put = ::write(descriptor, content.data(), content.size());
  const bool whole = put == static_cast<ssize_t>(content.size()) && ::fsync(descriptor) == 0;
  const int number = put >= 0 && put != static_cast<ssize_t>(content.size()) ? ENOSPC : errno;
  ::close(descriptor);
  if (!whole) return failed(file, number);
  return done();
}

}  // namespace

fs::path signature_of(const fs::path& library) {
  fs::path file = library;
  return file += ".sig";
}

Outcome<void> check_signature(const fs::path& library, ByteView content, const std::vector<PublicKey>& trusted) {
  const fs::path file = signature_of(library);
  const std::string shown = escaped(file.filename().string());
  const Outcome<Bytes> signature = read_bounded_file(file, kSignatureBytes);
  if (!signature) {
    if (signature.error().code == Errc::not_found) {
      return Error{Errc::bad_plugin, "is not signed: plugins.trusted_keys is set and there is no " + shown +
                                         "; try: broker plugins sign"};
    }
    return Error{Errc::bad_plugin, shown + ": " + signature.error().detail};
  }
  if (signature.value().size() != kSignatureBytes) {
    return Error{Errc::bad_plugin, shown + ": has " + std::to_string(signature.value().size()) +
                                       " bytes, a signature has " + std::to_string(kSignatureBytes)};
  }
  const auto hash = hash_of(content);
  const bool vouched = std::any_of(trusted.begin(), trusted.end(), [&](const PublicKey& key) {
    return link::verify(key, kPurpose, hash, signature.value());
  });
  if (vouched) return done();
  return Error{Errc::bad_plugin, shown + ": is no signature of this file by any of plugins.trusted_keys"};
}

namespace {

Outcome<void> write_signature(const fs::path& file, ByteView signature, mode_t mode) {
  const fs::path beside = file.string() + "." + std::to_string(::getpid()) + ".new";  // roles write the same one
  if (const Outcome<void> written = write_durably(beside, signature, mode); !written) {
    ::unlink(beside.c_str());
    return written.error();
  }
  if (::rename(beside.c_str(), file.c_str()) == 0) return done();
  const int number = errno;
  ::unlink(beside.c_str());
  return failed(file, number);
}

}  // namespace

Outcome<void> keep_signature(const fs::path& library, const fs::path& copy) {
  const Outcome<Bytes> signature = read_bounded_file(signature_of(library), kSignatureBytes);
  if (!signature) return Error{Errc::io_error, signature.error().detail};
  const Outcome<Bytes> kept = read_bounded_file(signature_of(copy), kSignatureBytes);
  if (kept && kept.value() == signature.value()) return done();
  return write_signature(signature_of(copy), signature.value(), 0600);
}

Outcome<void> sign_plugin(const fs::path& library, const link::SigningKeys& keys) {
  const Outcome<Bytes> content = read_bounded_file(library, kMaxPluginBytes);
  if (!content) return Error{Errc::bad_plugin, library.string() + ": " + content.error().detail};
  const auto signature = link::sign(keys, kPurpose, hash_of(content.value()));
  return write_signature(signature_of(library), signature, 0644);
}

}  // namespace gearbox::plugin_host
