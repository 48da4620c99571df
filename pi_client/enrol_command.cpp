#include "enrol_command.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include <cstdio>

#include "device_key.hpp"
#include "dial.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/login.hpp"
#include "password.hpp"
#include "tasks.hpp"
#include "transport_tcp/tcp_transport.hpp"

namespace gearbox::client {

namespace {

constexpr milliseconds kWithin{15'000};  // Argon2id runs on central, a bounded few at a time

asio::awaitable<Outcome<void>> enrol(Dialler dialler, const Options* options, const link::SigningKeys* keys,
                                     std::string device, std::string* password, milliseconds* retry_after) {
  const CentralAddress& central = options->central;
  auto stream = co_await dial(dialler, central.url, central.server_key, kWithin);
  for (std::size_t i = 0; !stream && i < central.others.size(); ++i) {
    const CentralPlace& next = central.others[i];
    stream = co_await dial(dialler, next.url, next.server_key, kWithin);
  }
  if (!stream) co_return std::move(stream).error();
  wire::Enrol enrol;
  enrol.user = central.user;
  enrol.password = *password;
  enrol.device = std::move(device);
  link::sign_enrol(*keys, stream.value()->h(), enrol);
  wire::FrameHeader header;
  header.type = wire::FrameType::enrol;
  std::string json = wire::to_json(enrol);  // moved all the way to the frame writer, which wipes it
  link::wipe(std::as_writable_bytes(std::span(enrol.password)));
  Outcome<void> written =
      co_await net::FrameStream::write_frame(stream.value(), header, std::move(json), ByteView(), kWithin);
  if (!written) co_return std::move(written).error();
  Outcome<wire::Frame> answer = co_await expect(stream.value(), wire::FrameType::hello_ok, kWithin, retry_after);
  stream.value()->close();
  if (!answer) co_return std::move(answer).error();
  co_return done();
}

asio::awaitable<void> store(asio::awaitable<Outcome<void>> work, std::optional<Outcome<void>>* into) {
  Outcome<void> result = co_await std::move(work);
  into->emplace(std::move(result));
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "device";
  std::string text(name);
  if (text.size() > kMaxNameBytes) text.resize(kMaxNameBytes);
  return is_name(text) ? text : "device";
}

int fail(const Error& error, int code) {
  std::fprintf(stderr, "pi_client: %s\n", escaped(describe(error), 1024).c_str());
  return code;
}

}  // namespace

int run_enrol(const Options& options) {
  Outcome<std::string> password = read_password(options.enrol.password_file);
  if (!password) return fail(password.error(), 2);
  Outcome<link::SigningKeys> keys = load_or_make_device_key(options.keys);
  if (!keys) return fail(keys.error(), 2);
  const std::string device = options.enrol.device.empty() ? host_name() : options.enrol.device;

  asio::io_context context(1);
  asio::thread_pool pool(1);
  transport_tcp::TcpTransport transport;
  Dialler dialler;
  dialler.executor = context.get_executor();
  dialler.transport = &transport;
  dialler.pool = &pool;
  std::optional<Outcome<void>> outcome;
  milliseconds retry_after{0};
  TaskGroup tasks(dialler.executor);
  asio::awaitable<Outcome<void>> work =
      enrol(dialler, &options, &keys.value(), device, &password.value(), &retry_after);
  tasks.spawn(store(std::move(work), &outcome));
  context.run();
  pool.join();
  link::wipe(std::as_writable_bytes(std::span(password.value())));
  if (!*outcome) {
    Error error = outcome->error();
    if (retry_after > milliseconds{0}) error.detail += " (try again in " + std::to_string(retry_after.count()) + " ms)";
    return fail(error, error.code == Errc::bad_input ? 2 : 1);
  }
  std::printf("enrolled %s as device %s, key %s\n", options.central.user.c_str(), device.c_str(),
              to_text(keys.value().public_key).c_str());
  return 0;
}

int run_show_key(const Options& options) {
  Outcome<link::SigningKeys> keys = load_device_key(options.keys);
  if (!keys) return fail(keys.error(), 2);
  std::printf("%s\n", to_text(keys.value().public_key).c_str());
  return 0;
}

}  // namespace gearbox::client
