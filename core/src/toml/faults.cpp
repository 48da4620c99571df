#include <algorithm>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::toml {

void Faults::add(std::string_view file, std::size_t line, std::size_t column, std::string_view key,
                 std::string_view what) {
  ++count_;
  if (lines_.size() >= kMaxListed) return;
  std::string text = escaped(file);
  if (line != 0) text += ":" + std::to_string(line) + ":" + std::to_string(column);
  text += ": ";
  if (!key.empty()) text += escaped(key, 128) + ": ";
  text += escaped(what, 512);
  lines_.push_back(std::move(text));
}

void Faults::add_told(const Error& error, std::string_view prefix) {
  std::string_view rest = error.detail;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    ++count_;
    if (lines_.size() < kMaxListed) lines_.push_back(std::string(prefix) + std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
}

Error Faults::error() const {
  std::string detail;
  for (const std::string& line : lines_) {
    if (!detail.empty()) detail += '\n';
    detail += line;
  }
  if (count_ > lines_.size()) detail += "\nand " + std::to_string(count_ - lines_.size()) + " more faults";
  return Error{Errc::bad_config, std::move(detail)};
}

}  // namespace gearbox::toml
