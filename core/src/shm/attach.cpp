#include "gearbox/shm/attach.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "gearbox/base/text.hpp"
#include "gearbox/shm/call_block.hpp"

namespace gearbox::shm {

namespace {
namespace json = boost::json;

constexpr std::size_t kMaxFieldBytes = 256;
constexpr std::size_t kMaxPathBytes = 4096;

Error broken(std::string why) {
  return Error{Errc::bad_frame, "attach message: " + std::move(why)};
}
Error system_error(std::string_view what) {
  const int code = errno;
  const Errc kind = code == EPIPE || code == ECONNRESET || code == ENOTCONN ? Errc::closed : Errc::io_error;
  return Error{kind, std::string(what) + ": " + std::strerror(code)};
}

/// Members of one object, with the type each must have; a missing one keeps its default.
class Reader {
 public:
  explicit Reader(const json::object& from) : from_(from) {}

  template <class Number>
  void number(std::string_view key, Number& into) {
    const json::value* value = from_.if_contains(key);
    if (value == nullptr) return;
    std::uint64_t found = 0;
    if (value->is_uint64()) {
      found = value->get_uint64();
    } else if (value->is_int64() && value->get_int64() >= 0) {
      found = static_cast<std::uint64_t>(value->get_int64());
    } else {
      return fail(key);
    }
    if (found > static_cast<std::uint64_t>(std::numeric_limits<Number>::max())) return fail(key);
    into = static_cast<Number>(found);
  }
  void text(std::string_view key, std::string& into, std::size_t limit = kMaxFieldBytes) {
    const json::value* value = from_.if_contains(key);
    if (value == nullptr) return;
    if (!value->is_string() || value->get_string().size() > limit) return fail(key);
    into.assign(value->get_string().data(), value->get_string().size());
  }
  void calls(std::string_view key, std::vector<CallKey>& into) {
    const json::value* value = from_.if_contains(key);
    if (value == nullptr) return;
    if (!value->is_array() || value->get_array().size() > kMaxUnfinished) return fail(key);
    for (const json::value& pair : value->get_array()) {
      if (!pair.is_object()) return fail(key);
      Reader reader(pair.get_object());
      CallKey& call = into.emplace_back();
      reader.number("request", call.request);
      reader.number("attempt", call.attempt);
      if (!reader.good()) return fail(key);
    }
  }
  bool good() const { return wrong_.empty(); }
  const std::string& wrong() const { return wrong_; }

 private:
  void fail(std::string_view key) { wrong_ = key; }
  const json::object& from_;
  std::string wrong_;
};

json::object fields(const WorkerHello& hello) {
  json::object all{{"model", hello.model},      {"version", hello.version},
                   {"digest", hello.digest},    {"shim", hello.shim},
                   {"folder", hello.folder},    {"env", hello.env},
                   {"python", hello.python},    {"devices", hello.devices},
                   {"visible", hello.visible},  {"layout", hello.layout_version},
                   {"pid", hello.pid},          {"slot", hello.slot},
                   {"threads", hello.threads},  {"origin", hello.origin},
                   {"attached", hello.attached}};
  json::array unfinished;
  for (const CallKey& call : hello.unfinished) {
    if (unfinished.size() == kMaxUnfinished) break;
    json::object pair{{"request", call.request}, {"attempt", call.attempt}};
    unfinished.push_back(std::move(pair));
  }
  if (!unfinished.empty()) all["unfinished"] = std::move(unfinished);
  return all;
}
json::object fields(const WorkerFailed& failed) {
  return {{"slot", failed.slot}, {"pid", failed.pid}, {"text", failed.text}, {"origin", failed.origin}};
}
json::object fields(const Accept& accept) {
  return {{"layout", accept.layout_version},     {"capacity", accept.capacity},
          {"input_bytes", accept.input_bytes},   {"output_arena", static_cast<std::uint32_t>(accept.output_arena)},
          {"output_bytes", accept.output_bytes}, {"spin_us", accept.spin_us}};
}
json::object fields(const ArenaNotice& notice) {
  return {{"id", static_cast<std::uint32_t>(notice.arena)}, {"bytes", notice.bytes}};
}
json::object fields(const ArenaGone& gone) {
  return {{"id", static_cast<std::uint32_t>(gone.arena)}};
}
json::object fields(const SpinNotice& spin) {
  return {{"spin_us", spin.spin_us}};
}

void read(Reader& reader, WorkerHello& hello) {
  reader.text("model", hello.model);
  reader.text("version", hello.version);
  reader.text("digest", hello.digest);
  reader.text("shim", hello.shim);
  hello.layout_version = 0;
  reader.number("layout", hello.layout_version);
  reader.number("pid", hello.pid);
  reader.number("slot", hello.slot);
  reader.text("folder", hello.folder, kMaxPathBytes);
  reader.text("env", hello.env);
  reader.text("python", hello.python, kMaxPathBytes);
  reader.text("devices", hello.devices);
  reader.text("visible", hello.visible);
  reader.number("threads", hello.threads);
  reader.text("origin", hello.origin);
  reader.number("attached", hello.attached);
  reader.calls("unfinished", hello.unfinished);
}
void read(Reader& reader, WorkerFailed& failed) {
  reader.number("slot", failed.slot);
  reader.number("pid", failed.pid);
  reader.text("text", failed.text, kMaxTextBytes);
  reader.text("origin", failed.origin);
}
void read(Reader& reader, Accept& accept) {
  accept.layout_version = 0;
  reader.number("layout", accept.layout_version);
  reader.number("capacity", accept.capacity);
  reader.number("input_bytes", accept.input_bytes);
  std::uint32_t arena = 0;
  reader.number("output_arena", arena);
  accept.output_arena = ArenaId{arena};
  reader.number("output_bytes", accept.output_bytes);
  reader.number("spin_us", accept.spin_us);
}
void read(Reader& reader, ArenaNotice& notice) {
  std::uint32_t arena = 0;
  reader.number("id", arena);
  notice.arena = ArenaId{arena};
  reader.number("bytes", notice.bytes);
}
void read(Reader& reader, ArenaGone& gone) {
  std::uint32_t arena = 0;
  reader.number("id", arena);
  gone.arena = ArenaId{arena};
}
void read(Reader& reader, SpinNotice& spin) {
  reader.number("spin_us", spin.spin_us);
}

template <class Body>
Outcome<AttachBody> read_as(const json::value& value) {
  if (!value.is_object()) return broken("its value is no object");
  Reader reader(value.get_object());
  Body body;
  read(reader, body);
  if (!reader.good()) return broken("bad value of '" + reader.wrong() + "'");
  return AttachBody(std::move(body));
}
}  // namespace

std::string to_json(const AttachBody& body) {
  json::object whole;
  if (const auto* hello = std::get_if<WorkerHello>(&body)) whole["hello"] = fields(*hello);
  if (const auto* failed = std::get_if<WorkerFailed>(&body)) whole["failed"] = fields(*failed);
  if (const auto* accept = std::get_if<Accept>(&body)) whole["accept"] = fields(*accept);
  if (const auto* notice = std::get_if<ArenaNotice>(&body)) whole["arena"] = fields(*notice);
  if (const auto* gone = std::get_if<ArenaGone>(&body)) whole["gone"] = fields(*gone);
  if (const auto* spin = std::get_if<SpinNotice>(&body)) whole["spin"] = fields(*spin);
  if (const auto* exit = std::get_if<ExitNotice>(&body)) whole["exit"] = exit->reason;
  return json::serialize(whole);
}

Outcome<AttachBody> attach_body_from(std::string_view text) {
  if (text.size() > kMaxAttachBytes) return broken("over 16 KiB");
  json::error_code failed;
  json::parse_options options;
  options.max_depth = 5;
  const json::value parsed = json::parse({text.data(), text.size()}, failed, {}, options);
  if (failed || !parsed.is_object()) return broken("no JSON object");
  const json::object& whole = parsed.get_object();
  if (const auto* value = whole.if_contains("hello")) return read_as<WorkerHello>(*value);
  if (const auto* value = whole.if_contains("failed")) return read_as<WorkerFailed>(*value);
  if (const auto* value = whole.if_contains("accept")) return read_as<Accept>(*value);
  if (const auto* value = whole.if_contains("arena")) return read_as<ArenaNotice>(*value);
  if (const auto* value = whole.if_contains("gone")) return read_as<ArenaGone>(*value);
  if (const auto* value = whole.if_contains("spin")) return read_as<SpinNotice>(*value);
  if (const auto* value = whole.if_contains("exit")) {
    if (!value->is_string()) return broken("bad value of 'exit'");
    return AttachBody(ExitNotice{one_line({value->get_string().data(), value->get_string().size()})});
  }
  return broken("unknown kind");
}

Outcome<void> send_message(int socket, const AttachBody& body, const std::vector<int>& fds) {
  std::string text = to_json(body);
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxAttachFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fds.size() > kMaxAttachFds) return broken("too many descriptors");
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return done();
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Error{Errc::overloaded, "the workers socket takes no more"};
    return system_error("send to the workers socket");
  }
}

Outcome<AttachMessage> receive_message(int socket) {
  std::string text(kMaxAttachBytes, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxAttachFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Error{Errc::short_frame, {}};
  if (got < 0) return system_error("receive from the workers socket");
  AttachMessage result;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      result.fds.emplace_back(fd);  // owned from here, so that a refused message closes what it brought
    }
  }
  if (got == 0) return Error{Errc::closed, "the peer closed the workers socket"};
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return broken("too long, or too many descriptors");
  text.resize(static_cast<std::size_t>(got));
  BOOST_OUTCOME_TRY(result.body, attach_body_from(text));
  return result;
}

Outcome<Fd> dial(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket.string();
  if (path.size() >= sizeof address.sun_path)
    return Error{Errc::unreachable, "socket path is too long: " + escaped(path)};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return Error{Errc::unreachable, std::string("socket: ") + std::strerror(errno)};
  int failed = 0;
  do {
    failed = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return Error{Errc::unreachable, escaped(path) + ": " + std::strerror(errno)};
  return fd;
}

Outcome<void> report_failure(const std::filesystem::path& socket, const WorkerHello& hello, std::string_view text) {
  BOOST_OUTCOME_TRY(const Fd fd, dial(socket));
  const WorkerFailed failed{hello.slot, hello.pid, one_line(text), hello.origin};
  return send_message(fd.get(), AttachBody(failed), {});
}

}  // namespace gearbox::shm
