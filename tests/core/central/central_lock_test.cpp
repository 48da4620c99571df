#include "central/central_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

/// A process that holds the lock and stays.
class Holder {
 public:
  explicit Holder(const std::filesystem::path& file) {
    int told[2];
    if (::pipe(told) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      auto lock = CentralLock::open(file);
      const auto taken = lock ? lock.value().take() : Outcome<std::optional<int>>(Error{});
      const char has = taken && !taken.value() ? 'y' : 'n';
      if (::write(told[1], &has, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char has = 0;
    has_it_ = ::read(told[0], &has, 1) == 1 && has == 'y';
    ::close(told[0]);
    ::close(told[1]);
  }
  ~Holder() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool has_it() const { return has_it_; }
  int pid() const { return pid_; }

 private:
  int pid_ = 0;
  bool has_it_ = false;
};

TEST(CentralLock, IsHeldByOneProcessAndGoesWithIt) {
  const testing::TempDir folder;
  Holder holder(folder.path() / "lock");
  ASSERT_TRUE(holder.has_it());
  auto lock = CentralLock::open(folder.path() / "lock");
  ASSERT_TRUE(lock);
  auto taken = lock.value().take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken.value(), holder.pid());
  ::kill(holder.pid(), SIGSTOP);
  taken = lock.value().take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken.value(), holder.pid()) << "one that stands still keeps it";
  holder.kill();
  taken = lock.value().take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken.value(), std::nullopt);
  Holder next(folder.path() / "lock");
  EXPECT_FALSE(next.has_it());
}

TEST(CentralLock, IsNotTakenOverByAForkedChild) {
  const testing::TempDir folder;
  int child = 0;
  {
    auto lock = CentralLock::open(folder.path() / "lock");
    ASSERT_TRUE(lock);
    ASSERT_EQ(lock.value().take().value(), std::nullopt);
    child = ::fork();
    if (child == 0) {
      for (;;) ::pause();  // has the descriptor, as a child has that did not run its program yet
    }
  }
  Holder next(folder.path() / "lock");
  EXPECT_TRUE(next.has_it());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace gearbox::central
