// command_desk.hpp: what people may have this device do from afar (`broker device send`), each command once.
//
// A command's number, its answer and what it sets are one small file, KEYS/commands, which is replaced as a whole: a
// kill finds a command either not carried out at all, or carried out with its answer known. So nothing may be a command
// here whose effect is not in that file, or that a second time would not harm (a restart).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/command.hpp"

namespace gearbox::client {

/// How fast `run` uploads: what a command has set, in bytes a second (0: no limit); nothing: as the command line says.
using SetRate = std::optional<std::uint64_t>;

/// The file. Blocking; several processes with one key may use it at once.
struct CommandRecord {
  std::uint64_t number = 0;  // of the last command that was carried out; 0: none was
  bool ok = false;
  std::string answer;  // its answer
  SetRate rate;

  static std::filesystem::path file(const std::string& keys_folder);
  /// An empty one when there is none. Errors: corrupt_data, io_error.
  static Outcome<CommandRecord> load(const std::filesystem::path& file);
  /// Durable when it returns. Errors: io_error, no_space; the file is then as it was.
  Outcome<void> save(const std::filesystem::path& file) const;
};

class CommandDesk {
 public:
  /// What the program can do; what is empty it cannot.
  struct Ends {
    std::function<std::string()> status;          // what it has to say beside version and uptime; any thread, may block
    std::function<void(SetRate rate)> set_rate;   // from now on
    std::function<void()> restart;                // end in order and begin anew
    std::function<void(const std::string&)> say;  // for people
  };
  CommandDesk(const std::string& keys_folder, Ends ends);

  struct Carried {
    wire::CommandAnswer answer;
    SetRate rate;
    bool first = false;  // not a repetition
  };
  /// Carries `command` out, or finds its answer. Where no record can be kept (a read-only folder, a full disk) it is
  /// not carried out, and the answer says so. Blocks for the disk and for other processes; any thread.
  Carried carry_out(const wire::Command& command);
  /// On the program's strand, once the answer has been sent, or could not be: what a command does to the program
  /// itself.
  void take_effect(const wire::Command& command, const Carried& carried);

 private:
  Outcome<Carried> carry_out_once(const wire::Command& command);
  void do_it(const wire::Command& command, CommandRecord& record) const;
  std::filesystem::path file_;
  Ends ends_;
  std::int64_t begun_s_;
};

}  // namespace gearbox::client
