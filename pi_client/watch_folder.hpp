// watch_folder.hpp: takes whole pictures from a folder into the spool. inotify to be quick, looks to be sure.
//
// A file is whole when it was closed after writing or renamed in, nobody has it open for writing, and it is a whole
// picture by its own marks; or, where only looks tell, when it stood still between two looks and the same holds. Each
// is taken once, over kills of this process: what becomes of it is settled while its item cannot be seen yet, and
// begin() settles it for items whose process died in between.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "capture.hpp"
#include "taken_files.hpp"
#include "watched_file.hpp"

namespace gearbox::client {

struct WatchPace {
  milliseconds look_every{2'000};
  milliseconds give_up{30'000};        // a file that stood still for so long and is no whole picture is left alone
  milliseconds longest_pause{60'000};  // between tries with one that cannot be read, or put into the spool
};

class WatchFolder final : public Capture {
 public:
  /// Errors: bad_input (the folder to move to is the watched one); io_error.
  static Outcome<std::unique_ptr<Capture>> create(WatchOptions options, Spool* spool, CaptureEnds ends,
                                                  WatchPace pace = {});
  void begin() override;
  void run() override;

 private:
  struct Seen {
    SourceFile as;
    Instant since;            // of the look that saw it first as it is
    bool closed = false;      // it was closed after writing, or renamed in, since then
    bool left = false;        // no picture: left alone as it is
    Instant met{};            // the first time by this name; kept when the file changes
    bool told_late = false;   // that it is not taken yet; kept as well
    bool told_fault = false;  // that it cannot be read or spooled
    unsigned faults = 0;      // in a row
    Instant again{};          // not before
  };
  enum class Taking { taken, later, full };

  WatchFolder(WatchOptions options, Spool* spool, CaptureEnds ends, WatchPace pace, TakenFiles taken)
      : options_(std::move(options)), spool_(spool), ends_(std::move(ends)), pace_(pace), taken_(std::move(taken)) {}
  void look();
  bool take_events();
  Taking take(const std::string& name, Seen& seen);
  void see(const std::string& name, const SourceFile& source);
  void tell_late(const std::string& name, Seen& seen, const char* why);
  Taking put_off(const std::string& name, Seen& seen, const Error& error);
  void settle_original(const std::string& name, const Stand& read);
  void settled(const std::string& name, const SourceFile& source, Gone gone);
  void tell_once(std::string& told, const std::string& text);

  WatchOptions options_;
  Spool* spool_;
  CaptureEnds ends_;
  WatchPace pace_;
  TakenFiles taken_;
  Descriptor inotify_;
  std::map<std::string, Seen> seen_;  // by name
  std::string told_folder_, told_full_;
  bool told_spool_ = false;
  unsigned spool_faults_ = 0;  // in a row
  Instant spool_again_{};      // not before
};

}  // namespace gearbox::client
