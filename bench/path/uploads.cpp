#include "uploads.hpp"

#include "codec/image_delta.hpp"
#include "codec/zstd_codec.hpp"
#include "support.hpp"

namespace gearbox::bench {

/// What the bare pass works with, warm from the round before as the node's own memory is.
struct Upload::Bare {
  Bare(link::SecureChannel sender, link::SecureChannel receiver) : from(std::move(sender)), to(std::move(receiver)) {}
  link::SecureChannel from, to;
  std::unique_ptr<plugin::Codec> delta = must(codec::ImageDelta::create());
  std::unique_ptr<plugin::Codec> zstd = must(codec::ZstdCodec::create({}));
  Bytes sealed, opened, planes, plain;
};

namespace {

std::vector<link::NamedCodec> chain() {
  return {{"image_delta", std::shared_ptr<plugin::Codec>(must(codec::ImageDelta::create()))},
          {"zstd", std::shared_ptr<plugin::Codec>(must(codec::ZstdCodec::create({})))}};
}

link::UploadSender sender_of(const Bytes& wire, const std::vector<std::uint32_t>& tiles) {
  std::vector<link::UploadSender::Input> inputs(1);
  inputs[0].wire = wire;
  inputs[0].tile_bytes = tiles;
  return link::UploadSender(std::move(inputs));
}

}  // namespace

Upload Upload::coded(const wire::TensorSpec& spec, ByteView plain) {
  Upload upload;
  upload.spec_ = spec;
  upload.spec_.name = "image";
  upload.plain_.assign(plain.begin(), plain.end());
  auto codecs = must(link::CodecChain::create(upload.spec_, chain()));
  Bytes room(codecs.coded_bound());
  for (std::size_t i = 0; i < codecs.layout().count(); ++i) {
    const std::size_t used = must(codecs.encode(i, plain, room));
    upload.wire_.insert(upload.wire_.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(used));
    upload.tiles_.push_back(static_cast<std::uint32_t>(used));
  }
  return upload;
}

Upload Upload::stored(Bytes content) {
  Upload upload;
  upload.spec_ = {"image", wire::DType::uint8, {static_cast<std::int64_t>(content.size())}, content.size()};
  upload.plain_ = content;
  upload.wire_ = std::move(content);
  return upload;
}

double Upload::node_cpu_us(NodeProcess& node, Client& client) const {
  link::UploadSender sender = sender_of(wire_, tiles_);
  wire::Submit submit;
  submit.task = "look";
  submit.digest = sender.digest();
  submit.wire_bytes = wire_.size();
  wire::InputSpec input;
  input.tensor = spec_;
  input.wire_bytes = wire_.size();
  if (!tiles_.empty()) input.codecs = {"image_delta", "zstd"};
  submit.inputs = {input};
  wire::FrameHeader header;
  header.type = wire::FrameType::submit;
  header.request = link::random_request_id();
  Bytes announcement;
  client.seal(header, wire::to_json(submit), {}, announcement);
  header.type = wire::FrameType::upload_data;
  Bytes frames;
  while (!sender.finished()) {
    const auto chunk = sender.next();
    header.offset = chunk.offset;
    client.seal(header, {}, chunk.bytes, frames);
  }
  header.type = wire::FrameType::result_ack;
  header.offset = 0;
  Bytes acknowledgement;
  client.seal(header, {}, {}, acknowledgement);

  const std::uint64_t before = node.hand_overs();
  const double begin = node.settled_cpu_us();
  must(client.send(announcement));
  must(client.receive(wire::FrameType::upload_at));
  must(client.send(frames));
  must(client.receive(wire::FrameType::accepted));
  must(client.receive(wire::FrameType::result));
  if (node.hand_overs() != before + 1)
    must(Outcome<void>(Error{Errc::internal, "one upload was not one call of a worker"}));
  const double end = node.handed_over_us();
  must(client.send(acknowledgement));
  return end - begin;
}

double Upload::bare_cpu_us() {
  if (!bare_) {
    const link::ChannelKeys keys = link::make_channel_keys();
    link::ClientHandshake client(keys.public_key);
    link::ServerHandshake server(keys);
    auto agreed = must(client.read_reply(must(server.read_hello(client.hello()))));
    bare_ = std::make_shared<Bare>(std::move(agreed.channel), must(server.read_finish(agreed.finish)));
    bare_->plain.resize(spec_.bytes);
    bare_->opened.resize(wire::kMaxPayloadBytes);
    bare_->planes.resize(wire::kMaxPayloadBytes);
  }
  Bare& bare = *bare_;
  const link::TileLayout layout = must(link::TileLayout::of(spec_));
  link::UploadSender sender = sender_of(wire_, tiles_);
  std::vector<std::size_t> records;
  bare.sealed.resize(wire_.size() + 1024 * 64);
  std::size_t at = 0;
  while (!sender.finished()) {
    const ByteView chunk = sender.next().bytes;
    bare.from.seal(chunk, {}, {}, ByteSpan(bare.sealed).subspan(at, chunk.size() + link::kSealBytes));
    records.push_back(chunk.size() + link::kSealBytes);
    at += records.back();
  }
  at = 0;
  std::uint64_t filled = 0;
  const double begin = clock_us(CLOCK_THREAD_CPUTIME_ID);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const ByteView sealed = ByteView(bare.sealed).subspan(at, records[i]);
    const std::size_t bytes = records[i] - link::kSealBytes;
    at += records[i];
    if (tiles_.empty()) {
      must(bare.to.open(sealed, {}, ByteSpan(bare.plain).subspan(filled, bytes)));
      filled += bytes;
      continue;
    }
    must(bare.to.open(sealed, {}, bare.opened));
    const plugin::TileView tile = layout.tile(i);
    const ByteSpan planes = ByteSpan(bare.planes).first(bare.delta->bound(tile.bytes()));
    const std::size_t coded = must(bare.zstd->decode(tile, ByteView(bare.opened).first(bytes), planes));
    must(bare.delta->decode(tile, planes.first(coded), ByteSpan(bare.plain).subspan(layout.offset(i), tile.bytes())));
  }
  const double end = clock_us(CLOCK_THREAD_CPUTIME_ID);
  if (bare.plain != plain_) must(Outcome<void>(Error{Errc::internal, "the bare pass gives other bytes"}));
  return end - begin;
}

}  // namespace gearbox::bench
