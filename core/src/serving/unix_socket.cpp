#include "serving/unix_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::serving {

namespace {

constexpr int kBacklog = 128;

Error failure(const std::string& what, const std::filesystem::path& path, int number) {
  return Error{Errc::io_error, what + " " + escaped(path.string()) + ": " + std::generic_category().message(number)};
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// The socket `name` in an open folder: sun_path holds 108 bytes only, and a state folder may lie deeper than that.
Outcome<sockaddr_un> address_of(const Descriptor& folder, const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string text = path.native();
  if (text.size() >= sizeof(address.sun_path)) {
    text = "/proc/self/fd/" + std::to_string(folder.get()) + "/" + path.filename().native();
  }
  if (text.size() >= sizeof(address.sun_path))
    return Error{Errc::io_error, escaped(path.string()) + ": the name is too long"};
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

/// Does somebody accept connections there? Errors: io_error, when that cannot be told.
Outcome<bool> answers(const sockaddr_un& address, const std::filesystem::path& path) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return failure("cannot make a socket for", path, errno);
  if (::connect(socket.get(), generic(address), sizeof(address)) == 0 || errno == EAGAIN)
    return true;  // EAGAIN: very busy
  if (errno == ECONNREFUSED || errno == ENOENT) return false;
  return failure("cannot connect to", path, errno);
}

}  // namespace

Outcome<UnixListener> UnixListener::open(const std::filesystem::path& path) {
  // Two starters at once: the check, the removal and the new name happen under a lock on the folder.
  const Descriptor folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return failure("cannot open", path.parent_path(), errno);
  while (::flock(folder.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return failure("cannot lock", path.parent_path(), errno);
  }

  BOOST_OUTCOME_TRY(const sockaddr_un address, address_of(folder, path));

  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode))
      return Error{Errc::io_error, escaped(path.string()) + " is in the way: it is no socket"};
    BOOST_OUTCOME_TRY(const bool served, answers(address, path));
    if (served) return Error{Errc::io_error, "another process serves " + escaped(path.string())};
    if (::unlink(path.c_str()) != 0) return failure("cannot remove the old", path, errno);
  }

  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return failure("cannot make a socket for", path, errno);
  ::fchmod(socket.get(), 0600);  // before bind: the name then never has another mode; checked below
  if (::bind(socket.get(), generic(address), sizeof(address)) != 0) return failure("cannot bind", path, errno);
  UnixListener listener;
  struct stat made {};
  if (::listen(socket.get(), kBacklog) != 0 || ::lstat(path.c_str(), &made) != 0 ||
      ((made.st_mode & 0777U) != 0600U && ::chmod(path.c_str(), 0600) != 0)) {
    const int number = errno;
    ::unlink(path.c_str());
    return failure("cannot listen on", path, number);
  }
  listener.path_ = path;
  listener.descriptor_ = socket.release();
  listener.device_ = made.st_dev;
  listener.inode_ = made.st_ino;
  return listener;
}

UnixListener::UnixListener(UnixListener&& other) noexcept {
  *this = std::move(other);
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  if (this == &other) return *this;
  end();
  path_ = std::exchange(other.path_, {});
  descriptor_ = std::exchange(other.descriptor_, -1);
  device_ = other.device_;
  inode_ = other.inode_;
  return *this;
}

UnixListener::~UnixListener() {
  end();
}

int UnixListener::give_away() {
  return std::exchange(descriptor_, -1);
}

void UnixListener::end() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (path_.empty()) return;
  struct stat found {};
  if (::lstat(path_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_) ::unlink(path_.c_str());
  path_.clear();
}

Outcome<plugin::Connection> accept_unix(int listening) {
  const int descriptor = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) {
    switch (errno) {
      case EAGAIN:
        return Error{Errc::short_frame, {}};
      case ECONNABORTED:
      case EINTR:
        return Error{Errc::closed, {}};
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return Error{Errc::no_space, std::generic_category().message(errno)};
      default:
        return Error{Errc::io_error, "accept: " + std::generic_category().message(errno)};
    }
  }
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  const bool known = ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  if (!known || (peer.uid != ::geteuid() && peer.uid != 0)) {
    ::close(descriptor);
    return Error{Errc::closed, {}};
  }
  plugin::Connection connection;
  connection.descriptor = descriptor;
  connection.peer = "pid " + std::to_string(peer.pid) + " uid " + std::to_string(peer.uid);
  connection.peer_group = "uid " + std::to_string(peer.uid);
  return connection;
}

}  // namespace gearbox::serving
