#include "gearbox/shm/arena.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>

namespace gearbox::shm {

TEST(Arena, AllOfItIsAllocatedWhenItIsMade) {
  auto memory = create_memory("test", 3 << 20);
  ASSERT_TRUE(memory);
  struct stat info {};
  ASSERT_EQ(::fstat(memory.value().get(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 3 << 20);
  EXPECT_NE(::ftruncate(memory.value().get(), 0), 0) << "a peer could shrink it under us";
}

TEST(Arena, MoreThanThereIsIsNoSpaceWithBothFigures) {
  auto memory = create_memory("test", std::uint64_t{1} << 50);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Errc::no_space);
  EXPECT_NE(memory.error().detail.find("1125899906842624 bytes wanted, "), std::string::npos) << memory.error().detail;
  EXPECT_FALSE(create_memory("test", ~std::uint64_t{0}));
}

TEST(Arena, AFileSizeLimitIsNoSpaceAndNotASignal) {
  const int child = ::fork();
  if (child == 0) {
    rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto memory = create_memory("test", 2 << 20);
    ::_exit(!memory && memory.error().code == Errc::no_space ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Arena, AReaderSeesWhatIsWrittenAndCannotWrite) {
  const Fd memory = create_memory("test", 1 << 16).value();
  const Mapping writer = Mapping::map(memory, 1 << 16, Access::read_write).value();
  const Fd read_only = reopen_read_only(memory).value();
  const Mapping reader = Mapping::map(read_only, 1 << 16, Access::read_only).value();
  std::memcpy(writer.data() + 1000, "hello", 5);
  EXPECT_EQ(std::memcmp(reader.data() + 1000, "hello", 5), 0);
  EXPECT_FALSE(Mapping::map(read_only, 1 << 16, Access::read_write));
  if (forbid_new_writers(memory)) {
    EXPECT_FALSE(Mapping::map(memory, 1 << 16, Access::read_write));
    EXPECT_TRUE(Mapping::map(read_only, 1 << 16, Access::read_only));
    std::memcpy(writer.data() + 1000, "there", 5);
    EXPECT_EQ(std::memcmp(reader.data() + 1000, "there", 5), 0);
  }
}

TEST(Arena, MemoryThatIsSmallerThanSaidOrCouldShrinkIsRefused) {
  const Fd memory = create_memory("test", 1 << 16).value();
  EXPECT_EQ(Mapping::map(memory, (1 << 16) + 1, Access::read_only).error().code, Errc::bad_frame);
  EXPECT_FALSE(Mapping::map(memory, 0, Access::read_only));
  const Fd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 16), 0);
  EXPECT_EQ(Mapping::map(unsealed, 1 << 16, Access::read_only).error().code, Errc::bad_frame);
}

}  // namespace gearbox::shm
