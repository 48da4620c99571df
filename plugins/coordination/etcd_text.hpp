// etcd_text.hpp: what etcd's JSON gateway says and hears: bytes as Base64, whole numbers as text.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::coordination {

std::string base64(std::string_view bytes);
/// Nothing when it is no Base64.
std::optional<std::string> from_base64(std::string_view text);

/// One JSON object, or the first of several lines of them. Errors: bad_frame.
Outcome<boost::json::object> parse_object(std::string_view text);

/// A number under `member`, as text or as a number; 0 when it is missing: the gateway leaves zeros out.
/// Errors: bad_frame: it is something else.
Outcome<std::int64_t> number_in(const boost::json::object& object, std::string_view member);
/// Null when there is no object there.
const boost::json::object* object_in(const boost::json::object& object, std::string_view member);
/// Empty when there is no text there.
std::string text_in(const boost::json::object& object, std::string_view member);

/// One key as it was read.
struct KeyValue {
  std::string key, value;
  std::int64_t mod_revision = 0;  // 0: there is no such key
  std::int64_t lease = 0;         // 0: it lasts for ever
};

/// The keys of one answer to a range. Errors: bad_frame.
Outcome<std::vector<KeyValue>> keys_in(const boost::json::object& range);

/// Who holds a lease, as it lies in the store.
struct HolderText {
  std::string holder, home;
  std::uint64_t term = 0;
};
std::string to_text(const HolderText& holder);
/// Nothing when somebody else wrote something else there.
std::optional<HolderText> read_holder(std::string_view text);

}  // namespace gearbox::coordination
