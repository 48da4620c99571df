// pg_opening.hpp: a connection to PostgreSQL that is made on a thread of its own, for callers that never stand still:
// libpq resolves a host's name in the system's own time, which is half a minute where the name servers are silent.
#pragma once

#include <memory>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "sql/pg_link.hpp"

namespace gearbox::sql {

/// One thread at a time; its own thread is there only while a try is under way.
class PgOpening {
 public:
  PgOpening(std::string connection, std::string set_up);
  PgOpening(const PgOpening&) = delete;
  PgOpening& operator=(const PgOpening&) = delete;
  ~PgOpening();  // waits for nothing: a try that is under way ends by itself, touches nothing of ours and leaves
                 // nothing

  /// Begins a try when none is under way, and waits for its end. An open connection, or none yet: call again.
  /// Errors: overloaded, with libpq's reason; the next call begins anew.
  Outcome<std::unique_ptr<PgLink>> take(Instant deadline);
  /// A try has ended: take() does not wait.
  bool has_ended() const;

 private:
  struct Try;
  std::string connection_, set_up_;
  std::unique_ptr<PgLink> link_;  // between two tries: which of several servers comes next is its own
  std::shared_ptr<Try> try_;      // the one that is under way
};

}  // namespace gearbox::sql
