#include "scheduler/host_door.hpp"

#include <utility>

#include "gear_facts/places.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;
namespace json = boost::json;

asio::awaitable<Outcome<void>> LocalDoor::open() {
  co_return done();
}

asio::awaitable<gear_facts::Answer> LocalDoor::ask(std::string_view role, json::object command, milliseconds within) {
  const bool observer = role == "observer";
  std::filesystem::path socket = observer ? gear_facts::observer_socket(state_) : gear_facts::executor_socket(state_);
  co_return co_await gear_facts::ask_role(executor_, std::move(socket), std::move(command), within);
}

asio::awaitable<gear_facts::Answer> LocalDoor::price(std::string group, std::uint8_t gear, milliseconds within) {
  json::object question{{"op", "price"}, {"gear", gear}};
  std::filesystem::path socket = gear_facts::group_socket(state_, group);
  co_return co_await gear_facts::ask_engine(executor_, std::move(socket), std::move(question), within);
}

}  // namespace gearbox::scheduler
