// attach.hpp: what node and worker say to each other on the workers socket (SOCK_SEQPACKET): one JSON object per
// message, descriptors beside it. The data path does not use it.
//
//   worker → node   {"hello": {...}}      first message: who this is, what it holds, and which life of a node started
//   it
//                   {"failed": {...}}     first and only message: it could not start, and why
//   node → worker   {"accept": {...}}     with five descriptors: ring, doorbell of the worker, doorbell of the node,
//                                         input arena (read-only), the worker's own output arena
//                   {"arena": {...}}      with one descriptor: another worker's output arena (read-only)
//                   {"gone": {...}}       an arena shown before: no call names it any more, unmap it
//                   {"spin": {...}}       another spin_us from now on
//                   {"exit": "reason"}    end; do not come back
//
// A worker whose node closed the socket without a word keeps its model, drops all that the five descriptors brought,
// and says hello anew, for as long as it was started with (--reattach-ms). A socket that is closed before an answer
// came means "later": it dials again. The next node makes a new ring, other arenas and other call numbers: what a
// worker still writes into those of the last node reaches nobody.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/endpoint.hpp"
#include "gearbox/shm/fd.hpp"
#include "gearbox/shm/layout.hpp"

namespace gearbox::shm {

inline constexpr std::size_t kMaxAttachBytes = 16 * 1024;
inline constexpr std::size_t kMaxAttachFds = 5;

struct WorkerFailed {
  std::uint32_t slot = 0;
  int pid = 0;
  std::string text;      // one line for people
  std::string origin{};  // as in its hello
};

struct Accept {
  std::uint32_t layout_version = kLayoutVersion;
  std::uint32_t capacity = 0;  // entries per direction
  std::uint64_t input_bytes = 0;
  ArenaId output_arena{};
  std::uint64_t output_bytes = 0;
  std::uint32_t spin_us = 0;
};
enum AcceptFd : std::size_t { kRingFd, kWorkerBellFd, kNodeBellFd, kInputFd, kOutputFd };

struct ArenaNotice {
  ArenaId arena{};
  std::uint64_t bytes = 0;
};

/// Its number never comes again.
struct ArenaGone {
  ArenaId arena{};
};

struct SpinNotice {
  std::uint32_t spin_us = 0;
};

struct ExitNotice {
  std::string reason;
};

using AttachBody = std::variant<WorkerHello, WorkerFailed, Accept, ArenaNotice, ArenaGone, SpinNotice, ExitNotice>;

struct AttachMessage {
  AttachBody body;
  std::vector<Fd> fds;
};

std::string to_json(const AttachBody& body);
/// Errors: bad_frame for anything else than the above, with what was wrong; unknown members are skipped.
Outcome<AttachBody> attach_body_from(std::string_view json);

/// Sends one message, whole or not at all. Never raises SIGPIPE. Errors: overloaded when a non-blocking socket takes no
/// more; closed; io_error.
Outcome<void> send_message(int socket, const AttachBody& body, const std::vector<int>& fds);

/// Takes one message. Errors: short_frame when a non-blocking socket has none; closed; bad_frame; io_error.
Outcome<AttachMessage> receive_message(int socket);

/// Connects a blocking SOCK_SEQPACKET socket. Errors: unreachable.
Outcome<Fd> dial(const std::filesystem::path& socket);

/// For a worker that cannot start: tells the node why, so that people see it in `broker status`. Call before exiting.
/// Errors: unreachable, io_error, closed.
Outcome<void> report_failure(const std::filesystem::path& socket, const WorkerHello& hello, std::string_view text);

}  // namespace gearbox::shm
