#include "device_key.hpp"

#include <filesystem>
#include <system_error>

namespace gearbox::client {

namespace fs = std::filesystem;

Outcome<link::SigningKeys> load_or_make_device_key(const std::string& folder) {
  return link::load_or_make_signing_keys(fs::path(folder) / "device.key");
}

Outcome<link::SigningKeys> load_device_key(const std::string& folder) {
  const fs::path file = fs::path(folder) / "device.key";
  std::error_code failed;
  if (!fs::exists(file, failed)) {
    return Error{Errc::not_found,
                 "no device key at " + file.string() + ": run `pi_client enrol` first, or name its folder with --keys"};
  }
  return load_or_make_device_key(folder);
}

}  // namespace gearbox::client
