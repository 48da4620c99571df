// bench_codec: size and speed of the codecs through the chain that node and client use, beside zstd alone and WebP
// lossless, on one core, in interleaved rounds. Times are CPU time.
//
//   bench_codec [--json FILE] [--rounds N] [photo.ppm ... depth.pgm depth.npy ...]
//
// Without files it makes pictures itself, and says so. JSON: flat, name → number.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/image_delta.hpp"
#include "codec/jpeg_codec.hpp"
#include "codec/zstd_codec.hpp"
#include "codec_peers.hpp"
#include "codec_samples.hpp"
#include "gearbox/link/codec_chain.hpp"

namespace gearbox::bench {
namespace {

template <class T>
T must(Outcome<T> outcome) {
  if (!outcome) {
    std::fprintf(stderr, "bench_codec: %s\n", describe(outcome.error()).c_str());
    std::exit(1);
  }
  return std::move(outcome).value();
}

/// This thread's own time on a CPU: coding does nothing but compute, and other work on the machine must not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double seconds_of(auto&& work) {
  const double start = cpu_seconds();
  work();
  return cpu_seconds() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// One way of coding a sample: bytes used and the times of its rounds.
struct Row {
  std::string name;
  std::size_t coded_bytes = 0;
  std::vector<double> encode_s, decode_s;
};

/// A chain with its output kept, so that decode has something to do.
class Ours {
 public:
  Ours(const Sample& sample, std::vector<link::NamedCodec> codecs)
      : sample_(sample),
        chain_(must(link::CodecChain::create(sample.spec, std::move(codecs)))),
        room_(chain_.coded_bound()) {
    tiles_.resize(chain_.layout().count());
    back_.resize(sample.plain.size());
  }
  void encode() {
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      const std::size_t used = must(chain_.encode(i, sample_.plain, room_));
      tiles_[i].assign(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(used));
    }
  }
  void decode() {
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      const Outcome<void> decoded = chain_.decode(i, tiles_[i], back_);
      if (!decoded) {
        std::fprintf(stderr, "bench_codec: %s\n", describe(decoded.error()).c_str());
        std::exit(1);
      }
    }
  }
  std::size_t coded_bytes() const {
    std::size_t all = 0;
    for (const Bytes& tile : tiles_) all += tile.size();
    return all;
  }
  bool comes_back() const { return back_ == sample_.plain; }

 private:
  const Sample& sample_;
  link::CodecChain chain_;
  Bytes room_;
  std::vector<Bytes> tiles_;
  Bytes back_;
};

std::vector<link::NamedCodec> lossless_chain() {
  return {{"image_delta", std::shared_ptr<plugin::Codec>(must(codec::ImageDelta::create()))},
          {"zstd", std::shared_ptr<plugin::Codec>(must(codec::ZstdCodec::create({})))}};
}

struct Figures {
  std::vector<double> ratio, peer_ratio, encode_mb_s, decode_mb_s, peer_speed, jpeg_ratio, jpeg_encode_mb_s;
};

/// Codes one sample in `rounds` interleaved rounds and prints its lines.
void measure(const Sample& sample, int rounds, Peer* peer, const char* peer_name, bool with_jpeg, Figures& figures) {
  Ours ours(sample, lossless_chain());
  std::unique_ptr<Ours> jpeg;
  if (with_jpeg) {
    jpeg = std::make_unique<Ours>(
        sample,
        std::vector<link::NamedCodec>{{"jpeg", std::shared_ptr<plugin::Codec>(must(codec::JpegCodec::create(90)))}});
  }
  Row mine{"image_delta + zstd", 0, {}, {}};
  Row theirs{peer_name, 0, {}, {}};
  Row lossy{"jpeg q90", 0, {}, {}};
  ours.encode();  // warm-up: scratch memory, contexts
  ours.decode();
  if (!ours.comes_back()) {
    std::fprintf(stderr, "bench_codec: %s does not come back\n", sample.name.c_str());
    std::exit(1);
  }
  for (int round = 0; round < rounds; ++round) {
    mine.encode_s.push_back(seconds_of([&] { ours.encode(); }));
    mine.decode_s.push_back(seconds_of([&] { ours.decode(); }));
    if (peer != nullptr) theirs.encode_s.push_back(seconds_of([&] { theirs.coded_bytes = peer->encode(sample); }));
    if (jpeg) {
      lossy.encode_s.push_back(seconds_of([&] { jpeg->encode(); }));
      lossy.decode_s.push_back(seconds_of([&] { jpeg->decode(); }));
    }
  }
  mine.coded_bytes = ours.coded_bytes();
  const double plain = static_cast<double>(sample.plain.size());
  const auto ratio = [plain](const Row& row) { return plain / static_cast<double>(row.coded_bytes); };
  const auto speed = [plain](const std::vector<double>& times) { return plain / median(times) / 1e6; };
  const auto print = [&](const Row& row) {
    std::printf("%-22s %-20s %6.2f %9.0f", sample.name.c_str(), row.name.c_str(), ratio(row), speed(row.encode_s));
    if (row.decode_s.empty())
      std::printf("         -\n");
    else
      std::printf(" %9.0f\n", speed(row.decode_s));
  };
  print(mine);
  figures.ratio.push_back(ratio(mine));
  figures.encode_mb_s.push_back(speed(mine.encode_s));
  figures.decode_mb_s.push_back(speed(mine.decode_s));
  if (peer != nullptr) {
    print(theirs);
    figures.peer_ratio.push_back(ratio(mine) / ratio(theirs));
    figures.peer_speed.push_back(median(theirs.encode_s) / median(mine.encode_s));
  }
  if (jpeg) {
    lossy.coded_bytes = jpeg->coded_bytes();
    print(lossy);
    figures.jpeg_ratio.push_back(ratio(lossy));
    figures.jpeg_encode_mb_s.push_back(speed(lossy.encode_s));
  }
}

/// Ratios are averaged as ratios are: by their logarithms.
double mean_ratio(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

void write_json(const std::string& file, const std::map<std::string, double>& results) {
  std::ofstream out(file);
  out << "{";
  const char* between = "\n";
  for (const auto& [name, value] : results) {
    out << between << "  \"" << name << "\": " << value;
    between = ",\n";
  }
  out << "\n}\n";
  out.flush();
  if (!out) {
    std::fprintf(stderr, "bench_codec: cannot write %s\n", file.c_str());
    std::exit(1);
  }
}

int run(int argc, char** argv) {
  std::string json;
  int rounds = 7;
  std::vector<Sample> photos;
  std::vector<Sample> depths;
  const auto sort_in = [&](Sample sample) {
    auto& place = sample.spec.dtype == wire::DType::uint16 ? depths : photos;
    place.push_back(std::move(sample));
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (argument == "--rounds" && i + 1 < argc) {
      rounds = std::max(3, std::atoi(argv[++i]));
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr, "usage: bench_codec [--json FILE] [--rounds N] [photo.ppm ... depth.pgm ...]\n");
      return 2;
    } else {
      sort_in(must(read_sample(std::string(argument))));
    }
  }
  if (photos.empty()) {
    std::printf("no photographs given: two made here\n");
    for (const unsigned seed : {1U, 2U}) photos.push_back(made_photo(seed));
  }
  if (depths.empty()) {
    std::printf("no depth frames given: two made here\n");
    for (const unsigned seed : {1U, 2U}) depths.push_back(made_depth(seed));
  }
  std::printf("%-22s %-20s %6s %9s %9s   MB/s of plain bytes, one core, median of %d\n", "sample", "codec", "ratio",
              "encode", "decode", rounds);
  Figures photo;
  Figures depth;
  const std::unique_ptr<Peer> webp = webp_peer();
  const std::unique_ptr<Peer> zstd3 = zstd_peer(3);
  for (const Sample& sample : photos) {
    if (sample.spec.shape.size() != 3 || sample.spec.shape[2] != 3) continue;
    measure(sample, rounds, webp.get(), "webp lossless m0", true, photo);
  }
  for (const Sample& sample : depths) measure(sample, rounds, zstd3.get(), "zstd 3", false, depth);

  std::map<std::string, double> results;
  const auto add = [&results](const std::string& name, double value) {
    results[name] = value;
    std::printf("%-32s %.3f\n", name.c_str(), value);
  };
  if (!photo.ratio.empty()) {
    if (webp) {
      add("codec.photo_ratio_vs_webp", mean_ratio(photo.peer_ratio));
      add("codec.photo_speed_vs_webp", median(photo.peer_speed));
    } else {
      std::printf("codec.photo_*_vs_webp            NOT RUN: built without libwebp (Debian: libwebp-dev)\n");
    }
    add("codec.photo_ratio", mean_ratio(photo.ratio));
    add("codec.photo_encode_mb_s", median(photo.encode_mb_s));
    add("codec.photo_decode_mb_s", median(photo.decode_mb_s));
    add("codec.jpeg_ratio", mean_ratio(photo.jpeg_ratio));
    add("codec.jpeg_encode_mb_s", median(photo.jpeg_encode_mb_s));
  }
  add("codec.depth_ratio_vs_zstd3", mean_ratio(depth.peer_ratio));
  add("codec.depth_speed_vs_zstd3", median(depth.peer_speed));
  add("codec.depth_ratio", mean_ratio(depth.ratio));
  add("codec.depth_encode_mb_s", median(depth.encode_mb_s));
  add("codec.depth_decode_mb_s", median(depth.decode_mb_s));
  if (!json.empty()) write_json(json, results);
  return 0;
}

}  // namespace
}  // namespace gearbox::bench

int main(int argc, char** argv) {
  return gearbox::bench::run(argc, argv);
}
