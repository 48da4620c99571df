// Ranks as processes over memory that is passed as a descriptor, as they really are: each maps it at its own address,
// and any of them may be killed at any moment.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <vector>

#include "collective.h"

namespace {

constexpr std::uint32_t kLimit = 20000;  // ms: far more than any round takes

/// Memory for one group of `members` and one channel, and processes that each map it anew.
class Ranks {
 public:
  explicit Ranks(std::uint32_t members) {
    const std::array<std::uint32_t, 1> groups{members};
    bytes_ = gbx_region_bytes(groups.data(), 1, 1, 256);
    memory_ = ::memfd_create("collective-test", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(memory_, static_cast<off_t>(bytes_)), 0);
    base_ = map();
    EXPECT_EQ(gbx_region_format(base_, bytes_, groups.data(), 1, 1, 256), GBX_OK);
    EXPECT_EQ(::pipe(began_.data()), 0);
  }
  ~Ranks() {
    for (const pid_t pid : pids_) {
      if (pid == 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(base_, bytes_);
    for (const int descriptor : {memory_, began_[0], began_[1]}) ::close(descriptor);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// `rank` returns its exit code; it may say began().
  void start(const std::function<int(gbx_collective*)>& rank) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      void* const own = map();
      ::munmap(base_, bytes_);
      gbx_collective* const opened = gbx_open(own, bytes_);
      ::_exit(opened == nullptr ? 100 : rank(opened));
    }
    pids_.push_back(pid);
  }
  void began() const {
    const char word = 'b';
    if (::write(began_[1], &word, 1) != 1) ::_exit(101);
  }
  /// Waits until a rank has said so.
  bool has_begun() const {
    pollfd there{began_[0], POLLIN, 0};
    char word = 0;
    return ::poll(&there, 1, kLimit) == 1 && ::read(began_[0], &word, 1) == 1;
  }
  void kill(std::size_t rank) { ::kill(pids_[rank], SIGKILL); }
  /// The exit code of a rank; -1 when it was killed.
  int end_of(std::size_t rank) {
    int status = 0;
    EXPECT_EQ(::waitpid(pids_[rank], &status, 0), pids_[rank]);
    pids_[rank] = 0;  // it may be another's by now
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  gbx_collective* open() const { return gbx_open(base_, bytes_); }

 private:
  void* map() const { return ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0); }

  std::uint64_t bytes_ = 0;
  int memory_ = -1;
  void* base_ = nullptr;
  std::array<int, 2> began_{};
  std::vector<pid_t> pids_;  // 0: it has ended
};

/// One round of everything. Returns 0 when all is right.
int round_of(gbx_collective* self, std::uint32_t rank, std::uint32_t members, int round) {
  std::vector<float> data(300);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(rank + i) + static_cast<float>(round);
  if (const int state = gbx_all_reduce(self, 0, rank, data.data(), data.size(), kLimit); state != GBX_OK) return state;
  for (std::size_t i = 0; i < data.size(); ++i) {
    float want = 0;
    for (std::uint32_t member = 0; member < members; ++member) {
      want += static_cast<float>(member + i) + static_cast<float>(round);
    }
    if (data[i] != want) return 50;
  }
  std::array<int, 100> word{};
  if (rank == 0) {
    word.fill(round);
    return gbx_send(self, 0, word.data(), sizeof(word), kLimit);
  }
  if (rank == 1) {
    if (const int state = gbx_receive(self, 0, word.data(), sizeof(word), kLimit); state != GBX_OK) return state;
    for (const int value : word) {
      if (value != round) return 51;
    }
  }
  return GBX_OK;
}

TEST(CollectiveProcesses, AgreeOverManyRounds) {
  constexpr std::uint32_t kMembers = 3;
  Ranks ranks(kMembers);
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    ranks.start([rank](gbx_collective* self) {
      for (int round = 0; round < 300; ++round) {
        if (const int wrong = round_of(self, rank, kMembers, round); wrong != GBX_OK) return wrong + 1;
      }
      gbx_close(self);
      return 0;
    });
  }
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) EXPECT_EQ(ranks.end_of(rank), 0) << rank;
}

TEST(CollectiveProcesses, SurvivorsOfOneThatIsKilledLeaveWhenTheyAreToldTo) {
  constexpr std::uint32_t kMembers = 3;
  for (int time = 0; time < 8; ++time) {
    Ranks ranks(kMembers);
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
      ranks.start([rank, &ranks](gbx_collective* self) {
        for (int round = 0;; ++round) {
          if (round == 20) ranks.began();
          const int state = round_of(self, rank, kMembers, round);
          if (state != GBX_OK) return state == GBX_ABORTED ? 7 : state + 10;
        }
      });
    }
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) ASSERT_TRUE(ranks.has_begun());
    ranks.kill(static_cast<std::size_t>(time) % kMembers);  // wherever it is just now
    EXPECT_EQ(ranks.end_of(static_cast<std::size_t>(time) % kMembers), -1);
    gbx_collective* const driver = ranks.open();
    ASSERT_NE(driver, nullptr);
    gbx_abort(driver);
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
      if (rank == static_cast<std::uint32_t>(time) % kMembers) continue;
      EXPECT_EQ(ranks.end_of(rank), 7) << rank;
    }
    gbx_close(driver);
  }
}

}  // namespace
