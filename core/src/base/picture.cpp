#include "gearbox/wire/picture.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "base/picture_formats.hpp"

namespace gearbox::wire {

using picture::bad;

namespace {
std::optional<PictureType> sniff(ByteView head) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
  constexpr std::string_view kJpeg = "\xFF\xD8";
  const std::string_view text = text_of(head);
  if (text.starts_with(kPng)) return PictureType::png;
  if (text.starts_with(kJpeg)) return PictureType::jpeg;
  return std::nullopt;
}

Outcome<void> check_size(const PictureInfo& info, const PictureLimits& limits) {
  const std::string size = std::string(name_of(info.type)) + " of " + std::to_string(info.width) + " x " +
                           std::to_string(info.height) + " pixels";
  if (info.width == 0 || info.height == 0) return bad(size + " has none");
  if (std::uint64_t{info.width} * info.height > limits.max_pixels) {
    return bad(size + " is over the limit of " + std::to_string(limits.max_pixels));
  }
  return done();
}

Outcome<PictureType> type_of(ByteView head) {
  if (head.empty()) return bad("empty file");
  const auto type = sniff(head);
  if (!type) return bad("neither JPEG nor PNG");
  return *type;
}
}  // namespace

std::string_view name_of(PictureType type) {
  return type == PictureType::jpeg ? "JPEG" : "PNG";
}

Outcome<PictureInfo> look_at_picture(ByteView head, const PictureLimits& limits) {
  BOOST_OUTCOME_TRY(const PictureType type, type_of(head));
  BOOST_OUTCOME_TRY(const PictureInfo info,
                    type == PictureType::png ? picture::png_header(head) : picture::jpeg_header(head));
  BOOST_OUTCOME_TRY(check_size(info, limits));
  return info;
}

Outcome<PictureInfo> check_picture_whole(ByteView file, const PictureLimits& limits) {
  BOOST_OUTCOME_TRY(const PictureInfo info, look_at_picture(file, limits));
  BOOST_OUTCOME_TRY(info.type == PictureType::png ? picture::walk_png(file) : picture::walk_jpeg(file));
  return info;
}

Outcome<void> check_picture_name(PictureType type, std::string_view file_name) {
  const std::size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos) return done();
  std::string ending(file_name.substr(dot + 1));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool says_jpeg = ending == "jpg" || ending == "jpeg";
  const bool says_png = ending == "png";
  if ((says_jpeg && type != PictureType::jpeg) || (says_png && type != PictureType::png)) {
    return bad("named ." + ending + " but it is a " + std::string(name_of(type)));
  }
  return done();
}

}  // namespace gearbox::wire
