// Key pairs on disk: one small text file each.
//
//   gearbox key 1 channel          (or "signing")
//   public <64 hex digits>         for people; checked against the secret, which shows a cut or altered file
//   secret <64 hex digits>         signing: the Ed25519 seed
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "gearbox/link/keys.hpp"
#include "link/bytes_cast.hpp"

namespace gearbox::link {
namespace fs = std::filesystem;

namespace {

/// A descriptor that closes itself.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// Text that holds a secret; wiped on destruction.
struct SecretText {
  std::string text;
  ~SecretText() { wipe(std::as_writable_bytes(std::span(text.data(), text.size()))); }
};

Error io(const fs::path& file, std::string_view what) {
  return Error{Errc::io_error, file.string() + ": " + std::string(what) + ": " + std::strerror(errno)};
}
Error bad(const fs::path& file, std::string_view why) {
  return Error{Errc::bad_config, "key file " + file.string() + ": " + std::string(why)};
}

/// 32 secret bytes and the public key that belongs to them.
struct Pair {
  std::array<std::byte, 32> public_key{};
  std::array<std::byte, 32> secret{};
  ~Pair() { wipe(secret); }
};

/// What differs between the two kinds of keys.
struct KeyKind {
  std::string_view name;
  void (*fill)(Pair& pair);  // sets the public key from the secret
};

constexpr KeyKind kChannel{"channel",
                           [](Pair& pair) { crypto_scalarmult_base(raw(pair.public_key), raw(pair.secret)); }};

constexpr KeyKind kSigning{"signing", [](Pair& pair) {
                             std::array<std::byte, 64> expanded;
                             crypto_sign_seed_keypair(raw(pair.public_key), raw(expanded), raw(pair.secret));
                             wipe(expanded);
                           }};

std::string text_of_pair(const KeyKind& kind, const Pair& pair) {
  SecretText hex;
  hex.text.resize(65);
  sodium_bin2hex(hex.text.data(), hex.text.size(), raw(pair.secret), pair.secret.size());
  std::string text;
  text.reserve(256);  // so that no half-grown copy of the secret is left behind
  text.append("gearbox key 1 ")
      .append(kind.name)
      .append("\npublic ")
      .append(to_hex(pair.public_key))
      .append("\nsecret ");
  text.append(hex.text.data(), 64).append("\n");
  return text;
}

/// Takes `expected` or 64 hex digits from the front of `text`.
bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}
bool take_hex(std::string_view& text, ByteSpan out) {
  if (text.size() < out.size() * 2 || !from_hex(text.substr(0, out.size() * 2), out)) return false;
  text.remove_prefix(out.size() * 2);
  return true;
}

Outcome<void> parse_pair(const fs::path& file, const KeyKind& kind, std::string_view text, Pair& into) {
  if (!take(text, "gearbox key 1 ")) return bad(file, "no key file of version 1 (empty or cut?)");
  if (!take(text, kind.name) || !take(text, "\n")) return bad(file, "not a " + std::string(kind.name) + " key");
  std::array<std::byte, 32> told{};
  if (!take(text, "public ") || !take_hex(text, told) || !take(text, "\nsecret ") || !take_hex(text, into.secret) ||
      text != "\n") {
    return bad(file, "cut or altered");
  }
  kind.fill(into);
  if (told != into.public_key) return bad(file, "altered: the public key does not belong to the secret one");
  return done();
}

/// The folder must be ours alone to change: whoever may rename there may give us another identity.
Outcome<void> check_folder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return io(folder, "stat");
  if ((info.st_mode & 022) != 0) return bad(file, "its folder may be written by others (chmod go-w)");
  return done();
}

/// False when there is no such file.
Outcome<bool> read_pair(const fs::path& file, const KeyKind& kind, Pair& into) {
  const File opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!opened.is_open()) {
    if (errno == ENOENT) return false;
    if (errno == ELOOP) return bad(file, "is a symbolic link");
    return io(file, "open");
  }
  struct stat info {};
  if (::fstat(opened.get(), &info) != 0) return io(file, "fstat");
  if (!S_ISREG(info.st_mode)) return bad(file, "not a regular file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return bad(file, "belongs to another user");
  if ((info.st_mode & 077) != 0) return bad(file, "may be read by others (chmod 600)");
  BOOST_OUTCOME_TRY(check_folder(file));
  SecretText content;
  content.text.resize(512);
  const ssize_t got = ::read(opened.get(), content.text.data(), content.text.size());
  if (got < 0) return io(file, "read");
  BOOST_OUTCOME_TRY(
      parse_pair(file, kind, std::string_view(content.text).substr(0, static_cast<std::size_t>(got)), into));
  return true;
}

Outcome<void> write_durably(const fs::path& file, std::string_view text) {
  const File made(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!made.is_open()) return io(file, "create");
  while (!text.empty()) {
    const ssize_t wrote = ::write(made.get(), text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return io(file, "write");
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (::fsync(made.get()) != 0) return io(file, "fsync");
  return done();
}

/// False when another process was first; its file is then to be read.
Outcome<bool> write_pair(const fs::path& file, const KeyKind& kind, const Pair& pair) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored_exists;
  if (!fs::exists(folder, ignored_exists)) {
    std::error_code error;
    if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
    if (error) return Error{Errc::io_error, folder.string() + ": " + error.message()};
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return io(folder, "mkdir");
  }
  BOOST_OUTCOME_TRY(check_folder(file));
  std::array<std::byte, 8> suffix{};
  fill_random(suffix);
  const fs::path beside = file.string() + "." + to_hex(suffix) + ".new";
  SecretText content{text_of_pair(kind, pair)};
  Outcome<void> written = write_durably(beside, content.text);
  if (!written) {
    ::unlink(beside.c_str());
    return written.error();
  }
  // link(), not rename(): it never replaces the key of a process that was faster.
  const int linked = ::link(beside.c_str(), file.c_str());
  const int why = errno;
  ::unlink(beside.c_str());
  if (linked != 0) {
    if (why == EEXIST) return false;
    errno = why;
    return io(file, "link");
  }
  const File opened_folder(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened_folder.is_open() || ::fsync(opened_folder.get()) != 0) return io(folder, "fsync");
  return true;
}

Outcome<void> load_or_make(const fs::path& file, const KeyKind& kind, Pair& into) {
  crypto_ready();
  BOOST_OUTCOME_TRY(const bool found, read_pair(file, kind, into));
  if (found) return done();
  fill_random(into.secret);
  kind.fill(into);
  BOOST_OUTCOME_TRY(const bool ours, write_pair(file, kind, into));
  if (ours) return done();
  BOOST_OUTCOME_TRY(const bool there, read_pair(file, kind, into));
  if (!there) return Error{Errc::io_error, file.string() + ": appeared and vanished again"};
  return done();
}

}  // namespace

Outcome<ChannelKeys> load_or_make_channel_keys(const fs::path& file) {
  Pair pair;
  BOOST_OUTCOME_TRY(load_or_make(file, kChannel, pair));
  ChannelKeys keys;
  keys.public_key = pair.public_key;
  keys.secret_key = pair.secret;
  return keys;
}

Outcome<SigningKeys> load_or_make_signing_keys(const fs::path& file) {
  Pair pair;
  BOOST_OUTCOME_TRY(load_or_make(file, kSigning, pair));
  SigningKeys keys;
  crypto_sign_seed_keypair(raw(keys.public_key.bytes), raw(keys.secret_key), raw(pair.secret));
  return keys;
}

}  // namespace gearbox::link
