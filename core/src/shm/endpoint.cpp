#include "gearbox/shm/endpoint.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "gearbox/shm/prefetch.hpp"
#include "shm/endpoint_state.hpp"

namespace gearbox::shm {

Outcome<void> WorkerEndpoint::State::adopt(AttachMessage& message) {
  if (auto* exit = std::get_if<ExitNotice>(&message.body)) return Error{Errc::not_allowed, exit->reason};
  const auto* accept = std::get_if<Accept>(&message.body);
  if (accept == nullptr || message.fds.size() != kMaxAttachFds) {
    return Error{Errc::bad_frame, "the node answered the hello with something else"};
  }
  if (accept->layout_version != kLayoutVersion) {
    return Error{Errc::unsupported_version,
                 "the node's memory layout is version " + std::to_string(accept->layout_version)};
  }
  BOOST_OUTCOME_TRY(ring_memory, Mapping::map(message.fds[kRingFd], ring_bytes(accept->capacity), Access::read_write));
  BOOST_OUTCOME_TRY(RingMemory * ring, open_ring(ring_memory.data(), ring_memory.size(), accept->capacity));
  requests = RingConsumer(ring->to_worker, to_worker_entries(ring), accept->capacity);
  answers = RingProducer(ring->to_node, to_node_entries(ring, accept->capacity), accept->capacity);
  beat = &ring->beat.count;
  own_bell = std::move(message.fds[kWorkerBellFd]);
  node_bell = Doorbell(std::move(message.fds[kNodeBellFd]));
  output = accept->output_arena;
  BOOST_OUTCOME_TRY(arenas[kInputArena], Mapping::map(message.fds[kInputFd], accept->input_bytes, Access::read_only));
  BOOST_OUTCOME_TRY(arenas[output], Mapping::map(message.fds[kOutputFd], accept->output_bytes, Access::read_write));
  input_bytes = arenas[kInputArena].view();
  output_bytes = arenas[output].bytes();
  ring_memory.hide_from_children();
  arenas[output].hide_from_children();
  spin = SpinBudget(microseconds(accept->spin_us));
  return watch();
}

Outcome<void> WorkerEndpoint::State::watch() {
  epoll = Fd(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event bell{};
  bell.events = EPOLLIN | EPOLLET;
  bell.data.fd = own_bell.get();
  epoll_event node{};
  node.events = EPOLLIN | EPOLLRDHUP;
  node.data.fd = socket.get();
  if (!epoll || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, own_bell.get(), &bell) != 0 ||
      ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.get(), &node) != 0) {
    return Error{Errc::io_error, std::string("epoll: ") + std::strerror(errno)};
  }
  return done();
}

/// Takes what the node has said on the socket meanwhile. Errors: closed; not_allowed when it said "exit"; bad_frame.
Outcome<void> WorkerEndpoint::State::drain_socket() {
  for (;;) {
    auto message = receive_message(socket.get());
    if (!message) {
      if (message.error().code == Errc::short_frame) return done();
      return Error{Errc::closed, message.error().detail};
    }
    if (auto* exit = std::get_if<ExitNotice>(&message.value().body)) return Error{Errc::not_allowed, exit->reason};
    if (const auto* notice = std::get_if<ArenaNotice>(&message.value().body)) {
      if (message.value().fds.size() != 1) return Error{Errc::bad_frame, "an arena without its descriptor"};
      BOOST_OUTCOME_TRY(arenas[notice->arena], Mapping::map(message.value().fds[0], notice->bytes, Access::read_only));
    } else if (const auto* taken = std::get_if<ArenaGone>(&message.value().body)) {
      let_go(taken->arena);
    } else if (const auto* changed = std::get_if<SpinNotice>(&message.value().body)) {
      spin = SpinBudget(microseconds(changed->spin_us));
    }
  }
}

void WorkerEndpoint::State::let_go(ArenaId arena) {
  const auto found = arenas.find(arena);
  if (found == arenas.end() || arena == kInputArena || arena == output) return;
  last_input = {};  // it may lie there
  if (keep_gone) gone.push_back(std::move(found->second));
  arenas.erase(found);
}

Outcome<ByteView> WorkerEndpoint::State::view(ArenaId arena, std::uint64_t offset, std::uint64_t bytes) {
  if (arena == kInputArena) {
    BOOST_OUTCOME_TRY(check_range(offset, bytes, input_bytes.size()));
    return input_bytes.subspan(offset, bytes);
  }
  auto found = arenas.find(arena);
  if (found == arenas.end()) {
    BOOST_OUTCOME_TRY(drain_socket());  // its descriptor was sent before the call was published
    found = arenas.find(arena);
    if (found == arenas.end()) {
      return Error{Errc::bad_frame,
                   "arena " + std::to_string(static_cast<std::uint32_t>(arena)) + " is not known here"};
    }
  }
  const ByteView all = found->second.view();
  BOOST_OUTCOME_TRY(check_range(offset, bytes, all.size()));
  return all.subspan(offset, bytes);
}

Outcome<Call> WorkerEndpoint::State::open(const Descriptor& descriptor, Instant now) {
  Call call;
  call.descriptor = descriptor;
  call.taken = now;
  const Instant handed{std::chrono::nanoseconds(descriptor.handed_ns)};
  call.handed = descriptor.handed_ns == 0 || handed > now ? now : handed;
  BOOST_OUTCOME_TRY(check_range(descriptor.grant_offset, descriptor.grant_bytes, output_bytes.size()));
  if (descriptor.grant_bytes < kAnswerBlockBytes) return Error{Errc::bad_frame, "the grant holds no block"};
  call.grant = output_bytes.subspan(descriptor.grant_offset, descriptor.grant_bytes);
  // The node read the last answer there.
  will_write(call.grant.data(), block_bytes(1, 0));
  if (call.grant.size() > kAnswerBlockBytes) will_write(call.grant.data() + kAnswerBlockBytes, 1);
  call.reserved = kAnswerBlockBytes;
  if (descriptor.rooms > 0) {
    BOOST_OUTCOME_TRY(call.rooms, rooms_of(descriptor));
  }
  if (descriptor.block_bytes == 0) return call;
  BOOST_OUTCOME_TRY(const ByteView bytes,
                    view(descriptor.block_arena, descriptor.block_offset, descriptor.block_bytes));
  BOOST_OUTCOME_TRY(read_block(bytes, block));
  call.block = bytes;
  if (!answered.empty()) {
    call.inputs = std::move(answered.back());
    answered.pop_back();
  }
  call.inputs.resize(block.tensors.size());
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    PlacedTensor& tensor = block.tensors[i];
    BOOST_OUTCOME_TRY(call.inputs[i].bytes, view(tensor.arena, tensor.offset, tensor.spec.bytes));
    call.inputs[i].item = tensor.item;
    std::swap(call.inputs[i].spec, tensor.spec);  // the buffers of both stay in use
  }
  last_block = bytes.first(std::min<std::size_t>(bytes.size(), block_bytes(2, 0)));
  if (!call.inputs.empty()) {
    last_input = call.inputs[0].bytes.first(std::min<std::size_t>(call.inputs[0].bytes.size(), 4 * kLineBytes));
  }
  return call;
}

/// Has the bytes that the next call probably consists of on their way while its descriptor is looked at.
void WorkerEndpoint::State::expect() const {
  will_read(last_block.data(), last_block.size());
  will_read(last_input.data(), last_input.size());
}

void WorkerEndpoint::State::recycle(Call& call) {
  if (answered.size() < kRingCapacity) answered.push_back(std::move(call.inputs));
  call.inputs.clear();
}

void WorkerEndpoint::State::publish(const Descriptor& answer) {
  // The ring holds an answer for each call that the node may hand over: when it is full the node broke its word.
  if (!answers.push(answer)) {
    broken = true;
    return;
  }
  if (answers.publish()) node_bell.ring();
}

void WorkerEndpoint::State::pong(const Descriptor& ping) {
  publish(answer_to(ping, CallKind::answer));
}

/// A call that cannot even be read: answered as a failure where the grant allows, else with an empty failure.
void WorkerEndpoint::State::refuse(const Descriptor& descriptor, const Error& error) {
  Descriptor answer = answer_to(descriptor, CallKind::failure);
  if (check_range(descriptor.grant_offset, descriptor.grant_bytes, output_bytes.size())) {
    BlockWriter writer(output_bytes.subspan(descriptor.grant_offset, descriptor.grant_bytes));
    auto bytes = writer.finish(static_cast<std::uint32_t>(error.code), one_line(error.detail));
    if (bytes) {
      answer.block_arena = output;
      answer.block_offset = descriptor.grant_offset;
      answer.block_bytes = bytes.value();
    }
  }
  publish(answer);
}

Outcome<std::vector<Call>> WorkerEndpoint::State::take(std::uint64_t count, Instant now) {
  std::vector<Call> calls;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Descriptor descriptor = requests.take();
    if (descriptor.kind == CallKind::ping) {
      pong(descriptor);
      continue;
    }
    if (descriptor.kind != CallKind::infer && descriptor.kind != CallKind::probe) {
      refuse(descriptor, Error{Errc::bad_frame, "a call of unknown kind"});
      continue;
    }
    auto call = open(descriptor, now);
    if (call) {
      calls.push_back(std::move(call).value());
    } else if (call.error().code == Errc::closed || call.error().code == Errc::not_allowed) {
      return call.error();
    } else {
      refuse(descriptor, call.error());
    }
  }
  requests.release();
  return calls;
}

/// Until the doorbell or the socket says something, at most until `until`. Errors: those of drain_socket().
Outcome<void> WorkerEndpoint::State::sleep(Instant until, Instant now) {
  const Outcome<void> woken = requests.may_sleep() ? block_until(until, now) : done();
  requests.wake();
  return woken;
}

Outcome<void> WorkerEndpoint::State::block_until(Instant until, Instant now) {
  const auto left = std::chrono::ceil<milliseconds>(until - now);
  const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  std::array<epoll_event, 2> events{};
  const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), timeout);
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<std::size_t>(i)].data.fd == socket.get()) return drain_socket();
  }
  return done();
}

WorkerEndpoint::WorkerEndpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerEndpoint::~WorkerEndpoint() = default;

Outcome<std::unique_ptr<WorkerEndpoint>> WorkerEndpoint::attach(const std::filesystem::path& socket,
                                                                const WorkerHello& hello) {
  auto state = std::make_unique<State>();
  BOOST_OUTCOME_TRY(state->socket, dial(socket));
  // The node answers at once or is gone; a node that hangs must not hold the worker for ever.
  const timeval limit{30, 0};
  if (::setsockopt(state->socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
    return Error{Errc::io_error, std::string("setsockopt: ") + std::strerror(errno)};
  }
  BOOST_OUTCOME_TRY(send_message(state->socket.get(), AttachBody(hello), {}));
  auto message = receive_message(state->socket.get());
  if (!message) {
    if (message.error().code == Errc::short_frame)
      return Error{Errc::unreachable, "the node does not answer the hello"};
    return message.error();
  }
  const int flags = ::fcntl(state->socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(state->socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return Error{Errc::io_error, std::string("fcntl: ") + std::strerror(errno)};
  }
  BOOST_OUTCOME_TRY(state->adopt(message.value()));
  return std::unique_ptr<WorkerEndpoint>(new WorkerEndpoint(std::move(state)));
}

Outcome<std::vector<Call>> WorkerEndpoint::next(std::size_t most, milliseconds within) {
  State& state = *state_;
  const Instant began = Clock::now();
  const Instant until = after(began, within);
  Instant spin_until = began + state.spin.now();
  Instant looked = began;  // the last look at the clock: while it spins, about a microsecond old at most
  for (;;) {
    if (state.broken) return Error{Errc::bad_frame, "the answer ring is full"};
    state.requests.publish_cpu();
    BOOST_OUTCOME_TRY(const std::uint64_t there, state.requests.ready());
    if (there > 0) {
      state.expect();
      BOOST_OUTCOME_TRY(std::vector<Call> calls, state.take(std::min<std::uint64_t>(there, most), looked));
      if (!calls.empty()) {
        state.spin.observe(looked - began);
        return calls;
      }
      continue;  // only pings
    }
    if (looked >= until) return std::vector<Call>{};
    if (looked < spin_until && state.requests.producer_cpu() != this_cpu()) {
      // A short run of looks at the index between two looks at the clock.
      bool came = false;
      for (int i = 0; i < kLooks && !came; ++i) {
        cpu_relax();
        auto again = state.requests.ready();
        came = !again || again.value() > 0;
      }
      // Not when something came: that is not worth 25 ns of its way.
      if (!came) looked = Clock::now();
      continue;
    }
    BOOST_OUTCOME_TRY(state.sleep(until, looked));
    spin_until = looked = Clock::now();  // once per wait
  }
}

Outcome<std::vector<Call>> WorkerEndpoint::look(std::size_t most, std::chrono::nanoseconds within) {
  State& state = *state_;
  const Instant began = Clock::now();
  Instant looked = began;
  state.requests.publish_cpu();
  for (;;) {
    if (state.broken) return Error{Errc::bad_frame, "the answer ring is full"};
    BOOST_OUTCOME_TRY(const std::uint64_t there, state.requests.ready());
    if (there > 0) {
      state.expect();
      BOOST_OUTCOME_TRY(std::vector<Call> calls, state.take(std::min<std::uint64_t>(there, most), looked));
      if (calls.empty()) continue;  // only pings
      state.spin.observe(looked - began);
      return calls;
    }
    if (looked - began >= std::min(within, state.spin.now()) || state.requests.producer_cpu() == this_cpu()) {
      return std::vector<Call>{};
    }
    bool came = false;
    for (int i = 0; i < kLooks && !came; ++i) {
      cpu_relax();
      auto again = state.requests.ready();
      came = !again || again.value() > 0;
    }
    if (!came) looked = Clock::now();
  }
}

void WorkerEndpoint::nudge() {
  const std::uint64_t one = 1;
  // It fails only when the count is full: then an edge is pending anyway.
  [[maybe_unused]] const auto written = ::write(state_->own_bell.get(), &one, sizeof one);
}

void WorkerEndpoint::keep_gone_arenas(bool keep) {
  state_->keep_gone = keep;
  if (!keep) state_->gone.clear();
}

void WorkerEndpoint::hang_up() {
  state_->socket.reset();
  state_->epoll.reset();
  state_->own_bell.reset();
  state_->node_bell = Doorbell();
  state_->beat = nullptr;
  state_->ring_memory = Mapping();
}

void WorkerEndpoint::beat() {
  // Relaxed: the node looks at nothing but whether it changes.
  state_->beat->fetch_add(1, std::memory_order_relaxed);
}

bool WorkerEndpoint::node_gone() const {
  pollfd node{state_->socket.get(), POLLRDHUP, 0};
  return ::poll(&node, 1, 0) == 1 && (node.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace gearbox::shm
