#include "session/quarantine.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "gearbox/base/text.hpp"
#include "session/quarantine_file.hpp"

namespace gearbox::session {

namespace {
constexpr std::size_t kShortestId = 4;  // hexadecimal digits that name a request
}  // namespace

void Quarantine::add(Quarantined request) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  request.since_unix_ms = std::chrono::duration_cast<milliseconds>(now).count();
  std::erase_if(held_, [&](const Quarantined& held) { return held.key == request.key; });
  held_.push_back(std::move(request));
  if (held_.size() > kMost) held_.pop_front();
  write();
}

void Quarantine::keep_in(std::filesystem::path file) {
  file_ = std::move(file);
  held_ = read_quarantine(file_);
}

void Quarantine::write() const {
  if (file_.empty()) return;
  if (Outcome<void> written = write_quarantine(file_, held_); !written) {
    spdlog::warn("event=quarantine_not_written reason=\"{}\"", escaped(describe(written.error())));
  }
}

const Quarantined* Quarantine::find(const RequestKey& key) const {
  const auto found = std::find_if(held_.begin(), held_.end(), [&](const Quarantined& held) { return held.key == key; });
  return found == held_.end() ? nullptr : &*found;
}

Outcome<RequestKey> Quarantine::release(std::string_view id) {
  if (id.size() < kShortestId) {
    return Error{Errc::bad_input, "a request's id, or its first " + std::to_string(kShortestId) + " digits at least"};
  }
  const auto begins = [&](const Quarantined& held) { return to_text(held.key.id).starts_with(id); };
  const auto found = std::find_if(held_.begin(), held_.end(), begins);
  if (found == held_.end()) return Error{Errc::not_found, "no request '" + escaped(id, 64) + "' is in quarantine"};
  if (std::find_if(std::next(found), held_.end(), begins) != held_.end()) {
    return Error{Errc::bad_input, "several requests in quarantine begin with '" + escaped(id, 64) + "'"};
  }
  const RequestKey key = found->key;
  held_.erase(found);
  write();
  return key;
}

}  // namespace gearbox::session
