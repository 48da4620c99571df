// etcd_members.hpp: questions to a cluster: of the member that answered last, and of the next one when it does not.
#pragma once

#include <boost/json/object.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "sink/http_url.hpp"

namespace gearbox::coordination {

/// Whom etcd is told that we are; an empty user: nobody in particular.
struct EtcdLogin {
  std::string user;
  std::string password_file;  // its first line
};

/// Threads: one at a time.
class EtcdMembers {
 public:
  EtcdMembers(std::vector<sink::HttpUrl> members, milliseconds timeout, EtcdLogin login)
      : members_(std::move(members)), timeout_(timeout), login_(std::move(login)) {}

  /// Posts to `path` ("/v3/kv/range"). Each member gets `timeout`, or its share of what is left. What one member may
  /// have done before it fell silent, the next one may do again: the caller must be able to tell.
  /// Errors: unreachable: what each member said; timeout: no time was left to ask one; not_allowed: the login, or a
  /// right that it lacks; bad_frame.
  Outcome<boost::json::object> ask(std::string_view path, const boost::json::object& question, Instant deadline);

 private:
  Outcome<boost::json::object> ask_one(const sink::HttpUrl& member, std::string_view path, const std::string& text,
                                       Instant deadline);
  Outcome<boost::json::object> exchange(const sink::HttpUrl& member, std::string_view path, const std::string& text,
                                        Instant deadline);
  Outcome<void> log_in(const sink::HttpUrl& member, Instant deadline);

  const std::vector<sink::HttpUrl> members_;
  const milliseconds timeout_;
  const EtcdLogin login_;
  std::size_t first_ = 0;  // that answered last
  std::string token_;
};

}  // namespace gearbox::coordination
