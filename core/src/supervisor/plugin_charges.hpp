// plugin_charges.hpp: a role that crashed or hangs in a call of a plugin: which build is to blame, and its bar.
//
// Each role writes around its calls which build it is in (plugin_host/call_record.hpp). A missing or damaged record
// charges nobody. When several threads were in calls, nobody can say which one of them crashed: the call that began
// last is taken.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "plugin_host/call_record.hpp"
#include "supervisor/children.hpp"

namespace gearbox::supervisor {

/// One strand. Writing the book of builds waits for the disk and, at worst for seconds, for another writer.
class PluginCharges {
 public:
  explicit PluginCharges(config::StateDir state) : state_(std::move(state)) {}

  /// What was decided about a role.
  struct Verdict {
    bool to_blame = false;  // a build: `line` says so
    bool at_once = false;   // the build is newly barred: the role needs no pause before it is started again
    std::string line;       // for people
  };

  /// Before `role` is started: what an earlier life left says nothing of this one.
  void role_starts(const std::string& role);

  /// `role` ended. Charges a build when it was in a call and a crash signal or an exit of its own ended it: not when
  /// it was asked to stop, nor when somebody killed it, nor when it ended because its lead was lost (kExitLeadLost).
  Verdict role_ended(const Ended& ended);

  /// For a running role, about once a second. `to_blame`: it hangs in a call and is to be killed.
  Verdict look(const std::string& role, int pid, Instant now);

 private:
  struct Suspect {  // a call that was past its time at the look before
    int pid = 0;
    std::size_t place = 0;
    std::uint64_t turn = 0;
  };
  struct Hung {
    int pid = 0;
    bool at_once = false;
  };
  Verdict charge(const plugin_host::CallBeing& call, const std::string& reason);

  config::StateDir state_;
  std::map<std::string, Suspect> suspects_;
  std::map<std::string, Hung> hung_;  // killed for it; not ended yet
};

}  // namespace gearbox::supervisor
