#include "serving/stop_signals.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <csignal>

namespace gearbox::serving {
namespace {

TEST(StopSignals, GetsTheSignalThatCameWhileTheRoleOpened) {
  boost::asio::io_context io;
  int stops = 0;
  HoldSignals opening;
  ASSERT_EQ(std::raise(SIGTERM), 0);  // would end this process
  {
    const StopSignals signals(
        io.get_executor(), [&] { ++stops; }, [] { ADD_FAILURE() << "one signal is no hurry"; });
    EXPECT_EQ(stops, 0);
    opening.release();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (stops == 0 && std::chrono::steady_clock::now() < limit) io.run_one_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(stops, 1);
}

}  // namespace
}  // namespace gearbox::serving
