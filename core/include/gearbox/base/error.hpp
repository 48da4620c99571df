// error.hpp: the numbered reasons why something can fail in a healthy program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gearbox {

/// Numbers are for good: clients see them on the wire, so a value is never reused or renumbered.
enum class Errc : std::uint16_t {
  internal = 1,
  cancelled = 2,
  deadline_exceeded = 3,

  // what was asked for
  bad_input = 10,        // the request itself is malformed or does not fit the task
  unknown_task = 11,     // nobody knows a task of that name
  no_node = 12,          // the task is known, no ready node can do all of its steps
  too_large = 13,        // over a size limit; refused before it is received
  bad_picture = 14,      // cut, corrupt, empty, of another type than named, or of absurd size
  digest_mismatch = 15,  // the bytes that arrived are not those that were sent
  overloaded = 16,       // a queue is at its limit; try again later
  no_space = 17,         // shared memory, disk or descriptors are used up
  not_found = 18,
  bad_name = 19,  // outside the allow-list of names

  // identity
  auth_failed = 20,  // unknown user or wrong password: deliberately the same answer
  bad_ticket = 21,   // forged, for another device or for another node
  expired_ticket = 22,
  wrong_server_key = 23,
  not_allowed = 24,
  rate_limited = 25,

  // wire
  short_frame = 30,  // read more, call again
  frame_too_large = 31,
  bad_frame = 32,
  unsupported_version = 33,
  decrypt_failed = 34,  // altered, reordered, repeated, cut or sealed with another key
  closed = 35,          // the peer ended the connection
  timeout = 36,         // the peer was silent for too long
  io_error = 37,
  not_gearbox = 38,  // the peer speaks another protocol
  unreachable = 39,  // resolve or connect failed

  // workers and models
  model_failed = 40,  // the model raised; detail is the traceback's last line
  worker_lost = 41,
  result_too_large = 42,
  bad_result = 43,  // a worker broke the ring's or the model's contract
  model_unavailable = 44,
  quarantined = 45,
  shutting_down = 46,
  stream_broken = 47,  // parts were delivered already, and what gave them is gone: it cannot go on, nor begin anew

  // configuration and plugins
  bad_config = 50,
  bad_plugin = 51,
  plugin_fault = 52,

  corrupt_data = 60,  // a coded payload does not decode to what it declared
};

/// One failure: a number for programs and a sentence for people. `detail` may quote outside text; escape it when
/// logging.
struct Error {
  Errc code = Errc::internal;
  std::string detail;
};

/// The stable name of `code` ("unknown_task"), as it stands in JSON and logs; "unknown" for a number of a later
/// version.
std::string_view name_of(Errc code);

/// "unknown_task: no task is called 'x'": what people read.
std::string describe(const Error& error);

}  // namespace gearbox
