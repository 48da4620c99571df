// local_request.hpp: one request through the node's own socket: the same messages as a device's, without a ticket.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/steps/steps_file.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::cli {

/// The most that a result may bring: a limit against a confused node.
inline constexpr std::uint64_t kMaxResultBytes = 1ULL << 30;

struct LocalInput {
  std::string name;
  Bytes file;  // travels as it is: a UINT8 tensor of its bytes
};

struct LocalAnswer {
  RequestId request;
  wire::ResultMessage result;
  Bytes payload;  // the tensors' bytes, one after the other
};

/// A task by its name, or own steps: then the name is empty.
struct LocalWork {
  std::string task;
  steps::StepList own;
};

/// Blocks until the answer is there, at most `within`. Errors: what the node answered; unreachable (no node runs);
/// timeout.
Outcome<LocalAnswer> run_local_request(const std::filesystem::path& node_socket, const LocalWork& work,
                                       std::vector<LocalInput> inputs, milliseconds within);

}  // namespace gearbox::cli
