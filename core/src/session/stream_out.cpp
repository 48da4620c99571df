#include "session/stream_out.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::session {

void StreamOut::add(pipeline::RunPart part) {
  if (part.number < first_) return;
  Held held;
  for (const pipeline::ResultTensor& tensor : part.tensors) held.bytes += tensor.spec.bytes;
  held.part = std::make_shared<pipeline::RunPart>(std::move(part));
  parts_.push_back(std::move(held));
  admit();
}

/// What fits goes into the window, and with that out of the worker's memory, so that the model goes on.
void StreamOut::admit() {
  while (window_ < parts_.size()) {
    const Held& held = parts_[window_];
    if (window_ > 0 && (window_ == kWindowParts || window_bytes_ + held.bytes > kWindowBytes)) return;
    if (held.bytes <= kWindowBytes) parking_.park(held.part->tensors);
    window_bytes_ += held.bytes;
    ++window_;
  }
}

void StreamOut::acknowledge(std::uint32_t count) {
  if (count > next_) return;
  while (first_ < count && !parts_.empty()) {
    if (window_ > 0) {
      --window_;
      window_bytes_ -= parts_.front().bytes;
    }
    parts_.pop_front();
    ++first_;
  }
  admit();
}

void StreamOut::resume(std::uint32_t from) {
  acknowledge(from);
  next_ = first_;
  end_told_ = false;
}

StreamOut::PartPtr StreamOut::next() {
  const std::size_t at = next_ - first_;
  if (at >= window_) return nullptr;
  ++next_;
  return parts_[at].part;
}

bool StreamOut::end_is_due() {
  if (end_told_ || next_ - first_ < parts_.size()) return false;
  end_told_ = true;
  return true;
}

void StreamOut::leave_rooms() {
  for (const Held& held : parts_) {
    if (held.bytes <= kWindowBytes) parking_.park(held.part->tensors);
  }
}

void StreamOut::drop_unsent() {
  parts_.resize(std::min<std::size_t>(parts_.size(), next_ - first_));
  while (window_ > parts_.size()) --window_;
  window_bytes_ = 0;
  for (std::size_t i = 0; i < window_; ++i) window_bytes_ += parts_[i].bytes;
}

}  // namespace gearbox::session
