// capture_source.hpp: something that gives pictures one by one: a camera, or a folder that stands for one.
#pragma once

#include <memory>
#include <string>

#include "capture.hpp"

namespace gearbox::client {

/// Blocking; one thread.
class CaptureSource {
 public:
  struct Shot {
    std::string name;  // for people
    Bytes file;        // a picture as a file would have it: JPEG, or PNM for raw frames
  };
  virtual ~CaptureSource() = default;
  /// May be called again after close(). Errors: io_error (not there, busy); bad_input (it gives no format that can be
  /// sent).
  virtual Outcome<void> open() = 0;
  /// The next picture, taken after this was called; returns within 6 s, at once when `stop` rings. Errors: cancelled
  /// (the bell); timeout (it gives nothing); io_error (unplugged): close it then.
  virtual Outcome<Shot> shoot(const StopBell& stop) = 0;
  virtual void close() = 0;
  /// Never gives the same picture twice while it works.
  virtual bool is_live() const = 0;
};

/// V4L2: MJPG, else YUYV, which becomes a raw RGB frame. `width` and `height` are wishes; 0: none.
std::unique_ptr<CaptureSource> make_v4l2_source(std::string device, std::uint32_t width, std::uint32_t height);

/// Cycles through the files of a folder by name, for tests and where there is no camera.
std::unique_ptr<CaptureSource> make_file_source(std::string folder);

/// A YUYV frame (`stride` bytes for each row) as a P6 picture. Errors: bad_picture when bytes are missing.
Outcome<Bytes> picture_of_yuyv(ByteView frame, std::uint32_t width, std::uint32_t height, std::uint32_t stride);

}  // namespace gearbox::client
