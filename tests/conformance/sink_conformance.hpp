// sink_conformance.hpp: what sink.hpp promises, as checks that every sink's test runs against a receiver that is there.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gearbox/plugin/sink.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::test {

/// Events with texts of their own.
class SomeEvents {
 public:
  SomeEvents(int from, int to) {
    for (int i = from; i < to; ++i) {
      const std::string number = std::to_string(i);
      keys_.push_back("d/" + number + "/done");
      json_.push_back(R"({"key":"d/)" + number + R"(/done","zero":"\u0000"})");
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      plugin::EventView view;
      view.key = keys_[i];
      view.state = "done";
      view.node = "node-1";
      view.device = "d";
      view.request = "r";
      view.user = "anna";
      view.task = "echo";
      view.tenant = 4'000'000'000;
      view.accepted_unix_ms = 1'700'000'000'000;
      view.finished_unix_ms = 1'700'000'000'100;
      view.output_bytes = 3;
      view.result_json = json_[i];
      view.json = json_[i];
      views_.push_back(view);
    }
  }
  std::span<const plugin::EventView> views() const { return views_; }
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::vector<std::string> keys_, json_;
  std::vector<plugin::EventView> views_;
};

inline Instant in_ten_seconds() {
  return after(Clock::now(), milliseconds{10'000});
}

/// `sink` is not opened yet; its receiver is there and takes all.
inline void conforms(plugin::Sink& sink, const std::filesystem::path& folder) {
  EXPECT_EQ(sink.deliver({}, in_ten_seconds()).fate, plugin::Fate::done) << "no events, before open()";
  const std::string place = folder.string();
  ASSERT_TRUE(sink.open({"one", "node-1", place}));
  const SomeEvents events(0, 5);
  const plugin::Verdict first = sink.deliver(events.views(), in_ten_seconds());
  EXPECT_EQ(first.fate, plugin::Fate::done) << first.reason;
  const SomeEvents again(3, 8);  // two of them once more
  const plugin::Verdict second = sink.deliver(again.views(), in_ten_seconds());
  EXPECT_EQ(second.fate, plugin::Fate::done) << second.reason;
}

}  // namespace gearbox::test
