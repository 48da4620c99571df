// Video for Linux, streaming with mapped buffers.
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "capture_source.hpp"

namespace gearbox::client {

namespace {

constexpr std::uint32_t kBuffers = 4;
constexpr milliseconds kGivesNothing{5'000};

template <class Argument>
int control(int device, unsigned long request, Argument* argument) {
  int result = 0;
  do {
    result = ::ioctl(device, request, argument);
  } while (result != 0 && errno == EINTR);
  return result;
}

class Mapping {
 public:
  Mapping(void* at, std::size_t bytes) : at_(at), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept : at_(std::exchange(other.at_, MAP_FAILED)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (at_ != MAP_FAILED) ::munmap(at_, bytes_);
  }
  ByteView bytes(std::size_t used) const { return {static_cast<const std::byte*>(at_), std::min(used, bytes_)}; }

 private:
  void* at_;
  std::size_t bytes_;
};

class V4l2Source final : public CaptureSource {
 public:
  V4l2Source(std::string device, std::uint32_t width, std::uint32_t height)
      : path_(std::move(device)), width_(width), height_(height) {}
  ~V4l2Source() override { close(); }

  Outcome<void> open() override {
    close();
    Outcome<void> opened = start();
    if (!opened) close();
    return opened;
  }

  Outcome<Shot> shoot(const StopBell& stop) override {
    // What lies in the buffers is as old as the last shot: it is given back, and the next one is taken.
    for (std::uint32_t i = 0; i < kBuffers; ++i) {
      v4l2_buffer old = blank();
      if (control(device_.get(), VIDIOC_DQBUF, &old) != 0) break;
      BOOST_OUTCOME_TRY(give_back(old));
    }
    const Instant until = after(Clock::now(), kGivesNothing);
    while (Clock::now() < until) {
      if (!stop.wait(until, device_.get())) return Error{Errc::cancelled, "stopped"};
      v4l2_buffer filled = blank();
      if (control(device_.get(), VIDIOC_DQBUF, &filled) != 0) {
        if (errno != EAGAIN) return failed("gives no picture");
        // A device that is gone is always "readable": then this loop must not spin.
        pollfd asked{device_.get(), POLLIN, 0};
        if (::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLERR | POLLHUP)) != 0)
          return Error{Errc::io_error, path_ + " does not answer any more"};
        if (!stop.wait(after(Clock::now(), milliseconds(5)))) return Error{Errc::cancelled, "stopped"};
        continue;
      }
      const bool good =
          filled.bytesused > 0 && (filled.flags & V4L2_BUF_FLAG_ERROR) == 0 && filled.index < maps_.size();
      Bytes frame;
      if (good) {
        const ByteView view = maps_[filled.index].bytes(filled.bytesused);
        frame.assign(view.begin(), view.end());
      }
      BOOST_OUTCOME_TRY(give_back(filled));
      if (good) return shot_of(std::move(frame));
    }
    return Error{Errc::timeout, path_ + " gave no picture in " + std::to_string(kGivesNothing.count()) + " ms"};
  }

  void close() override {
    if (device_.get() >= 0) {
      int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
      control(device_.get(), VIDIOC_STREAMOFF, &type);  // of one that was unplugged it fails, and nothing is lost
    }
    maps_.clear();
    device_ = Descriptor();
  }

  bool is_live() const override { return true; }

 private:
  Error failed(const std::string& what) const {
    return Error{Errc::io_error, path_ + " " + what + ": " + std::strerror(errno)};
  }

  static v4l2_buffer blank() {
    v4l2_buffer buffer{};
    buffer.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    buffer.memory = V4L2_MEMORY_MMAP;
    return buffer;
  }

  Outcome<void> give_back(v4l2_buffer& buffer) const {
    if (control(device_.get(), VIDIOC_QBUF, &buffer) != 0) return failed("takes no buffer back");
    return done();
  }

  Outcome<void> start() {
    device_ = Descriptor(::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (device_.get() < 0) return Error{Errc::io_error, path_ + ": " + std::strerror(errno)};
    v4l2_capability can{};
    if (control(device_.get(), VIDIOC_QUERYCAP, &can) != 0) return failed("is no camera");
    const std::uint32_t caps = (can.capabilities & V4L2_CAP_DEVICE_CAPS) != 0 ? can.device_caps : can.capabilities;
    if ((caps & V4L2_CAP_VIDEO_CAPTURE) == 0 || (caps & V4L2_CAP_STREAMING) == 0)
      return Error{Errc::bad_input, path_ + " does not stream pictures"};
    BOOST_OUTCOME_TRY(choose_format());
    v4l2_requestbuffers wanted{};
    wanted.count = kBuffers;
    wanted.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    wanted.memory = V4L2_MEMORY_MMAP;
    if (control(device_.get(), VIDIOC_REQBUFS, &wanted) != 0) return failed("gives no buffers");
    if (wanted.count < 2) return Error{Errc::io_error, path_ + " gives too few buffers"};
    for (std::uint32_t i = 0; i < wanted.count; ++i) {
      v4l2_buffer buffer = blank();
      buffer.index = i;
      if (control(device_.get(), VIDIOC_QUERYBUF, &buffer) != 0) return failed("describes no buffer");
      void* at = ::mmap(nullptr, buffer.length, PROT_READ, MAP_SHARED, device_.get(), buffer.m.offset);
      if (at == MAP_FAILED) return failed("maps no buffer");
      maps_.emplace_back(at, buffer.length);
      BOOST_OUTCOME_TRY(give_back(buffer));
    }
    int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    if (control(device_.get(), VIDIOC_STREAMON, &type) != 0) return failed("does not start");
    return done();
  }

  Outcome<void> choose_format() {
    for (const std::uint32_t wanted : {V4L2_PIX_FMT_MJPEG, V4L2_PIX_FMT_YUYV}) {
      format_ = v4l2_format{};
      format_.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
      if (control(device_.get(), VIDIOC_G_FMT, &format_) != 0) return failed("tells no format");
      v4l2_pix_format& pixels = format_.fmt.pix;
      pixels.pixelformat = wanted;
      pixels.field = V4L2_FIELD_ANY;
      pixels.bytesperline = 0;
      pixels.sizeimage = 0;
      if (width_ > 0) pixels.width = width_;
      if (height_ > 0) pixels.height = height_;
      if (control(device_.get(), VIDIOC_S_FMT, &format_) != 0) {
        if (errno == EBUSY) return failed("is used by another program");
        continue;
      }
      if (pixels.pixelformat == wanted) return done();
    }
    return Error{Errc::bad_input, path_ + " gives neither MJPG nor YUYV"};
  }

  Outcome<Shot> shot_of(Bytes frame) const {
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const std::string name = std::filesystem::path(path_).filename().string() + "-" +
                             std::to_string(std::chrono::duration_cast<milliseconds>(wall).count());
    const v4l2_pix_format& pixels = format_.fmt.pix;
    if (pixels.pixelformat == V4L2_PIX_FMT_MJPEG) return Shot{name + ".jpg", std::move(frame)};
    BOOST_OUTCOME_TRY(Bytes picture, picture_of_yuyv(frame, pixels.width, pixels.height, pixels.bytesperline));
    return Shot{name + ".ppm", std::move(picture)};
  }

  const std::string path_;
  const std::uint32_t width_;
  const std::uint32_t height_;
  Descriptor device_;
  v4l2_format format_{};
  std::vector<Mapping> maps_;
};

}  // namespace

std::unique_ptr<CaptureSource> make_v4l2_source(std::string device, std::uint32_t width, std::uint32_t height) {
  return std::make_unique<V4l2Source>(std::move(device), width, height);
}

Outcome<Bytes> picture_of_yuyv(ByteView frame, std::uint32_t width, std::uint32_t height, std::uint32_t stride) {
  const std::uint64_t row = std::uint64_t{width} * 2;
  const std::uint64_t step = std::max<std::uint64_t>(stride, row);
  if (width == 0 || height == 0 || width % 2 != 0 || frame.size() < step * (height - 1) + row) {
    return Error{Errc::bad_picture, "a YUYV frame of " + std::to_string(width) + " x " + std::to_string(height) +
                                        " that has " + std::to_string(frame.size()) + " bytes"};
  }
  const std::string head = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  const ByteView front = view_of(head);
  Bytes out(front.begin(), front.end());
  out.reserve(out.size() + std::uint64_t{width} * height * 3);
  const auto put = [&out](int value) { out.push_back(static_cast<std::byte>(std::clamp(value, 0, 255))); };
  for (std::uint32_t y = 0; y < height; ++y) {
    const ByteView line = frame.subspan(y * step, row);
    for (std::size_t x = 0; x < row; x += 4) {
      const auto at = [&](std::size_t i) { return std::to_integer<int>(line[x + i]); };
      const int blue = at(1) - 128;
      const int red = at(3) - 128;
      for (const std::size_t luma : {std::size_t{0}, std::size_t{2}}) {
        // BT.601, limited range, in 1/256: what UVC cameras give.
        const int c = 298 * (at(luma) - 16) + 128;
        put((c + 409 * red) >> 8);
        put((c - 100 * blue - 208 * red) >> 8);
        put((c + 516 * blue) >> 8);
      }
    }
  }
  return out;
}

}  // namespace gearbox::client
