#include "gearbox/base/boot.hpp"

#include <fstream>

namespace gearbox {

std::string own_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

}  // namespace gearbox
