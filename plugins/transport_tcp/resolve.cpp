#include "transport_tcp/resolve.hpp"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "gearbox/base/text.hpp"

namespace gearbox::transport_tcp {

namespace ip = boost::asio::ip;

namespace {
constexpr std::size_t kMaxHanging = 64;
}

struct Resolver::Lookup {
  std::string host;
  std::string port;
  addrinfo hints{};
  gaicb request{};

  explicit Lookup(const TcpUrl& url) : host(url.host), port(std::to_string(url.port)) {
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
    request.ar_name = host.c_str();
    request.ar_service = port.c_str();
    request.ar_request = &hints;
  }
  ~Lookup() {
    if (request.ar_result != nullptr) ::freeaddrinfo(request.ar_result);
  }
  bool done() const { return ::gai_error(const_cast<gaicb*>(&request)) != EAI_INPROGRESS; }
};

Resolver::Resolver() = default;

Resolver::~Resolver() {
  for (std::unique_ptr<Lookup>& lookup : hanging_) {
    // glibc's thread will still write to it: a few hundred bytes are the price of not waiting for a dead name server.
    if (!lookup->done()) static_cast<void>(lookup.release());
  }
}

void Resolver::keep_until_done(std::unique_ptr<Lookup> lookup) {
  const std::lock_guard lock(mutex_);
  hanging_.push_back(std::move(lookup));
}

Outcome<std::vector<Endpoint>> Resolver::resolve(const TcpUrl& url, Instant deadline) {
  boost::system::error_code not_numeric;
  const ip::address address = ip::make_address(url.host, not_numeric);
  if (!not_numeric) return std::vector<Endpoint>{Endpoint(address, url.port)};
  if (url.bracketed) return Error{Errc::bad_input, "'" + escaped(url.host, 64) + "' is no IPv6 address"};
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(hanging_, [](const std::unique_ptr<Lookup>& lookup) { return lookup->done(); });
    if (hanging_.size() >= kMaxHanging)
      return Error{Errc::overloaded, "the name server does not answer; too many lookups wait for it"};
  }
  auto lookup = std::make_unique<Lookup>(url);
  gaicb* list[] = {&lookup->request};
  if (const int failed = ::getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr); failed != 0) {
    return Error{failed == EAI_AGAIN || failed == EAI_MEMORY ? Errc::no_space : Errc::unreachable,
                 ::gai_strerror(failed)};
  }
  while (!lookup->done()) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      if (::gai_cancel(&lookup->request) != EAI_CANCELED && !lookup->done()) keep_until_done(std::move(lookup));
      return Error{Errc::timeout, "no answer to the lookup of '" + escaped(url.host, 64) + "'"};
    }
    const timespec wait{static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000)};
    const gaicb* const waited[] = {&lookup->request};
    ::gai_suspend(waited, 1, &wait);  // whatever it says, the loop looks itself
  }
  if (const int failed = ::gai_error(&lookup->request); failed != 0) {
    return Error{Errc::unreachable, "'" + escaped(url.host, 64) + "': " + ::gai_strerror(failed)};
  }
  std::vector<Endpoint> found;
  for (const addrinfo* info = lookup->request.ar_result; info != nullptr; info = info->ai_next) {
    Endpoint endpoint;
    if (info->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), info->ai_addr, info->ai_addrlen);
    endpoint.resize(info->ai_addrlen);
    if (std::find(found.begin(), found.end(), endpoint) == found.end()) found.push_back(endpoint);
  }
  if (found.empty()) return Error{Errc::unreachable, "'" + escaped(url.host, 64) + "' has no address"};
  return found;
}

}  // namespace gearbox::transport_tcp
