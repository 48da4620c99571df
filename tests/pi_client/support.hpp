// support.hpp: what tests of pi_client share: a scratch folder, pictures of any size, a console of strings, options for
// a fake.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "device_key.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/link/keys.hpp"
#include "pictures.hpp"
#include "send_command.hpp"
#include "support/fake_node.hpp"

namespace gearbox::client {

class StringConsole final : public Console {
 public:
  void results(const std::string& text) override { out += text; }
  void remarks(const std::string& text) override { err += text; }
  std::string out;
  std::string err;
};

/// Quick enough for tests; the real pace differs in nothing else.
inline LinkSettings quick_settings() {
  LinkSettings settings;
  settings.pace.ping_every = milliseconds(100);
  settings.pace.silence = milliseconds(600);
  settings.connect_within = milliseconds(2'000);
  settings.first_contact = milliseconds(300);
  settings.shortest_pause = milliseconds(2);
  settings.longest_pause = milliseconds(40);
  return settings;
}

/// A device with its key, and one run of `send`.
class Device {
 public:
  Device() {
    if (!load_or_make_device_key((scratch.path() / "keys").string())) std::abort();
    options.command = Command::send;
    options.central.user = "anna";
    options.keys = (scratch.path() / "keys").string();
    options.send.task = "echo";
    options.send.json = true;
    options.send.timeout = milliseconds(20'000);
  }
  explicit Device(const test::FakeNode& fake) : Device() {
    options.central.url = fake.central_url();
    options.central.server_key = fake.central_key();
  }
  int send() { return run_send(options, settings, transport, console); }

  ScratchFolder scratch;
  Options options;
  LinkSettings settings = quick_settings();
  transport_tcp::TcpTransport transport;
  StringConsole console;
};

}  // namespace gearbox::client
