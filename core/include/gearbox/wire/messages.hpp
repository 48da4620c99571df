// messages.hpp: the JSON half of frames: one struct for each, its text form, and a reader that skips unknown members
// and takes the default for missing ones, so that versions can differ by one. Binary values (keys, signatures) are
// hexadecimal.
//
// to_json never fails. from_json: Errors: bad_frame for text that is no JSON object (depth over 16, over 64 KiB,
// invalid UTF-8) or a member of another type, with the member's name; the struct's own limits are checked there too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::wire {

/// A device may send at most so many steps of its own.
inline constexpr std::size_t kMaxOwnSteps = 16;
inline constexpr std::size_t kMaxAvoided = 16;  // nodes in a Locate
/// What they are called where a task's name would stand: no task can have that name.
inline constexpr std::string_view kOwnSteps = "(own steps)";

/// hello. Central: user + signature, no ticket. Node, from a device: ticket + signature. Central, from a node: role
/// "node". The signature is Ed25519 by `key` over "gearbox hello 1" ‖ role ‖ h of the channel.
struct Hello {
  std::string role;  // "device", "node", "local"
  std::string user;  // the account; empty for nodes
  PublicKey key;
  std::string signature;  // 64 bytes as hex
  std::string ticket;     // as central gave it; empty towards central
  std::string agent;      // "pi_client 0.1.0", for logs
  bool keep = false;      // an orderly end of the connection cancels nothing: the device comes back for what is open
};

struct HelloOk {
  std::string name;           // who answers: the node's or central's name
  std::uint32_t idle_ms = 0;  // silence after which the server closes
  std::uint64_t max_upload_bytes = 0;
};

/// enrol: as Hello's signature, over "gearbox enrol 1" ‖ h. Errors that come back: auth_failed, rate_limited, bad_name.
struct Enrol {
  std::string user;
  std::string password;
  std::string device;  // a name for the device, unique within the user
  PublicKey key;
  std::string signature;
};

/// For one task, or for a device's own steps: then `task` is empty.
struct Locate {
  std::string task;
  std::vector<std::string> models{};  // those that own steps name: "NAME", or "NAME@VERSION" with a version or a range
  std::string node{};                 // this one alone: it holds requests of the device; empty: central chooses
  std::vector<std::string> avoid{};   // not these, if others can: the device does not reach them
};

struct Located {
  std::string node;                    // its name
  std::vector<std::string> addresses;  // URLs, best first
  std::string node_key;                // X25519 public key of its channel, hex
  std::string ticket;
  std::uint32_t ticket_ttl_ms = 0;
};

struct ErrorMessage {
  std::uint16_t code = 0;
  std::string name;
  std::string detail;
  std::uint32_t retry_after_ms = 0;  // 0: trying again will not help, or nobody knows when
};

/// One input of a submit: the plain tensor and how it travels.
struct InputSpec {
  TensorSpec tensor;
  std::uint64_t wire_bytes = 0;     // what is uploaded for it
  std::vector<std::string> codecs;  // in the order of encoding; empty = stored
};

/// One step of a task, as it is written down: the fields of [[step]] in tasks/NAME.toml. Nothing of it is checked yet.
struct StepSpec {
  std::string name, model;
  std::string version;                        // empty: latest
  std::map<std::string, std::string> inputs;  // model's input ← "request.TENSOR" or "STEP.TENSOR"
  std::string for_each;
  double deadline_share = 0;  // 0: none
  std::uint32_t retry = 0;
  bool operator==(const StepSpec&) const = default;
};

struct Submit {
  std::string task;               // empty: the device's own steps
  std::vector<InputSpec> inputs;  // uploaded in this order, one after the other
  std::string digest;             // XXH3-128 (canonical, hex) over all uploaded bytes
  std::uint64_t wire_bytes = 0;   // the sum
  bool stream = false;            // the device takes parts as they come; else it gets all of them at the end
  std::vector<StepSpec> steps{};  // own ones, in any order
  std::map<std::string, std::string> result{};  // of own steps: name in the answer ← "STEP.TENSOR"
};

/// Where the time of one step went. `run_us` is the longest of its calls, `calls` their number (for_each).
struct StepTiming {
  std::string step, model, version;
  std::uint32_t calls = 0;
  std::uint64_t queue_us = 0, run_us = 0;
  std::uint32_t retries = 0;  // calls made again, because the step says so
};

struct Timing {
  std::uint64_t upload_us = 0;  // submit arrived → whole and verified
  std::uint64_t queue_us = 0;   // accepted → first step handed to a worker
  std::uint64_t total_us = 0;   // submit arrived → result ready
  std::vector<StepTiming> steps;
};

struct ResultMessage {
  std::vector<TensorSpec> tensors;  // payload bytes follow each other in this order
  std::uint64_t bytes = 0;
  Timing timing;
  std::uint32_t parts = 0;  // that came before it, to a device that takes them
};

/// result_part: one part of a streamed answer.
struct PartMessage {
  std::vector<TensorSpec> tensors;  // payload bytes follow each other in this order
  std::uint64_t bytes = 0;
};

struct ModelReport {
  std::string name, version;
  std::uint32_t workers = 0;  // ready ones
  std::uint32_t queued = 0, running = 0;
  std::uint64_t step_p95_us = 0;
};

struct TaskReport {
  std::string name;
  std::vector<std::string> models;  // one per step, as "name" or "name@version"
  bool ready = false;               // each step's model has a ready worker
};

/// node_report, once a second.
struct NodeReport {
  std::string name;
  std::vector<std::string> addresses;  // where devices reach it
  std::string channel_key;             // X25519 public key, hex
  std::uint32_t queued = 0, running = 0, sessions = 0;
  bool draining = false;
  std::string config_digest;
  std::vector<ModelReport> models;
  std::vector<TaskReport> tasks;
};

struct ReportOk {
  std::int64_t central_unix_ms = 0;                // central's time; the node ages it on its own monotonic clock
  std::map<std::string, std::string> ticket_keys;  // key id → Ed25519 public key, hex
  std::vector<std::string> revoked;                // device keys, hex
};

/// What central signs. Text form: base64url of the JSON, '.', of the signature; opaque to devices.
struct Ticket {
  PublicKey device;
  std::string user;
  std::uint32_t tenant = 0;
  std::uint32_t weight = 1;
  std::uint32_t max_requests = 0;      // open ones of the tenant; 0 = the node's own limit
  std::uint64_t max_upload_bytes = 0;  // of one request; 0 = the node's default
  std::uint64_t max_held_bytes = 0;    // of the tenant's open requests together; 0 = the node's own limit
  std::uint8_t max_priority = 0;       // a request that asks for more gets this
  std::vector<std::string> tasks;      // "*" = all
  bool own_steps = false;              // may send its own list of steps
  std::string node;                    // the node's identity key, hex
  std::int64_t expires_unix_ms = 0;    // on central's clock
  std::string key_id;
  std::string ranks{};          // a node's: may have ranks of this group started there, and nothing else
  std::uint64_t placement = 0;  // central's number of the decision, for `broker explain`; 0: none
  bool gears = false;           // a node's: its scheduler may decide on groups here, if it is let, and nothing else

  /// For what nodes have to do with each other: no device's.
  bool is_between_nodes() const { return gears || !ranks.empty(); }
};

// One pair for each of the structs above.
#define GEARBOX_MESSAGE(Type)       \
  std::string to_json(const Type&); \
  Outcome<void> from_json(std::string_view text, Type& into)
GEARBOX_MESSAGE(Hello);
GEARBOX_MESSAGE(HelloOk);
GEARBOX_MESSAGE(Enrol);
GEARBOX_MESSAGE(Locate);
GEARBOX_MESSAGE(Located);
GEARBOX_MESSAGE(ErrorMessage);
GEARBOX_MESSAGE(Submit);
GEARBOX_MESSAGE(ResultMessage);
GEARBOX_MESSAGE(PartMessage);
GEARBOX_MESSAGE(NodeReport);
GEARBOX_MESSAGE(ReportOk);
GEARBOX_MESSAGE(Ticket);
#undef GEARBOX_MESSAGE

template <class T>
Outcome<T> parse(std::string_view text) {
  T message;
  BOOST_OUTCOME_TRY(from_json(text, message));
  return message;
}

ErrorMessage to_message(const Error& error, std::uint32_t retry_after_ms = 0);
Error to_error(const ErrorMessage& message);

}  // namespace gearbox::wire
