// json_reader.hpp: reads members of one JSON object into plain fields: unknown members are skipped, missing ones keep
// the default, a member of another type or outside its range is remembered as the error, with its path
// ("inputs[2].tensor.dtype").
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::link {

inline constexpr std::size_t kMaxJsonDepth = 16;
inline constexpr std::size_t kMaxListItems = 4096;  // in one JSON array; tighter limits are the message's own

/// Reads one object; keeps only views, so text, object and `parent` outlive it. After the first error it reads no more.
class ObjectReader {
 public:
  explicit ObjectReader(const boost::json::object& object) : object_(object), root_(this) {}

  void read(std::string_view member, std::string& into, std::size_t limit_bytes = kNoLimit);
  void read(std::string_view member, bool& into);
  void read(std::string_view member, double& into);     // whole numbers too; JSON has none that is not finite
  void read(std::string_view member, PublicKey& into);  // 64 hexadecimal digits
  void read(std::string_view member, std::vector<std::string>& into, std::size_t limit_items = kMaxListItems);
  void read(std::string_view member, std::vector<std::int64_t>& into, std::size_t limit_items);
  void read(std::string_view member, std::map<std::string, std::string>& into, std::size_t limit_items);

  template <class Number>
  requires std::is_integral_v<Number>
  void read(std::string_view member, Number& into) {
    if constexpr (std::is_signed_v<Number>) {
      into = static_cast<Number>(
          signed_number(member, into, std::numeric_limits<Number>::min(), std::numeric_limits<Number>::max()));
    } else {
      into = static_cast<Number>(unsigned_number(member, into, std::numeric_limits<Number>::max()));
    }
  }

  /// Calls `fill(reader, item)` for the object under `member`, or for each object of the list there.
  template <class T, class Fill>
  void read_object(std::string_view member, T& into, Fill fill) {
    if (const boost::json::object* object = child(member)) {
      ObjectReader reader(*object, *this, member, kNotInList);
      fill(reader, into);
    }
  }
  template <class T, class Fill>
  void read_list(std::string_view member, std::vector<T>& into, std::size_t limit_items, Fill fill) {
    const boost::json::array* items = list(member, limit_items);
    if (items == nullptr) return;
    into.clear();
    into.reserve(items->size());
    for (std::size_t i = 0; i < items->size() && good(); ++i) {
      const boost::json::object* object = item_object(*items, member, i);
      if (object == nullptr) return;
      ObjectReader reader(*object, *this, member, i);
      fill(reader, into.emplace_back());
    }
  }

  /// Remembers "member 'PATH' COMPLAINT" as the error, unless there is one already.
  void fail(std::string_view member, std::string_view complaint);
  bool good() const { return root_->error_.empty(); }
  /// Errors: bad_frame with the first complaint.
  Outcome<void> result() const;

 private:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kNotInList = kNoLimit;

  ObjectReader(const boost::json::object& object, ObjectReader& parent, std::string_view member, std::size_t index)
      : object_(object), root_(parent.root_), parent_(&parent), member_(member), index_(index) {}

  const boost::json::value* find(std::string_view member) const;
  const boost::json::object* child(std::string_view member);
  const boost::json::array* list(std::string_view member, std::size_t limit_items);
  const boost::json::object* item_object(const boost::json::array& items, std::string_view member, std::size_t index);
  std::int64_t signed_number(std::string_view member, std::int64_t fallback, std::int64_t lowest, std::int64_t highest);
  std::uint64_t unsigned_number(std::string_view member, std::uint64_t fallback, std::uint64_t highest);
  std::string path() const;

  const boost::json::object& object_;
  ObjectReader* root_;
  const ObjectReader* parent_ = nullptr;
  std::string_view member_;
  std::size_t index_ = kNotInList;
  std::string error_;  // of the root only
};

/// Parses `text` and hands its object to `fill(reader)`.
/// Errors: bad_frame: no JSON object, over kMaxJsonBytes, deeper than kMaxJsonDepth, invalid UTF-8, or a complaint of
/// `fill`.
Outcome<void> read_text(std::string_view text, void (*fill)(ObjectReader&, void*), void* into);

/// The same with a typed `fill(reader, into)`.
template <class T>
Outcome<void> read_message(std::string_view text, T& into, void (*fill)(ObjectReader&, T&)) {
  struct Call {
    T& into;
    void (*fill)(ObjectReader&, T&);
  } call{into, fill};
  return read_text(
      text,
      [](ObjectReader& reader, void* opaque) {
        auto& typed = *static_cast<Call*>(opaque);
        typed.fill(reader, typed.into);
      },
      &call);
}

}  // namespace gearbox::link
