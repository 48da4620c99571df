// ledger_text.hpp: the ledger's entries as JSON, to files and back.
#pragma once

#include <boost/json/object.hpp>

#include "executor/ledger.hpp"

namespace gearbox::executor {

boost::json::object to_json(const Kept& kept);
boost::json::object to_json(const Entry& entry);
/// Errors: bad_frame.
Outcome<Kept> read_kept(const boost::json::object& object);
Outcome<Entry> read_entry(const boost::json::object& object);

}  // namespace gearbox::executor
