// device_session.hpp: one connection of a device (sealed) or of the local command line (the node's unix socket, plain):
// proves who speaks, then turns frames into requests and answers into frames.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gearbox/net/frame_stream.hpp"
#include "session/identity.hpp"
#include "session/requests.hpp"
#include "session/service.hpp"

namespace gearbox::session {

class DeviceSession final : public Listener, public std::enable_shared_from_this<DeviceSession> {
 public:
  enum class Door { sealed, local };
  DeviceSession(Service& service, Requests& requests, std::shared_ptr<net::FrameStream> stream, Door door);

  /// Serves until the connection ends. By value: the coroutine's frame keeps the session alive.
  static boost::asio::awaitable<void> serve(std::shared_ptr<DeviceSession> self);
  void close();
  const Identity& identity() const { return identity_; }

  void upload_at(const RequestId& id, std::uint64_t offset) override;
  void accepted(const RequestId& id) override;
  void failed(const RequestId& id, const Error& error, std::uint32_t retry_after_ms) override;
  void finished(const RequestPtr& request) override;
  void streaming(const RequestPtr& request) override;  // session_stream.cpp
  void replaced() override;

 private:
  /// For one frame: a peer that takes it slower than this is as good as gone.
  static constexpr milliseconds kWriteLimit{30'000};
  using Self = std::shared_ptr<DeviceSession>;
  static boost::asio::awaitable<Outcome<void>> open(Self self);
  static boost::asio::awaitable<Outcome<void>> handle(Self self, wire::FrameHeader header);
  static boost::asio::awaitable<Outcome<void>> read_submit(Self self, wire::FrameHeader header);
  static boost::asio::awaitable<Outcome<void>> read_chunk(Self self, wire::FrameHeader header);
  static boost::asio::awaitable<Outcome<void>> serve_carried(Self self,
                                                             wire::FrameHeader header);  // session_carried.cpp
  static boost::asio::awaitable<void> write(Self self, wire::FrameHeader header, std::string json);
  static boost::asio::awaitable<void> write_results(Self self);
  static boost::asio::awaitable<Outcome<void>> write_result(Self self, RequestPtr request);
  // session_stream.cpp
  static boost::asio::awaitable<void> write_stream(Self self, RequestPtr request);
  static boost::asio::awaitable<Outcome<void>> write_parts(Self self, RequestPtr request);
  static boost::asio::awaitable<Outcome<void>> write_part(Self self, RequestPtr request, StreamOut::PartPtr part);
  Outcome<void> identify(const wire::Hello& hello);
  void answer_control(const std::string& command);
  void log_end(bool opened, const Error& error);
  /// A write failed: the reader notices that the stream is closed and ends the session, which is where it is logged.
  void give_up(const Error& error);
  /// `error` ended the reader: does the peer not come back?
  bool is_gone_for_good(const Error& error) const;
  void send(wire::FrameHeader header, std::string json);
  void report(const RequestId& id, const Error& error, std::uint32_t retry_after_ms);

  Service& service_;
  Requests& requests_;
  std::shared_ptr<net::FrameStream> stream_;
  Door door_;
  Identity identity_;
  bool identified_ = false;
  bool keeps_ = false;               // said in its hello that it comes back after an orderly end
  bool wrote_to_nobody_ = false;     // the peer had closed the connection when something was written
  bool joined_ = false;              // counts among its device's connections
  std::vector<RequestPtr> answers_;  // few; to be sent, one after the other; the first is under way
  std::vector<RequestPtr> streams_;  // few; whose parts are being sent just now
  RequestId brings_its_bytes_;       // while a submit that carries its upload is announced
};

}  // namespace gearbox::session
