#include <system_error>

#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

fs::path own_executable() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);  // empty where there is no /proc: then nothing shipped is found
}

fs::path shipped_plugins() {
  const fs::path prefix = own_executable().parent_path().parent_path();
  std::error_code error;
  const fs::path installed = prefix / GEARBOX_LIBDIR / "gearbox/plugins";  // lib/x86_64-linux-gnu below /usr on Debian
  return fs::is_directory(installed, error) ? installed : prefix / "lib/gearbox/plugins";
}

}  // namespace gearbox::plugin_host
