// gate_child.hpp: `broker replay gate --child`, started by a running broker: its limits, and the way back.
#pragma once

#include <boost/json/object.hpp>

#include <optional>

namespace gearbox::cli {

class GateChild {
 public:
  /// Limits this process, and ends it with the thread that started it. What plugins print goes to stderr from here on.
  static std::optional<GateChild> begin();
  /// One line to whoever started it.
  void say(const boost::json::object& line) const;

 private:
  explicit GateChild(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;  // of the process, to its end
};

}  // namespace gearbox::cli
