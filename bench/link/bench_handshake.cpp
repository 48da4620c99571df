// bench_handshake: the bound that cryptography sets to one full handshake with login, and what ours takes without a
// network.
//
//   bench_handshake [--seconds S]    one line of JSON: microseconds on one core
//
// A handshake with a login costs, both sides together on one core: 2 key pairs, 4 multiplications, 1 signature, 1
// verification; the server's half of it: 1 key pair, 2 multiplications, 1 verification. conn.handshake_vs_crypto is
// held against these.
#include <sodium.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/link/login.hpp"
#include "gearbox/link/secure_channel.hpp"

namespace {

using namespace gearbox;

double seconds_each = 0.3;

/// Microseconds of one `work()`.
template <class Work>
double measure(Work work) {
  const auto limit = std::chrono::duration<double>(seconds_each);
  for (int i = 0; i < 20; ++i) work();
  const Instant begin = Clock::now();
  std::uint64_t rounds = 0;
  while (Clock::now() - begin < limit) {
    for (int i = 0; i < 20; ++i) work();
    rounds += 20;
  }
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / static_cast<double>(rounds);
}

[[noreturn]] void fail(const Error& error) {
  std::fprintf(stderr, "bench_handshake: %s\n", describe(error).c_str());
  std::exit(1);
}

void handshake_and_login(const link::ChannelKeys& server_keys, const link::SigningKeys& device) {
  link::ClientHandshake client(server_keys.public_key);
  link::ServerHandshake server(server_keys);
  auto reply = server.read_hello(client.hello());
  if (!reply) fail(reply.error());
  auto agreed = client.read_reply(reply.value());
  if (!agreed) fail(agreed.error());
  auto channel = server.read_finish(agreed.value().finish);
  if (!channel) fail(channel.error());
  wire::Hello hello;
  hello.role = "device";
  link::sign_hello(device, agreed.value().channel.h(), hello);
  auto checked = link::check_hello(hello, channel.value().h());
  if (!checked) fail(checked.error());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--seconds") {
    seconds_each = std::atof(argv[2]);
  } else if (argc != 1) {
    std::fputs("usage: bench_handshake [--seconds S]\n", stderr);
    return 2;
  }
  link::crypto_ready();
  const link::ChannelKeys keys = link::make_channel_keys();
  const link::SigningKeys device = link::make_signing_keys();
  unsigned char out[32];
  unsigned char secret[32];
  const auto* scalar = reinterpret_cast<const unsigned char*>(keys.secret_key.data());
  const auto* point = reinterpret_cast<const unsigned char*>(keys.public_key.data());
  const double pair_us = measure([&] { crypto_box_keypair(out, secret); });
  const double multiply_us = measure([&] {
    if (crypto_scalarmult(out, scalar, point) != 0) std::abort();
  });
  const auto message = view_of("thirty-two bytes, like a true h.");
  const auto signature = link::sign(device, "bench", message);
  const double sign_us = measure([&] { link::sign(device, "bench", message); });
  const double verify_us = measure([&] {
    if (!link::verify(device.public_key, "bench", message, signature)) std::abort();
  });
  const double ours_us = measure([&] { handshake_and_login(keys, device); });
  const double both_us = 2 * pair_us + 4 * multiply_us + sign_us + verify_us;
  const double server_us = pair_us + 2 * multiply_us + verify_us;
  std::printf(
      "{\"keypair_us\": %.2f, \"x25519_us\": %.2f, \"sign_us\": %.2f, \"verify_us\": %.2f, \"bound_both_us\": %.2f, "
      "\"bound_server_us\": %.2f, \"handshake_both_us\": %.2f, \"handshake_over_bound\": %.3f}\n",
      pair_us, multiply_us, sign_us, verify_us, both_us, server_us, ours_us, both_us / ours_us);
  return 0;
}
