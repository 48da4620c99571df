// etcd_store.hpp: leases in an etcd cluster (version 3), over its JSON gateway.
//
// Two keys for each lease of ours: PREFIX NAME "/holder", which etcd itself removes when the lease of etcd's that it
// hangs on runs out, and PREFIX NAME "/term", the last term given, which stays. Both are written in one transaction
// that only has effect when neither has changed since they were read, so of two that come at once one gets it, and no
// term is given twice. Whether we still hold it is read through the cluster's majority: a member that is cut off says
// nothing.
//
// etcd's lease lasts a quarter longer than ours and begins later, so ours is over first, by any two clocks that run
// about as fast; etcd prolongs it when its leader changes.
#pragma once

#include <string>

#include "coordination/etcd_members.hpp"
#include "coordination/etcd_text.hpp"
#include "gearbox/plugin/coordination.hpp"

namespace gearbox::coordination {

class EtcdStore final : public plugin::Coordination {
 public:
  /// `prefix`: what the names of our keys begin with.
  EtcdStore(EtcdMembers members, std::string prefix) : members_(std::move(members)), prefix_(std::move(prefix)) {}

  Outcome<plugin::LeaseAnswer> ask(const plugin::LeaseWish& wish, Instant deadline) override;
  Outcome<void> release(const plugin::LeaseWish& wish, Instant deadline) override;
  Outcome<plugin::LeaseAnswer> look(std::string_view name, Instant deadline) override;

 private:
  /// Both keys at one moment.
  struct Seen {
    KeyValue holder_key, term_key;
    std::optional<HolderText> holder;
    std::uint64_t term = 0;  // the highest that was given
  };
  std::string key(std::string_view name, std::string_view last) const;
  Outcome<Seen> read(std::string_view name, Instant deadline);
  Outcome<plugin::LeaseAnswer> told(const Seen& seen, Instant deadline);
  Outcome<bool> keep_alive(std::int64_t lease, milliseconds ttl, Instant deadline);
  Outcome<plugin::LeaseAnswer> acquire(const plugin::LeaseWish& wish, const Seen& seen, Instant deadline);
  void revoke(std::int64_t lease, Instant deadline);

  EtcdMembers members_;
  const std::string prefix_;
};

}  // namespace gearbox::coordination
