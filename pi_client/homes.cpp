#include "homes.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace {

constexpr std::uint64_t kMostBytes = 64ULL << 20;  // read; over twice what the largest spool writes
constexpr std::uint64_t kGrown = 1ULL << 20;       // smaller files are not worth writing anew
constexpr std::size_t kIdDigits = 32;
constexpr char kLost = '!';  // before a node; none of the characters of names

std::string line_of(const RequestId& id, const std::string& node) {
  return to_text(id) + " " + node + "\n";
}

void add(NodesByRequest& all, const RequestId& id, std::string node) {
  std::vector<std::string>& nodes = all[id];
  if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(std::move(node));
}

void remove(NodesByRequest& all, const RequestId& id, std::string_view node) {
  const auto known = all.find(id);
  if (known == all.end()) return;
  std::erase(known->second, node);
  if (known->second.empty()) all.erase(known);
}

}  // namespace

Outcome<NodesByRequest> Homes::load(const std::set<RequestId>& wanted) const {
  NodesByRequest found;
  std::error_code none;
  if (!std::filesystem::exists(file_, none)) return found;
  BOOST_OUTCOME_TRY(const Bytes bytes, read_whole(file_, kMostBytes));
  std::string_view rest = text_of(bytes);
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.size() <= kIdDigits + 1 || line[kIdDigits] != ' ') continue;
    const Outcome<RequestId> id = request_id_from(line.substr(0, kIdDigits));
    std::string_view node = line.substr(kIdDigits + 1);
    const bool lost = node.front() == kLost;
    if (lost) node.remove_prefix(1);
    if (!id || !is_name(node) || wanted.count(id.value()) == 0) continue;
    if (lost) {
      remove(found, id.value(), node);
    } else {
      add(found, id.value(), std::string(node));
    }
  }
  return found;
}

Outcome<void> Homes::note_lost(const RequestId& id, const std::string& node) {
  const Descriptor file(::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return file_error(file_, errno);
  return write_all(file.get(), view_of(line_of(id, kLost + node)), file_);
}

Outcome<void> Homes::note(const RequestId& id, const std::string& node, const NodesByRequest& live) {
  const Descriptor file(::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return file_error(file_, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return file_error(file_, errno);
  if (static_cast<std::uint64_t>(status.st_size) < kGrown) {
    return write_all(file.get(), view_of(line_of(id, node)), file_);
  }
  std::string all;
  for (const auto& [each, nodes] : live) {
    for (const std::string& one : nodes) all += line_of(each, one);
  }
  // Still large with what is needed alone: then a line each, until it is twice that.
  if (static_cast<std::uint64_t>(status.st_size) < 2 * all.size()) {
    return write_all(file.get(), view_of(line_of(id, node)), file_);
  }
  return write_durably(file_, view_of(all));
}

}  // namespace gearbox::client
