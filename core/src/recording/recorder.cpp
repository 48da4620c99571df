#include "recording/recorder.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "gearbox/base/error.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::recording {

namespace {

/// {}: it has not come to that, told as 0.
std::int64_t between(Instant from, Instant to) {
  if (from == Instant{} || to == Instant{}) return 0;
  return std::max<std::int64_t>(elapsed(from, to).count(), 0);
}

/// What is no name would break the line apart.
std::string_view name_or_none(std::string_view text) {
  return is_name(text) ? text : std::string_view();
}

std::string steps_of(const explain::Trace& trace) {
  std::string text;
  for (const explain::Step& step : trace.steps) {
    if (step.calls == 0) continue;
    if (!text.empty()) text += ';';
    text += step.name;
    for (const std::int64_t number : {std::int64_t{step.calls}, std::int64_t{step.longest_queue.count()},
                                      std::int64_t{step.longest_run.count()}, std::int64_t{step.sum_run.count()}})
      text += ':' + std::to_string(number);
  }
  return text;
}

/// Parts of streamed answers, when the first one was there, and how long the prompts were.
struct Parts {
  std::uint32_t count = 0;
  std::uint32_t input_tokens = 0;
  Instant first{};
};

Parts parts_of(const explain::Trace& trace) {
  Parts parts;
  for (const explain::Step& step : trace.steps) {
    for (const explain::Call& call : step.first) {
      parts.count += call.parts;
      parts.input_tokens += call.input_tokens;
      if (parts.first == Instant{}) parts.first = call.first_part;
    }
  }
  return parts;
}

}  // namespace

std::string payload_file(std::uint64_t number) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%08llu.bin", static_cast<unsigned long long>(number));
  return name.data();
}

void Recorder::limit_payloads(std::size_t limit) {
  payload_limit_ = limit;
  trim();
}

void Recorder::limit(std::size_t limit) {
  limit_ = limit;
  trim();
}

void Recorder::trim() {
  while (entries_.size() > limit_ || bytes_ > kMaxBytes) {
    bytes_ -= entries_.front().rest.size();
    if (entries_.front().payload) payload_bytes_ -= entries_.front().payload->bytes.size();
    entries_.pop_front();
    ++first_;
  }
  // Payloads go before their lines: the lines are small.
  first_payload_ = std::max(first_payload_, first_);
  while (payload_bytes_ > payload_limit_ && first_payload_ < first_ + entries_.size()) {
    std::optional<Payload>& oldest = entries_[first_payload_ - first_].payload;
    if (oldest) payload_bytes_ -= oldest->bytes.size();
    oldest.reset();
    ++first_payload_;
  }
}

void Recorder::note(const explain::Trace& trace, std::optional<Payload> payload) {
  if (limit_ == 0) return;
  const Parts parts = parts_of(trace);
  const Instant first = parts.first == Instant{} ? trace.ready : parts.first;
  std::string rest;
  const auto add = [&rest](const auto& text) {
    rest += ',';
    rest += text;
  };
  add(name_or_none(trace.task));
  add(name_or_none(trace.user));
  add(std::to_string(parts.input_tokens));
  add(std::to_string(parts.count));
  add(std::to_string(trace.plain_bytes));
  add(std::to_string(between(trace.arrived, trace.verified)));
  add(std::to_string(between(trace.arrived, first)));
  add(std::to_string(between(trace.arrived, trace.ready)));
  add(std::to_string(trace.result_bytes));
  add(trace.error == Errc{} ? std::string_view() : name_of(trace.error));
  add(steps_of(trace));
  bytes_ += rest.size();
  if (payload) payload_bytes_ += payload->bytes.size();
  entries_.push_back({us_since_began(trace.arrived), std::move(rest), std::move(payload)});
  trim();
}

Instant Recorder::earliest(Instant since, Instant otherwise) const {
  const std::int64_t since_us = us_since_began(since);
  std::int64_t earliest = us_since_began(otherwise);
  bool any = false;
  for (const Entry& entry : entries_) {
    if (entry.at_us < since_us || (any && entry.at_us >= earliest)) continue;
    earliest = entry.at_us;
    any = true;
  }
  return began_ + microseconds(earliest);
}

const Payload* Recorder::payload(std::uint64_t number) const {
  if (number < first_ || number >= first_ + entries_.size()) return nullptr;
  const Entry& entry = entries_[number - first_];
  return entry.payload ? &*entry.payload : nullptr;
}

Piece Recorder::piece(std::uint64_t from, Instant since, Instant zero, std::size_t most_bytes,
                      bool with_payloads) const {
  const std::int64_t since_us = us_since_began(since);
  const std::int64_t zero_us = us_since_began(zero);
  Piece piece;
  for (std::uint64_t number = std::max(from, first_); number < first_ + entries_.size(); ++number) {
    const Entry& entry = entries_[number - first_];
    // Later than the zero: a request that was open when the first piece was asked for has ended since.
    if (entry.at_us < since_us || entry.at_us < zero_us) continue;
    const std::string at = std::to_string(entry.at_us - zero_us);
    std::string end;
    if (with_payloads) end = entry.payload ? ',' + payload_file(number) + ',' + entry.payload->inputs : ",,";
    end += '\n';
    if (piece.requests > 0 && piece.lines.size() + at.size() + entry.rest.size() + end.size() > most_bytes) {
      piece.next = number;
      break;
    }
    piece.lines += at;
    piece.lines += entry.rest;
    piece.lines += end;
    ++piece.requests;
  }
  return piece;
}

}  // namespace gearbox::recording
