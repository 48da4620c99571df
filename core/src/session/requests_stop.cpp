// requests_stop.cpp: the end of a node's process, as its requests see it: nothing new, then nobody waited for, then
// what is left for the next process.
#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "session/requests.hpp"

namespace gearbox::session {

namespace asio = boost::asio;

void Requests::drain(std::function<void()> idle) {
  draining_ = true;
  idle_ = std::move(idle);
  check_idle();
}

/// Its device is there and has not got all of its answer yet, or not said so; a failure needs no word of the device.
bool Requests::is_owed(const Request& request) {
  return request.ending || (!request.error && !request.listener.expired());
}

void Requests::check_idle() {
  if (!idle_) return;
  // What waits for its device goes on with the next process.
  const bool busy = std::any_of(table_.begin(), table_.end(), [](const auto& entry) {
    const Request& request = *entry.second;
    return !request.waits_for_device && (!request.over || is_owed(request));
  });
  if (!busy) asio::post(*service_.io, std::exchange(idle_, nullptr));
}

Requests::Rest Requests::end_all(const Error& error) {
  Rest rest;
  if (std::exchange(ending_, true)) return rest;
  std::vector<RequestPtr> open;
  for (const auto& [key, request] : table_) {
    if (request->waits_for_device) continue;  // the next process's already
    if (!request->over) {
      open.push_back(request);
    } else if (is_owed(*request)) {
      ++(service_.journal != nullptr && !request->no_row ? rest.kept : rest.failed);
    }
  }
  for (const RequestPtr& request : open) {
    if (request->over) continue;
    const bool promised = request->verified != Instant{};
    if (promised && service_.journal != nullptr) {
      leave_open(request);
      ++rest.kept;
      continue;
    }
    Error told = error;
    if (promised) told.detail += " before it was done; it keeps no journal from which another process would go on";
    fail(request, std::move(told));
    ++rest.failed;
  }
  check_idle();
  return rest;
}

/// Acknowledged, or about to be: not settled, so that the journal goes on holding it. Its device sees the connection
/// end, and asks again; a word about this request now would be taken for its one answer.
void Requests::leave_open(const RequestPtr& request) {
  if (request->run) std::exchange(request->run, nullptr)->cancel();
  release_upload(request);
  request->timer.cancel();
  request->listener.reset();
  request->over = true;
  --open_;
  table_.erase(request->key);
}

}  // namespace gearbox::session
