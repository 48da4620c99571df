// Greeter and CuttingRelay: plain threads and poll(), so that nothing of what is tested carries their bytes.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "support/fake_node.hpp"

namespace gearbox::test {

namespace {

/// False when `wake` rang first.
bool wait_readable(int descriptor, int wake) {
  std::array<pollfd, 2> waiting{pollfd{descriptor, POLLIN, 0}, pollfd{wake, POLLIN, 0}};
  while (::poll(waiting.data(), waiting.size(), -1) < 0) {
  }
  return waiting[1].revents == 0;
}

void start_listening(transport_tcp::TcpTransport& transport, std::string& url, int& listening, int& wake) {
  Outcome<plugin::Listening> made = transport.listen("tcp://127.0.0.1:0");
  wake = ::eventfd(0, EFD_CLOEXEC);
  if (!made || wake < 0) std::abort();
  url = made.value().url;
  listening = made.value().descriptor;
}

void end_thread(std::thread& thread, int listening, int wake) {
  const std::uint64_t one = 1;
  if (::write(wake, &one, sizeof one) != sizeof one) std::abort();
  thread.join();
  ::close(listening);
  ::close(wake);
}

/// Writes all, waiting while the socket is full; false when it is gone or `wake` rang.
bool write_all(int to, int wake, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::send(to, bytes, size, MSG_NOSIGNAL);
    if (written > 0) {
      bytes += written;
      size -= static_cast<std::size_t>(written);
      continue;
    }
    if (written < 0 && errno != EAGAIN && errno != EINTR) return false;
    std::array<pollfd, 2> waiting{pollfd{to, POLLOUT, 0}, pollfd{wake, POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), -1) > 0 && waiting[1].revents != 0) return false;
  }
  return true;
}

void reset(int descriptor) {
  const linger now{1, 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(descriptor);
}

}  // namespace

Greeter::Greeter(std::string greeting) : greeting_(std::move(greeting)) {
  start_listening(transport_, url_, listening_, wake_);
  thread_ = std::thread([this] { serve(); });
}

Greeter::~Greeter() {
  end_thread(thread_, listening_, wake_);
}

void Greeter::serve() {
  std::vector<int> open;
  while (wait_readable(listening_, wake_)) {
    Outcome<plugin::Connection> connection = transport_.accept(listening_);
    if (!connection) continue;
    open.push_back(connection.value().descriptor);
    write_all(open.back(), wake_, greeting_.data(), greeting_.size());
  }
  for (const int descriptor : open) ::close(descriptor);
}

CuttingRelay::CuttingRelay(std::string target, std::vector<std::uint64_t> cut_after)
    : target_(std::move(target)), cut_after_(std::move(cut_after)) {
  start_listening(transport_, url_, listening_, wake_);
  thread_ = std::thread([this] { serve(); });
}

CuttingRelay::~CuttingRelay() {
  end_thread(thread_, listening_, wake_);
}

void CuttingRelay::serve() {
  // One connection at a time: clients under test hold one, and come back when it is cut.
  while (wait_readable(listening_, wake_)) {
    Outcome<plugin::Connection> client = transport_.accept(listening_);
    if (!client) continue;
    const int from = client.value().descriptor;
    Outcome<plugin::Connection> server = transport_.connect(target_, after(Clock::now(), seconds(5)));
    if (!server) {
      ::close(from);
      continue;
    }
    const int to = server.value().descriptor;
    const std::size_t number = connections_++;
    std::uint64_t left = number < cut_after_.size() ? cut_after_[number] : ~0ULL;
    std::vector<char> buffer(16 * 1024);
    bool going = true;
    while (going && left > 0) {
      std::array<pollfd, 3> waiting{pollfd{from, POLLIN, 0}, pollfd{to, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
      if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[2].revents != 0) going = false;
      if (going && waiting[0].revents != 0) {
        const ssize_t got = ::recv(from, buffer.data(), std::min<std::uint64_t>(buffer.size(), left), 0);
        if (got > 0) left -= static_cast<std::uint64_t>(got);
        going = got > 0 && write_all(to, wake_, buffer.data(), static_cast<std::size_t>(got));
      }
      if (going && waiting[1].revents != 0) {
        const ssize_t got = ::recv(to, buffer.data(), buffer.size(), 0);
        going = got > 0 && write_all(from, wake_, buffer.data(), static_cast<std::size_t>(got));
      }
    }
    if (left == 0) {
      reset(from);
      reset(to);
    } else {
      ::close(from);
      ::close(to);
    }
  }
}

}  // namespace gearbox::test
