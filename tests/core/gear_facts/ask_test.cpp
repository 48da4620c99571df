#include "gear_facts/ask.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <optional>
#include <string>
#include <thread>

#include "serving/unix_socket.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::gear_facts {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> ask_into(std::shared_ptr<std::optional<Answer>> into, std::filesystem::path socket,
                               milliseconds within) {
  boost::json::object question{{"op", "status"}};
  const auto executor = co_await asio::this_coro::executor;
  Answer answer = co_await ask_engine(executor, std::move(socket), std::move(question), within);
  into->emplace(std::move(answer));
}

Answer ask(const std::filesystem::path& socket, milliseconds within) {
  asio::io_context io(1);
  auto answer = std::make_shared<std::optional<Answer>>();
  asio::co_spawn(io, ask_into(answer, socket, within), asio::detached);
  io.run();
  return *answer ? **answer : Answer(Error{Errc::internal, "it never ended"});
}

/// Takes one connection, reads a line, and does `then` with it.
class OneEngine {
 public:
  template <class Then>
  OneEngine(const std::filesystem::path& path, Then then)
      : listener_(std::move(serving::UnixListener::open(path)).value()), thread_([this, then] {
          int client = -1;
          while (client < 0) client = ::accept(listener_.descriptor(), nullptr, nullptr);
          char byte = 0;
          while (::read(client, &byte, 1) == 1 && byte != '\n') line_ += byte;
          then(client);
          ::close(client);
        }) {}
  ~OneEngine() { thread_.join(); }
  const std::string& line() const { return line_; }

 private:
  serving::UnixListener listener_;
  std::string line_;
  std::thread thread_;
};

void say(int client, const std::string& text) {
  EXPECT_EQ(::write(client, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(AskEngine, SendsALineAndReadsOne) {
  const testing::TempDir folder;
  const OneEngine engine(folder.path() / "e.sock", [](int client) {
    say(client, "{\"ok\": ");
    say(client, "true}\n{\"another\": 1}\n");
  });
  const Answer answer = ask(folder.path() / "e.sock", seconds(20));
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_TRUE(answer.value().at("ok").as_bool());
}

TEST(AskEngine, WaitsNoLongerThanItMay) {
  const testing::TempDir folder;
  const OneEngine engine(folder.path() / "e.sock", [](int client) {
    char byte = 0;
    EXPECT_EQ(::read(client, &byte, 1), 0) << "the asker hangs up";
  });
  const Answer answer = ask(folder.path() / "e.sock", milliseconds(50));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::timeout);
}

TEST(AskEngine, TellsDeadEnginesAndBadAnswersApart) {
  const testing::TempDir folder;
  EXPECT_EQ(ask(folder.path() / "none.sock", seconds(20)).error().code, Errc::unreachable);
  {
    const OneEngine dies(folder.path() / "e.sock", [](int) {});
    EXPECT_EQ(ask(folder.path() / "e.sock", seconds(20)).error().code, Errc::closed);
  }
  const OneEngine babbles(folder.path() / "e.sock", [](int client) { say(client, "[1, 2]\n"); });
  EXPECT_EQ(ask(folder.path() / "e.sock", seconds(20)).error().code, Errc::bad_frame);
}

}  // namespace
}  // namespace gearbox::gear_facts
