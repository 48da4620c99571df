// delaying_proxy.hpp: a far network in front of a server on a unix socket: whatever goes through comes later.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gearbox/base/clock.hpp"

namespace gearbox::testing {

/// Listens at 127.0.0.1; a thread of its own carries the bytes. Each piece arrives `delay` after it was sent.
class DelayingProxy {
 public:
  DelayingProxy(std::filesystem::path server, milliseconds delay)
      : server_(std::move(server)), delay_(delay), listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::listen(listening_, 16), 0);
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    port_ = ntohs(address.sin_port);
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    thread_ = std::thread([this] { carry(); });
  }
  DelayingProxy(const DelayingProxy&) = delete;
  DelayingProxy& operator=(const DelayingProxy&) = delete;
  ~DelayingProxy() {
    ::eventfd_write(stop_, 1);
    thread_.join();
    ::close(listening_);
    ::close(stop_);
  }
  int port() const { return port_; }

 private:
  struct Piece {
    Instant due;
    std::string bytes;
  };
  struct Way {  // from one socket to another
    int from = -1, to = -1;
    std::deque<Piece> pieces;
    bool ended = false;
  };
  struct Pair {
    Way there, back;
    ~Pair() {
      ::close(there.from);
      ::close(there.to);
    }
  };

  void carry() {
    for (;;) {
      std::vector<pollfd> asked = {{stop_, POLLIN, 0}, {listening_, POLLIN, 0}};
      int wait = 1'000;
      for (const auto& pair : pairs_) {
        for (const Way* way : {&pair->there, &pair->back}) {
          asked.push_back({way->ended ? -1 : way->from, POLLIN, 0});
          if (way->pieces.empty()) continue;
          const auto left = std::chrono::ceil<milliseconds>(way->pieces.front().due - Clock::now()).count();
          wait = std::min(wait, std::max(0, static_cast<int>(left)));
        }
      }
      ::poll(asked.data(), asked.size(), wait);
      if (asked[0].revents != 0) break;
      std::size_t place = 2;
      for (const auto& pair : pairs_) {
        for (Way* way : {&pair->there, &pair->back}) {
          if (asked[place++].revents != 0) take(*way);
          give(*way);
        }
      }
      std::erase_if(pairs_, [](const auto& pair) {
        return (pair->there.ended && pair->there.pieces.empty()) || (pair->back.ended && pair->back.pieces.empty());
      });
      if (asked[1].revents != 0) accept();
    }
    pairs_.clear();
  }
  void accept() {
    auto pair = std::make_unique<Pair>();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, server_.c_str(), sizeof(address.sun_path) - 1);
    const int near = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    const int far = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair->there.from = pair->back.to = near;
    pair->there.to = pair->back.from = far;
    if (::connect(far, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) pairs_.push_back(std::move(pair));
  }
  void take(Way& way) const {
    std::array<char, 16'384> room;
    const ssize_t got = ::recv(way.from, room.data(), room.size(), 0);
    way.ended = got <= 0;
    if (got > 0) way.pieces.push_back({after(Clock::now(), delay_), std::string(room.data(), got)});
  }
  static void give(Way& way) {
    for (; !way.pieces.empty() && way.pieces.front().due <= Clock::now(); way.pieces.pop_front()) {
      const std::string& bytes = way.pieces.front().bytes;
      ::send(way.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  }

  std::filesystem::path server_;
  milliseconds delay_;
  int listening_, stop_ = -1, port_ = 0;
  std::vector<std::unique_ptr<Pair>> pairs_;  // of the thread
  std::thread thread_;
};

}  // namespace gearbox::testing
