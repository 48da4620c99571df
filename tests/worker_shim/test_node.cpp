#include "test_node.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "gearbox/base/clock.hpp"

namespace gearbox::test {
namespace {

constexpr std::uint64_t kInputSlot = 256 * 1024;  // one for each place of the ring
constexpr std::uint64_t kGrant = 576 * 1024;
constexpr shm::ArenaId kOutput{1};

int left_ms(Instant until) {
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  return static_cast<int>(left < 0 ? 0 : left);
}

}  // namespace

Tensor text_tensor(std::string name, std::string_view text) {
  std::array<std::byte, 4> length{};
  store_le(length.data(), static_cast<std::uint32_t>(text.size()));
  return Tensor{std::move(name), wire::DType::bytes, {1}, std::string(text_of(length)) + std::string(text)};
}

Tensor uint8_tensor(std::string name, std::string bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  return Tensor{std::move(name), wire::DType::uint8, {size}, std::move(bytes)};
}

const Tensor* Answer::find(std::string_view name, std::uint32_t item) const {
  for (const Tensor& tensor : outputs) {
    if (tensor.name == name && tensor.item == item) return &tensor;
  }
  return nullptr;
}

TestNode::TestNode() {
  std::string made = (std::filesystem::temp_directory_path() / "gearbox-shim-XXXXXX").string();
  if (::mkdtemp(made.data()) == nullptr) std::abort();
  folder_ = made;
  listen();
}

TestNode::~TestNode() {
  if (pid_ > 0 && !status_) {
    ::kill(pid_, SIGKILL);
    ended();
  }
  if (pid_fd_ >= 0) ::close(pid_fd_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void TestNode::listen() {
  listener_ = shm::Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder_ / "workers.sock").c_str(), sizeof address.sun_path - 1);
  ::unlink(address.sun_path);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 4) != 0) {
    std::abort();
  }
}

void TestNode::start(const std::string& model, std::vector<std::string> more, std::vector<std::string> env) {
  std::vector<std::string> line{SHIM,   "--model", std::string(MODELS) + "/" + model, "--env",
                                "test", "--node",  folder_ / "workers.sock",          "--slot",
                                "3"};
  if (std::find(more.begin(), more.end(), "--python") == more.end()) line.insert(line.end(), {"--python", PYTHON});
  line.insert(line.end(), more.begin(), more.end());
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) env.emplace_back(*entry);
  std::vector<char*> envp;
  for (std::string& entry : env) envp.push_back(entry.data());
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  const std::string log = folder_ / "log";
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  const int failed = ::posix_spawn(&pid_, SHIM, &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ASSERT_EQ(failed, 0) << std::strerror(failed);
  pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  ASSERT_GE(pid_fd_, 0);
}

std::optional<shm::AttachBody> TestNode::first_message(milliseconds within) {
  const Instant until = Clock::now() + within;
  std::array<pollfd, 2> both{{{listener_.get(), POLLIN, 0}, {pid_fd_, POLLIN, 0}}};
  if (::poll(both.data(), both.size(), left_ms(until)) <= 0) return std::nullopt;
  if ((both[0].revents & POLLIN) == 0) return std::nullopt;  // it ended
  socket_ = shm::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  auto message = shm::receive_message(socket_.get());
  if (!message) return std::nullopt;
  return message.value().body;
}

bool TestNode::attach(milliseconds within) {
  const auto body = first_message(within);
  if (!body || !std::holds_alternative<shm::WorkerHello>(*body)) return false;
  const std::uint64_t input_bytes = kInputSlot * shm::kRingCapacity;
  const std::uint64_t output_bytes = kGrant * shm::kRingCapacity;
  auto input = shm::create_memory("test-input", input_bytes);
  auto output = shm::create_memory("test-output", output_bytes);
  auto ring = shm::create_memory("test-ring", shm::ring_bytes(shm::kRingCapacity));
  auto worker_bell = shm::Doorbell::create();
  auto node_bell = shm::Doorbell::create();
  if (!input || !output || !ring || !worker_bell || !node_bell) return false;
  auto for_worker = shm::reopen_read_only(input.value());
  if (!for_worker) return false;
  input_ = shm::Mapping::map(input.value(), input_bytes, shm::Access::read_write).value();
  output_ = shm::Mapping::map(output.value(), output_bytes, shm::Access::read_only).value();
  ring_map_ = shm::Mapping::map(ring.value(), shm::ring_bytes(shm::kRingCapacity), shm::Access::read_write).value();
  shm::RingMemory* const memory = shm::make_ring(ring_map_.data(), shm::kRingCapacity);
  requests_ = shm::RingProducer(memory->to_worker, shm::to_worker_entries(memory), shm::kRingCapacity);
  answers_ = shm::RingConsumer(memory->to_node, shm::to_node_entries(memory, shm::kRingCapacity), shm::kRingCapacity);
  worker_bell_ = std::move(worker_bell).value();
  node_bell_ = std::move(node_bell).value();
  shm::Accept accept;
  accept.capacity = shm::kRingCapacity;
  accept.input_bytes = input_bytes;
  accept.output_arena = kOutput;
  accept.output_bytes = output_bytes;
  accept.spin_us = 20;
  return shm::send_message(
             socket_.get(), accept,
             {ring.value().get(), worker_bell_.fd(), node_bell_.fd(), for_worker.value().get(), output.value().get()})
      .has_value();
}

void TestNode::put(const std::vector<Tensor>& inputs, shm::CallKind kind, std::int64_t remaining_us,
                   std::uint32_t rooms) {
  const std::uint64_t place = next_request_ % shm::kRingCapacity;
  const std::uint64_t slot = place * kInputSlot;
  shm::BlockWriter block(input_.bytes().subspan(slot, shm::kAnswerBlockBytes));
  std::uint64_t at = slot + shm::kAnswerBlockBytes;
  for (const Tensor& tensor : inputs) {
    std::memcpy(input_.data() + at, tensor.bytes.data(), tensor.bytes.size());
    const wire::TensorSpec spec{tensor.name, tensor.dtype, tensor.shape, tensor.bytes.size()};
    ASSERT_TRUE(block.add(spec, tensor.item, shm::kInputArena, at).has_value());
    at = (at + tensor.bytes.size() + 63) / 64 * 64;
  }
  shm::Descriptor call{};
  call.handed_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  call.request = next_request_++;
  call.kind = kind;
  call.seed = seed_;
  if (remaining_us >= 0) {
    call.deadline_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch() + microseconds(remaining_us)).count();
  }
  call.block_arena = shm::kInputArena;
  call.grant_offset = place * kGrant;
  call.grant_bytes = kGrant;
  if (rooms > 0) {
    call.rooms = rooms;
    call.grant_bytes = shm::part_rooms(rooms, 16 << 10).grant_bytes();
    ASSERT_LE(call.grant_bytes, kGrant);
  }
  if (!inputs.empty()) {
    const auto written = block.finish();
    ASSERT_TRUE(written.has_value());
    call.block_offset = slot;
    call.block_bytes = written.value();
  }
  ASSERT_TRUE(requests_.push(call).has_value());
}

void TestNode::publish() {
  if (requests_.publish()) worker_bell_.ring();
}

std::uint64_t TestNode::call(const std::vector<Tensor>& inputs, microseconds remaining) {
  put(inputs, shm::CallKind::infer, remaining.count());
  publish();
  return next_request_ - 1;
}

void TestNode::cancel_last() {
  const std::uint64_t slot = (next_request_ - 1) % shm::kRingCapacity * kInputSlot;
  shm::mark_cancelled(input_.bytes().subspan(slot, shm::kAnswerBlockBytes));
}

ByteSpan TestNode::block_of(std::uint64_t request) {
  return input_.bytes().subspan(request % shm::kRingCapacity * kInputSlot, shm::kAnswerBlockBytes);
}

std::uint64_t TestNode::stream(const std::vector<Tensor>& inputs, std::uint32_t rooms) {
  put(inputs, shm::CallKind::infer, -1, rooms);
  publish();
  return next_request_ - 1;
}

void TestNode::credit(std::uint64_t request, std::uint32_t parts) {
  shm::give_credit(block_of(request), parts);
  publish();
}

void TestNode::cancel(std::uint64_t request) {
  shm::mark_cancelled(block_of(request));
  publish();
}

std::vector<std::uint64_t> TestNode::calls(const std::vector<std::vector<Tensor>>& inputs) {
  std::vector<std::uint64_t> numbers;
  for (const auto& one : inputs) {
    numbers.push_back(next_request_);
    put(one, shm::CallKind::infer, -1);
  }
  publish();
  return numbers;
}

std::uint64_t TestNode::probe() {
  put({}, shm::CallKind::probe, -1);
  publish();
  return next_request_ - 1;
}

bool TestNode::is_aside(std::uint64_t request) const {
  return shm::is_aside(output_.view().subspan(request % shm::kRingCapacity * kGrant, kGrant), request);
}

std::optional<Answer> TestNode::answer(milliseconds within) {
  const Instant until = Clock::now() + within;
  for (;;) {
    const auto there = answers_.ready();
    if (!there) return std::nullopt;
    if (there.value() > 0) break;
    if (answers_.may_sleep()) {
      std::array<pollfd, 2> both{{{node_bell_.fd(), POLLIN, 0}, {pid_fd_, POLLIN, 0}}};
      const int count = ::poll(both.data(), both.size(), left_ms(until));
      answers_.wake();
      if (count <= 0) return std::nullopt;
      if ((both[0].revents & POLLIN) == 0 && answers_.ready().value() == 0) return std::nullopt;  // it ended
      std::uint64_t rings = 0;
      if ((both[0].revents & POLLIN) != 0 && ::read(node_bell_.fd(), &rings, sizeof rings) < 0) return std::nullopt;
    } else {
      answers_.wake();
    }
  }
  const shm::Descriptor descriptor = answers_.take();
  answers_.release();
  Answer answer;
  answer.request = descriptor.request;
  answer.batch = descriptor.batch;
  answer.failed = descriptor.kind == shm::CallKind::failure;
  answer.is_part = descriptor.kind == shm::CallKind::part;
  answer.part = descriptor.part;
  answer.again_ms = descriptor.again_ms;
  if (descriptor.block_bytes == 0) return answer;  // a stream's end
  EXPECT_TRUE(shm::check_range(descriptor.block_offset, descriptor.block_bytes, output_.size()).has_value());
  const auto block = shm::read_block(output_.view().subspan(descriptor.block_offset, descriptor.block_bytes));
  EXPECT_TRUE(block.has_value());
  if (!block) return std::nullopt;
  answer.code = static_cast<Errc>(block.value().error);
  answer.text = block.value().text;
  for (const shm::PlacedTensor& tensor : block.value().tensors) {
    EXPECT_TRUE(shm::check_range(tensor.offset, tensor.spec.bytes, output_.size()).has_value());
    answer.outputs.push_back(Tensor{tensor.spec.name, tensor.spec.dtype, tensor.spec.shape,
                                    std::string(text_of(output_.view().subspan(tensor.offset, tensor.spec.bytes))),
                                    tensor.item});
  }
  return answer;
}

std::optional<Answer> TestNode::ask(const std::vector<Tensor>& inputs) {
  const std::uint64_t number = call(inputs);
  auto got = answer();
  if (got && got->request != number) return std::nullopt;
  return got;
}

void TestNode::say_exit() {
  EXPECT_TRUE(shm::send_message(socket_.get(), shm::AttachBody(shm::ExitNotice{"enough"}), {}));
}

void TestNode::vanish() {
  socket_.reset();
  listener_.reset();
}

void TestNode::signal(int number) {
  ::kill(pid_, number);
}

std::optional<int> TestNode::ended(milliseconds within) {
  if (status_) return status_;
  pollfd end{pid_fd_, POLLIN, 0};
  if (::poll(&end, 1, static_cast<int>(within.count())) != 1) return std::nullopt;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = status;
  return status_;
}

std::string TestNode::log() const {
  std::ifstream file(folder_ / "log");
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

}  // namespace gearbox::test
