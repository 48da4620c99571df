// log_follower.hpp: shows what the roles write to their log files, line by line, and keeps those files from growing for
// ever.
//
// Children write their files themselves, so a supervisor that is killed takes nobody's output with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace gearbox::supervisor {

class LogFollower {
 public:
  static constexpr std::size_t kMaxLineBytes = 4096;  // longer ones are shown in pieces
  using Show = std::function<void(std::string_view role, std::string_view line)>;

  /// Files past `limit_bytes` are copied to FILE.1 and emptied (their writers append, so they go on at the start).
  LogFollower(Show show, std::uint64_t limit_bytes);
  ~LogFollower();
  LogFollower(const LogFollower&) = delete;
  LogFollower& operator=(const LogFollower&) = delete;

  /// Begins with what is written from now on. Following a role again goes on where it was.
  void follow(const std::string& role, const std::filesystem::path& file);
  /// Shows the rest of it, a last line without its end included, and forgets it.
  void unfollow(const std::string& role);
  /// Shows what is new in all of them; rotates. A file that cannot be read now is tried again at the next call.
  void poll();
  /// The last line that `role` wrote, however long ago; empty when there is none.
  std::string last_line(const std::string& role) const;

 private:
  struct File {
    std::filesystem::path path;
    int descriptor = -1;
    std::uint64_t offset = 0;
    std::string rest;  // of a line whose end has not been written yet
    std::string last;
    std::uint64_t rotate_at =
        0;  // size at which it is rotated; raised after a failure, so that it is not tried all the time
    bool rotation_failed = false;
  };
  void drain(const std::string& role, File& file);
  void show_new(const std::string& role, File& file, std::uint64_t end_at);
  void rotate(const std::string& role, File& file, std::uint64_t size);

  Show show_;
  std::uint64_t limit_bytes_;
  std::map<std::string, File> files_;
};

}  // namespace gearbox::supervisor
