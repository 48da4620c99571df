#include "serving/local_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace gearbox::serving {

namespace {

Error failed(const std::filesystem::path& path, const char* what, Errc code = Errc::io_error) {
  return Error{code, path.string() + ": " + what + ": " + std::strerror(errno)};
}

/// A socket address for `path`. sun_path holds 108 bytes only, so a longer path goes through a descriptor of its
/// folder.
class Address {
 public:
  explicit Address(const std::filesystem::path& path) {
    address_.sun_family = AF_UNIX;
    std::string text = path.string();
    if (text.size() >= sizeof(address_.sun_path)) {
      folder_ = ::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
      text = "/proc/self/fd/" + std::to_string(folder_) + "/" + path.filename().string();
    }
    fits_ = text.size() < sizeof(address_.sun_path);
    if (fits_) std::memcpy(address_.sun_path, text.c_str(), text.size() + 1);
  }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;
  ~Address() {
    if (folder_ >= 0) ::close(folder_);
  }
  bool fits() const { return fits_; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  sockaddr_un address_{};
  int folder_ = -1;
  bool fits_ = false;
};

}  // namespace

Outcome<int> connect_local(const std::filesystem::path& path) {
  const Address address(path);
  if (!address.fits()) return Error{Errc::unreachable, path.string() + ": the name is too long for a socket"};
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failed(path, "socket", Errc::unreachable);
  if (::connect(descriptor, address.get(), Address::size()) != 0) {
    const Error error = failed(path, "connect", Errc::unreachable);
    ::close(descriptor);
    return error;
  }
  return descriptor;
}

Outcome<PeerIdentity> peer_of(int descriptor) {
  ucred who{};
  socklen_t size = sizeof(who);
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
    return Error{Errc::io_error, std::string("SO_PEERCRED: ") + std::strerror(errno)};
  }
  return PeerIdentity{who.pid, who.uid};
}

}  // namespace gearbox::serving
