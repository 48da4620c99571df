#include "serving/service_notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace gearbox::serving {

namespace asio = boost::asio;

namespace {

constexpr milliseconds kTryAgain{100};
constexpr std::int64_t kLongestUs = 86'400'000'000;  // a day
constexpr std::size_t kLongestStatus = 400;

std::string taken_from_environment(const char* name) {
  const char* const value = std::getenv(name);
  std::string text = value == nullptr ? std::string() : std::string(value);
  ::unsetenv(name);
  return text;
}

/// 0: it is none.
std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? std::min(value, kLongestUs) : 0;
}

std::string microseconds_of(milliseconds time) {
  return std::to_string(std::chrono::duration_cast<microseconds>(time).count());
}

/// A line end would begin another key.
std::string one_line(const std::string& text) {
  std::string out = text.substr(0, kLongestStatus);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return out;
}

}  // namespace

NotifySettings notify_settings_of_environment() {
  NotifySettings settings;
  settings.socket = taken_from_environment("NOTIFY_SOCKET");
  const std::int64_t watchdog_us = number(taken_from_environment("WATCHDOG_USEC"));
  const std::string pid = taken_from_environment("WATCHDOG_PID");
  if (pid.empty() || number(pid) == ::getpid()) settings.watchdog = milliseconds(watchdog_us / 1000);
  settings.starting = std::chrono::minutes(10);
  settings.start_step = std::chrono::seconds(30);
  return settings;
}

struct ServiceNotify::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, NotifySettings its_settings)
      : settings(std::move(its_settings)), watchdog(executor), starting(executor), again(executor) {
    address.sun_family = AF_UNIX;
    // The first byte of an abstract name is zero; '@' stands for it.
    const bool usable = (settings.socket.starts_with('/') || settings.socket.starts_with('@')) &&
                        settings.socket.size() > 1 && settings.socket.size() < sizeof(address.sun_path);
    if (!usable) return;
    std::memcpy(address.sun_path, settings.socket.data(), settings.socket.size());
    if (settings.socket.front() == '@') address.sun_path[0] = '\0';
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + settings.socket.size());
    descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
  }

  void tell(std::map<std::string, std::string> words) {
    if (descriptor < 0) return;
    for (auto& [key, value] : words) unsent[key] = std::move(value);
    send();
  }

  void send() {
    std::string text;
    for (const auto& [key, value] : unsent) text += (text.empty() ? "" : "\n") + key + "=" + value;
    if (text.empty()) return;
    const ssize_t sent = ::sendto(descriptor, text.data(), text.size(), MSG_NOSIGNAL,
                                  reinterpret_cast<const sockaddr*>(&address), length);
    const bool busy = sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
    // A manager that is gone is no fault of ours: the next word finds the next one.
    if (!busy) return unsent.clear();
    again.expires_after(kTryAgain);
    again.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (!cancelled) self->send();
    });
  }

  void feed() {
    tell({{"WATCHDOG", "1"}});
    watchdog.expires_after(settings.watchdog / 2);
    watchdog.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (!cancelled) self->feed();
    });
  }

  void ask_for_time(Instant until) {
    tell({{"EXTEND_TIMEOUT_USEC", microseconds_of(settings.start_step)}});
    if (Clock::now() >= until) return;  // then the manager's own limit decides
    starting.expires_after(settings.start_step / 3);
    starting.async_wait([self = shared_from_this(), until](const boost::system::error_code& cancelled) {
      if (!cancelled) self->ask_for_time(until);
    });
  }

  NotifySettings settings;
  sockaddr_un address{};
  socklen_t length = 0;
  int descriptor = -1;
  bool is_ready = false;
  std::map<std::string, std::string> unsent;
  asio::steady_timer watchdog, starting, again;
};

ServiceNotify::ServiceNotify(asio::any_io_executor executor, NotifySettings settings)
    : state_(std::make_shared<State>(executor, std::move(settings))) {}

ServiceNotify::~ServiceNotify() {
  end();
}

void ServiceNotify::start() {
  if (state_->descriptor < 0) return;
  if (state_->settings.watchdog.count() > 1) state_->feed();
  if (state_->settings.start_step.count() > 0) {
    state_->ask_for_time(after(Clock::now(), state_->settings.starting));
  }
}

void ServiceNotify::ready(const std::string& status) {
  if (std::exchange(state_->is_ready, true)) return this->status(status);
  state_->starting.cancel();
  state_->unsent.erase("EXTEND_TIMEOUT_USEC");
  state_->tell({{"READY", "1"}, {"STATUS", one_line(status)}});
}

void ServiceNotify::status(const std::string& line) {
  state_->tell({{"STATUS", one_line(line)}});
}

void ServiceNotify::stopping(const std::string& status, milliseconds within) {
  state_->starting.cancel();
  state_->tell({{"STOPPING", "1"}, {"STATUS", one_line(status)}, {"EXTEND_TIMEOUT_USEC", microseconds_of(within)}});
}

void ServiceNotify::end() {
  state_->watchdog.cancel();
  state_->starting.cancel();
  state_->again.cancel();
}

}  // namespace gearbox::serving
