#include "codec_peers.hpp"

#include <zstd.h>

#include <cstdio>
#include <cstdlib>

#if defined(GEARBOX_HAS_WEBP)
#include <webp/encode.h>
#endif

namespace gearbox::bench {

namespace {
[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "bench_codec: %s failed\n", what);
  std::exit(1);
}

class Zstd final : public Peer {
 public:
  explicit Zstd(int level) : level_(level) {}
  std::size_t encode(const Sample& sample) override {
    out_.resize(ZSTD_compressBound(sample.plain.size()));
    const std::size_t used =
        ZSTD_compressCCtx(context_.get(), out_.data(), out_.size(), sample.plain.data(), sample.plain.size(), level_);
    if (ZSTD_isError(used) != 0) give_up("zstd");
    return used;
  }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  int level_;
  std::unique_ptr<ZSTD_CCtx, Free> context_{ZSTD_createCCtx()};
  Bytes out_;
};

#if defined(GEARBOX_HAS_WEBP)
class WebP final : public Peer {
 public:
  std::size_t encode(const Sample& sample) override {
    WebPConfig config;
    WebPPicture picture;
    if (WebPConfigInit(&config) == 0 || WebPPictureInit(&picture) == 0) give_up("webp");
    config.lossless = 1;
    config.method = 0;
    config.quality = 0;
    config.exact = 1;
    picture.use_argb = 1;
    picture.height = static_cast<int>(sample.spec.shape[0]);
    picture.width = static_cast<int>(sample.spec.shape[1]);
    WebPMemoryWriter writer;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(sample.plain.data());
    if (WebPPictureImportRGB(&picture, pixels, picture.width * 3) == 0 || WebPEncode(&config, &picture) == 0)
      give_up("webp");
    const std::size_t used = writer.size;
    WebPPictureFree(&picture);
    WebPMemoryWriterClear(&writer);
    return used;
  }
};
#endif
}  // namespace

std::unique_ptr<Peer> zstd_peer(int level) {
  return std::make_unique<Zstd>(level);
}

std::unique_ptr<Peer> webp_peer() {
#if defined(GEARBOX_HAS_WEBP)
  return std::make_unique<WebP>();
#else
  return nullptr;
#endif
}

}  // namespace gearbox::bench
