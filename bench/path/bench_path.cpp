// bench_path: what the node's own code costs on a request's way in, beside the bare parts of it, and what a connection
// costs.
//
//   bench_path [--json FILE] [--rounds N] [--connections N] [photo.ppm ...]
//
// How it is measured. The node is a process of its own with one thread, made of the product's rooms (node_process.hpp
// says what is left out), with spin_us = 0; its CPU time is that process's clock, system calls included. The client is
// the thread of this process, over TCP on 127.0.0.1 and the sealed channel; it has sealed every frame before the clock
// is read, and its sends are few and large, as from a device on the same host.
//   path.serial_sum_over_cpu  An upload of a raw photo of about 3 MB (image_delta + zstd). The node's clock is read
//   when it
//       sleeps before the submit, and by the node itself when it looks for a worker for the accepted request: the
//       submit and its answer count, and so do receiving from the socket, decoding into the slab and the digest; the
//       worker's step does not. Bare: for the same tiles, sealed alike, libsodium opens each record in one call, zstd
//       and image_delta's decode follow, in one thread, into memory as warm as the slab. Ratio of each round, median;
//       more photos: the median of all.
//   path.stored_over_aead     The same for a JPEG of about 3 MB that is stored; bare is libsodium's opening alone.
//   path.overhead_us          A whole 64-byte inline request and its acknowledgement, one at a time, each from sleeping
//   node to
//       sleeping node: three wake-ups with their system calls are in it. Median of all requests.
//   conn.held, conn.idle_kb   N sealed and logged-in connections that are all held while requests go on on some; growth
//   of the
//       node's resident memory for each, after the requests. Kernel memory is not in it. `held` counts those that
//       answer a ping at the end.
#include <spdlog/spdlog.h>

#include <fstream>

#include "../codec/codec_samples.hpp"
#include "codec/jpeg_codec.hpp"
#include "requests.hpp"
#include "serving/accept_loop.hpp"
#include "support.hpp"
#include "uploads.hpp"

namespace gearbox::bench {
namespace {

constexpr std::size_t kWanted = 3'000'000;  // bytes of a photo, plain; of a JPEG, coded

/// `sample` as one file of a camera that wastes nothing: the picture is repeated downwards until the file is big
/// enough.
Bytes jpeg_of(const Sample& sample) {
  auto codec = must(codec::JpegCodec::create(97));
  plugin::TileView tile;
  tile.rows = static_cast<std::uint32_t>(sample.spec.shape[0]);
  tile.width = static_cast<std::uint32_t>(sample.spec.shape[1]);
  tile.channels = 3;
  Bytes plain = sample.plain;
  for (;;) {
    Bytes file(codec->bound(plain.size()));
    file.resize(must(codec->encode(tile, plain, file)));
    if (file.size() >= kWanted * 9 / 10) return file;
    plain.insert(plain.end(), sample.plain.begin(), sample.plain.end());
    tile.rows += static_cast<std::uint32_t>(sample.spec.shape[0]);
  }
}

/// The picture, repeated downwards and cut, as one of about kWanted bytes.
Sample sized(Sample sample) {
  const std::size_t row = sample.plain.size() / static_cast<std::size_t>(sample.spec.shape[0]);
  const Bytes once = sample.plain;
  while (sample.plain.size() < kWanted) sample.plain.insert(sample.plain.end(), once.begin(), once.end());
  sample.spec.shape[0] = static_cast<std::int64_t>(kWanted / row);
  sample.spec.bytes = kWanted / row * row;
  sample.plain.resize(sample.spec.bytes);
  return sample;
}

std::vector<Sample> photos_of(const std::vector<std::string>& files) {
  std::vector<Sample> photos;
  for (const std::string& file : files) {
    Sample sample = must(read_sample(file));
    if (sample.spec.shape.size() == 3 && sample.spec.shape[2] == 3) photos.push_back(sized(std::move(sample)));
  }
  if (!photos.empty()) return photos;
  std::printf("no photographs given: one made here\n");
  photos.push_back(sized(made_photo(1)));
  return photos;
}

struct Ratios {
  std::vector<double> ratio, node_us, bare_us;
};

void measure(Upload& upload, NodeProcess& node, Client& client, int rounds, Ratios& into) {
  for (int warm = 0; warm < 3; ++warm) {
    upload.bare_cpu_us();
    upload.node_cpu_us(node, client);
  }
  for (int round = 0; round < rounds; ++round) {
    const double bare = upload.bare_cpu_us();
    const double ours = upload.node_cpu_us(node, client);
    into.bare_us.push_back(bare);
    into.node_us.push_back(ours);
    into.ratio.push_back(bare / ours);
  }
}

void print(const std::vector<Row>& rows) {
  std::printf("%-28s %10s %10s %10s  %-4s target\n", "", "median", "least", "most", "");
  for (const Row& row : rows) {
    const double value = median(row.values);
    const auto [least, most] = std::minmax_element(row.values.begin(), row.values.end());
    std::printf("%-28s %10.3f %10.3f %10.3f  %-4s ", row.name.c_str(), value, *least, *most, row.unit.c_str());
    if (row.target == 0) {
      std::printf("\n");
      continue;
    }
    const bool met = row.at_least ? value >= row.target : value <= row.target;
    std::printf("%s %g  %s\n", row.at_least ? ">=" : "<=", row.target, met ? "met" : "missed");
  }
}

bool write_json(const std::string& file, const std::vector<Row>& rows) {
  std::ofstream out(file);
  const char* between = "{\n";
  for (const Row& row : rows) {
    out << between << "  \"" << row.name << "\": " << median(row.values);
    between = ",\n";
  }
  out << "\n}\n";
  return static_cast<bool>(out.flush());
}

struct Options {
  std::string json;
  int rounds = 15;
  std::size_t connections = 19'000;  // a node's default limit
  std::vector<std::string> files;
};

int run(const Options& options) {
  std::vector<Row> rows, connections;
  {
    // First, while this process is small: a node forked from a big one would have its free memory, and never grow.
    NodeProcess::Setup setup;
    setup.max_connections = static_cast<std::uint32_t>(options.connections) + 256;
    auto node = must(NodeProcess::start(setup));
    const Held held = must(hold(*node, options.connections));
    std::printf("%zu connections asked for, %d requests went on meanwhile\n", options.connections, held.requests);
    connections.push_back({"conn.held", {static_cast<double>(held.connections)}, "", 1000, true});
    connections.push_back({"conn.idle_kb", {held.each_kb}, "KB", 5, false});
  }
  {
    auto node = must(NodeProcess::start({}));
    auto client = must(Client::log_in(*node));
    Ratios photo, stored;
    const std::vector<Sample> photos = photos_of(options.files);
    for (const Sample& sample : photos) {
      Upload upload = Upload::coded(sample.spec, sample.plain);
      std::printf("%-24s %9.0f KB plain, %9.0f KB sealed\n", sample.name.c_str(),
                  static_cast<double>(upload.plain_bytes()) / 1e3, static_cast<double>(upload.wire_bytes()) / 1e3);
      measure(upload, *node, client, options.rounds, photo);
    }
    Upload upload = Upload::stored(jpeg_of(photos.front()));
    std::printf("%-24s %9.0f KB\n", "stored JPEG", static_cast<double>(upload.wire_bytes()) / 1e3);
    measure(upload, *node, client, options.rounds, stored);
    for (int i = 0; i < 200; ++i) must(small_request(client));
    const std::vector<double> small = small_request_cpu_us(*node, client, 100 * options.rounds);
    if (small.empty()) must(Outcome<void>(Error{Errc::internal, "a small request failed"}));
    rows.push_back({"path.serial_sum_over_cpu", photo.ratio, "", 0.90, true});
    rows.push_back({"path.photo_cpu_us", photo.node_us, "us"});
    rows.push_back({"path.photo_bare_us", photo.bare_us, "us"});
    rows.push_back({"path.stored_over_aead", stored.ratio, "", 0.85, true});
    rows.push_back({"path.stored_cpu_us", stored.node_us, "us"});
    rows.push_back({"path.stored_bare_us", stored.bare_us, "us"});
    rows.push_back({"path.overhead_us", small, "us", 25, false});
  }
  rows.insert(rows.end(), connections.begin(), connections.end());
  print(rows);
  return options.json.empty() || write_json(options.json, rows) ? 0 : 1;
}

}  // namespace
}  // namespace gearbox::bench

int main(int argc, char** argv) {
  using namespace gearbox;
  bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--json" && more) {
      options.json = argv[++i];
    } else if (word == "--rounds" && more) {
      options.rounds = std::max(3, std::atoi(argv[++i]));
    } else if (word == "--connections" && more) {
      options.connections = static_cast<std::size_t>(std::max(1, std::atoi(argv[++i])));
    } else if (word.starts_with("-")) {
      std::fprintf(stderr, "usage: bench_path [--json FILE] [--rounds N] [--connections N] [photo.ppm ...]\n");
      return 2;
    } else {
      options.files.emplace_back(word);
    }
  }
  const std::uint64_t descriptors = serving::raise_descriptor_limit();
  if (descriptors < options.connections + 256) {
    std::printf("%llu descriptors are allowed: fewer connections\n", static_cast<unsigned long long>(descriptors));
    options.connections = descriptors - 256;
  }
  link::crypto_ready();
  spdlog::set_level(spdlog::level::off);
  return bench::run(options);
}
