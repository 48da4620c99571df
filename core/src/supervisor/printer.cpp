#include "supervisor/printer.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>

namespace gearbox::supervisor {

struct Printer::Queue {
  std::mutex mutex;
  std::condition_variable more;
  std::condition_variable empty;
  std::deque<std::string> lines;
  std::size_t dropped = 0;
  bool writing = false;
  bool ending = false;
  int descriptor = -1;
  bool colour = false;
};

namespace {

/// False when nobody reads any more: then the rest is not worth keeping.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(descriptor, text.data(), text.size());
    if (wrote > 0) {
      text.remove_prefix(static_cast<std::size_t>(wrote));
    } else if (wrote < 0 && errno == EAGAIN) {
      pollfd wait{descriptor, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (wrote < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

Printer::Printer(int descriptor) : queue_(std::make_shared<Queue>()) {
  queue_->descriptor = ::dup(descriptor);
  queue_->colour = ::isatty(descriptor) == 1 && std::getenv("NO_COLOR") == nullptr;
  // The thread takes no signal: they are the main loop's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([queue = queue_] {
    std::unique_lock lock(queue->mutex);
    for (;;) {
      queue->more.wait(lock, [&] { return queue->ending || !queue->lines.empty(); });
      if (queue->lines.empty()) break;
      std::string text;
      if (queue->dropped > 0) {
        text = "supervisor | " + std::to_string(queue->dropped) + " lines were not shown (see the log folder)\n";
        queue->dropped = 0;
      }
      text += queue->lines.front();
      queue->lines.pop_front();
      queue->writing = true;
      lock.unlock();
      write_all(queue->descriptor, text);
      lock.lock();
      queue->writing = false;
      if (queue->lines.empty()) queue->empty.notify_all();
    }
    ::close(queue->descriptor);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Printer::~Printer() {
  bool idle = false;
  {
    std::unique_lock lock(queue_->mutex);
    queue_->ending = true;
    queue_->more.notify_all();
    idle = queue_->empty.wait_for(lock, std::chrono::seconds(1),
                                  [&] { return queue_->lines.empty() && !queue_->writing; });
  }
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();  // stuck in a write to somebody who does not read
  }
}

void Printer::line(std::string_view role, std::string_view text) {
  static constexpr std::array kColours = {"\033[36m", "\033[32m", "\033[33m", "\033[35m", "\033[34m"};
  std::string out;
  if (queue_->colour) out += kColours[std::hash<std::string_view>{}(role) % kColours.size()];
  out += role;
  out += " | ";
  if (queue_->colour) out += "\033[0m";
  out += text;
  out += '\n';
  const std::scoped_lock lock(queue_->mutex);
  if (queue_->lines.size() >= kMaxLines) {
    queue_->lines.pop_front();
    ++queue_->dropped;
  }
  queue_->lines.push_back(std::move(out));
  queue_->more.notify_one();
}

}  // namespace gearbox::supervisor
