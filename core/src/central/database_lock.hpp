// database_lock.hpp: the right to be the central of one database: of all that share it, at most one has it.
//
// A lock of the server's on a session of its own. It goes with the session: when this process ends, when the connection
// is cut, when the server ends. Whoever has it cannot know that it still has it once the session does not answer, so
// that is the end of its right; by then nobody else may have it, or another one may: what the former one still writes
// is refused by its term (AccountsPlace::term).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "central/accounts_place.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::central {

class DatabaseLock {
 public:
  /// `state`: where this host's central has its keys. Devices and nodes know central by them, so all centrals of one
  /// database have the same ones.
  DatabaseLock(AccountsPlace place, config::StateDir state);
  DatabaseLock(const DatabaseLock&) = delete;
  DatabaseLock& operator=(const DatabaseLock&) = delete;
  ~DatabaseLock();  // gives it back

  /// One try, of some seconds at most. True: it is ours, and term() is the highest there ever was. False: another
  /// central has it. The first one ever makes its keys when it has none, and puts them down for all that follow.
  /// Errors: overloaded (the database is away); wrong_server_key (its centrals have other keys than this host);
  /// those of open_accounts_database and of the keys' files.
  Outcome<bool> take();
  std::int64_t term() const;
  /// Whose accounts they are, once a take() had no error; before that as `place` has it.
  const std::string& installation() const;

  /// Once it is ours. `lost` is called at most once, on a thread of its own, as soon as it cannot be known to be ours.
  void watch(std::function<void(std::string reason)> lost);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::central
