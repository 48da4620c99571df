#include "explain/book.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::explain {

namespace {

bool begins_with(const RequestId& id, std::string_view digits) {
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const auto byte = std::to_integer<unsigned>(id.bytes[i / 2]);
    if ("0123456789abcdef"[i % 2 == 0 ? byte >> 4 : byte & 15] != digits[i]) return false;
  }
  return true;
}

}  // namespace

void Book::limit(std::size_t limit) {
  limit_ = limit;
  trim();
}

void Book::trim() {
  // The last one stays whatever it takes: it is bounded by itself.
  while (traces_.size() > limit_ || (bytes_ > kMaxBytes && traces_.size() > 1)) {
    Trace& oldest = *traces_.front();
    oldest.remembered = false;
    bytes_ -= oldest.counted_bytes;
    traces_.pop_front();
  }
}

TracePtr Book::unkept(const RequestKey& key) {
  auto trace = std::make_shared<Trace>();
  trace->key = key;
  trace->announced_unix_ms =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return trace;
}

TracePtr Book::begin(const RequestKey& key) {
  if (limit_ == 0) return nullptr;
  TracePtr trace = unkept(key);
  trace->remembered = true;
  traces_.push_back(trace);
  trim();
  return trace;
}

void Book::end(Trace& trace) {
  trace.over = true;
  if (!trace.remembered || trace.counted_bytes > 0) return;
  trace.counted_bytes = trace.bytes();
  bytes_ += trace.counted_bytes;
  trim();
}

std::shared_ptr<const std::string> Book::digest(const std::string& digest) {
  if (!digest_ || *digest_ != digest) digest_ = std::make_shared<const std::string>(digest);
  return digest_;
}

Outcome<TracePtr> Book::find(std::string_view request) const {
  const bool hex = std::all_of(request.begin(), request.end(),
                               [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!hex || request.size() < 4 || request.size() > 32) {
    return Error{Errc::bad_input, "a request is named by 4 to 32 lower-case hexadecimal digits"};
  }
  TracePtr found;
  for (auto at = traces_.rbegin(); at != traces_.rend(); ++at) {
    if (!begins_with((*at)->key.id, request)) continue;
    if (!found) {
      found = *at;
    } else if (found->key.id != (*at)->key.id) {
      return Error{Errc::bad_input, "more than one request begins with " + std::string(request) + "; give more digits"};
    }
  }
  if (found) return found;
  if (limit_ == 0) {
    return Error{Errc::not_found, "this node remembers no requests: node.explain_requests is 0"};
  }
  return Error{Errc::not_found, "this node does not know request " + std::string(request) +
                                    ", or has forgotten it: it remembers the last " + std::to_string(limit_) +
                                    " at most (node.explain_requests), since its start"};
}

}  // namespace gearbox::explain
