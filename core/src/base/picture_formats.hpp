// picture_formats.hpp: the two formats that picture.cpp tells apart, each in its own file.
#pragma once

#include <string>
#include <utility>

#include "gearbox/wire/picture.hpp"

namespace gearbox::wire::picture {

inline Error bad(std::string why) {
  return Error{Errc::bad_picture, std::move(why)};
}

/// Size and kind from the header; `head` starts with the format's signature. The size is not judged.
Outcome<PictureInfo> png_header(ByteView head);
Outcome<PictureInfo> jpeg_header(ByteView head);

/// From the signature to the format's own end. Precondition: the header was read without an error.
Outcome<void> walk_png(ByteView file);
Outcome<void> walk_jpeg(ByteView file);

}  // namespace gearbox::wire::picture
