// host_stream.hpp: one stream to the gear roles of another host, through this host's node and the other one, kept open
// from round to round. Questions and answers have numbers, so that several may be under way.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "gearbox/net/frame_stream.hpp"
#include "scheduler/host_door.hpp"

namespace gearbox::scheduler {

class HostStream final : public HostDoor, public std::enable_shared_from_this<HostStream> {
 public:
  static constexpr std::size_t kMostAtOnce = 16;  // as the other node has it

  /// `node_socket`: of this host's node. `node`: the other one's name.
  HostStream(boost::asio::any_io_executor executor, std::filesystem::path node_socket, std::string node)
      : executor_(std::move(executor)), node_socket_(std::move(node_socket)), node_(std::move(node)) {}
  ~HostStream() override { HostStream::close(); }

  /// Also anew, when the ticket behind the open one is half over; that one goes on when it cannot be.
  boost::asio::awaitable<Outcome<void>> open() override;
  boost::asio::awaitable<gear_facts::Answer> ask(std::string_view role, boost::json::object command,
                                                 milliseconds within) override;
  boost::asio::awaitable<gear_facts::Answer> price(std::string group, std::uint8_t gear, milliseconds within) override;
  void close() override;

 private:
  using FrameStream = net::FrameStream;
  using Self = std::shared_ptr<HostStream>;
  struct Question {
    explicit Question(const boost::asio::any_io_executor& executor) : told(executor) {}
    boost::asio::steady_timer told;  // cancelled when the answer is there
    std::optional<gear_facts::Answer> answer;
  };
  static boost::asio::awaitable<Outcome<void>> dial(Self self, std::shared_ptr<FrameStream> stream);
  static boost::asio::awaitable<gear_facts::Answer> put(Self self, boost::json::object question, milliseconds within);
  static boost::asio::awaitable<void> read_answers(Self self, std::shared_ptr<FrameStream> stream);
  Outcome<void> keep_open(const Error& why);
  void take(const wire::Frame& frame);
  void ended(const std::shared_ptr<FrameStream>& stream, const Error& why);

  boost::asio::any_io_executor executor_;
  std::filesystem::path node_socket_;
  std::string node_;
  std::shared_ptr<FrameStream> stream_;  // open, and let in at the other end; null: not
  std::shared_ptr<FrameStream> older_;   // the one before, while something that was asked over it has no answer
  std::shared_ptr<FrameStream> opening_;
  Instant renew_at_{};
  std::uint64_t last_ = 0;  // number of a question
  std::map<RequestId, std::shared_ptr<Question>> waiting_;
};

}  // namespace gearbox::scheduler
