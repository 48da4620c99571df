// host_door.hpp: how the gear roles of one host are asked: this one's at their sockets, another one's by way of the
// nodes (host_stream.hpp).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "config/state_dir.hpp"
#include "gear_facts/ask.hpp"
#include "gearbox/base/clock.hpp"

namespace gearbox::scheduler {

/// Threads: one strand. Whoever waits for an answer keeps the door.
class HostDoor {
 public:
  virtual ~HostDoor() = default;
  /// Opens what must be open before anything is asked; bounded by itself. Errors: why the host cannot be asked.
  virtual boost::asio::awaitable<Outcome<void>> open() = 0;
  /// A command to `role`: "observer" or "executor". Errors: as gear_facts::ask_role.
  virtual boost::asio::awaitable<gear_facts::Answer> ask(std::string_view role, boost::json::object command,
                                                         milliseconds within) = 0;
  /// What a gear needs, of the group's driver: "ok", "why", "fits". Errors: as gear_facts::ask_engine.
  virtual boost::asio::awaitable<gear_facts::Answer> price(std::string group, std::uint8_t gear,
                                                           milliseconds within) = 0;
  /// Until the next open().
  virtual void close() {}
};

class LocalDoor final : public HostDoor {
 public:
  LocalDoor(boost::asio::any_io_executor executor, config::StateDir state)
      : executor_(std::move(executor)), state_(std::move(state)) {}

  boost::asio::awaitable<Outcome<void>> open() override;
  boost::asio::awaitable<gear_facts::Answer> ask(std::string_view role, boost::json::object command,
                                                 milliseconds within) override;
  boost::asio::awaitable<gear_facts::Answer> price(std::string group, std::uint8_t gear, milliseconds within) override;

 private:
  boost::asio::any_io_executor executor_;
  config::StateDir state_;
};

}  // namespace gearbox::scheduler
