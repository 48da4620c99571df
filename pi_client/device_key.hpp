// device_key.hpp: where this device's identity lies.
#pragma once

#include <string>

#include "gearbox/link/keys.hpp"

namespace gearbox::client {

/// DIR/device.key, made at the first enrolment. Errors: those of load_or_make_signing_keys.
Outcome<link::SigningKeys> load_or_make_device_key(const std::string& folder);
/// Never makes one. Errors: not_found, with what to do; those of load_or_make_signing_keys.
Outcome<link::SigningKeys> load_device_key(const std::string& folder);

}  // namespace gearbox::client
