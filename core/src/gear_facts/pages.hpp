// pages.hpp: long lists over control sockets, whose frames are bounded: page by page, after the last one's key.
//
//   → {"command": C, "after": KEY of the last one that was got; missing: from the beginning}
//   ← {..., "list": [objects], "more": true when there are others behind them}
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace gearbox::gear_facts {

inline constexpr std::size_t kPageBytes = 48 * 1024;  // of the 64 KiB of a frame's JSON: the head takes its part

/// Collects what fits into one page; at least one, whatever its size.
class Page {
 public:
  /// False: it is full, and says that there is more.
  bool add(boost::json::object each) {
    bytes_ += boost::json::serialize(each).size() + 1;
    if (!list_.empty() && bytes_ > kPageBytes) {
      more_ = true;
      return false;
    }
    list_.push_back(std::move(each));
    return true;
  }
  void into(boost::json::object& answer) && {
    answer["list"] = std::move(list_);
    answer["more"] = more_;
  }

 private:
  boost::json::array list_;
  std::size_t bytes_ = 0;
  bool more_ = false;
};

/// The text under `member`; empty when it is missing or no text.
inline std::string text_of(const boost::json::object& object, std::string_view member) {
  const boost::json::value* value = object.if_contains(boost::json::string_view(member.data(), member.size()));
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

}  // namespace gearbox::gear_facts
