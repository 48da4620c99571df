#include "gearbox/link/codec_chain.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace gearbox::link {

CodecChain::CodecChain(TileLayout layout, std::string tensor, std::vector<NamedCodec> codecs)
    : layout_(std::move(layout)), tensor_(std::move(tensor)), codecs_(std::move(codecs)) {}

Outcome<CodecChain> CodecChain::create(const wire::TensorSpec& spec, std::vector<NamedCodec> codecs) {
  BOOST_OUTCOME_TRY(TileLayout layout, TileLayout::of(spec));
  const auto refused = [&spec](const std::string& why) {
    return Error{Errc::bad_input, "tensor '" + spec.name + "': " + why};
  };
  if (codecs.empty() || codecs.size() > kMaxChain) {
    return refused("a chain of " + std::to_string(codecs.size()) + " codecs; 1 to 4 are allowed");
  }
  for (std::size_t k = 1; k < codecs.size(); ++k) {
    if (!codecs[k].codec->takes_any_bytes())
      return refused("codec " + codecs[k].name + " must be the first of its chain");
  }
  CodecChain chain(std::move(layout), spec.name, std::move(codecs));
  if (chain.layout_.count() == 0) return chain;

  const plugin::TileView tile = chain.layout_.tile(0);
  const NamedCodec& head = chain.codecs_.front();
  // What looks like plain bytes is refused here by those that need pixels, whatever they say of a single row.
  const bool pixels = head.codec->takes_any_bytes() || chain.layout_.is_picture();
  if (!pixels || !head.codec->accepts(tile)) {
    return refused("codec " + head.name + " does not take " + std::string(wire::name_of(spec.dtype)) + " of rank " +
                   std::to_string(spec.shape.size()) + " with rows of " + std::to_string(tile.width) + " x " +
                   std::to_string(tile.channels));
  }
  std::size_t bound = chain.layout_.largest_bytes();
  for (std::size_t k = 0; k < chain.codecs_.size(); ++k) {
    bound = chain.codecs_[k].codec->bound(bound);
    // Checked at each step: a codec that claims a wild bound must not make us allocate it.
    if (bound > wire::kMaxPayloadBytes) {
      return refused("codec " + chain.codecs_[k].name + " may make a tile of " + std::to_string(bound) +
                     " bytes; a frame holds " + std::to_string(wire::kMaxPayloadBytes));
    }
    if (k + 1 < chain.codecs_.size())
      chain.between_.push_back({std::make_unique_for_overwrite<std::byte[]>(bound), bound});
  }
  chain.coded_bound_ = bound;
  return chain;
}

bool CodecChain::lossless() const {
  return std::all_of(codecs_.begin(), codecs_.end(), [](const NamedCodec& one) { return one.codec->lossless(); });
}

Outcome<void> CodecChain::check_call(std::size_t index, std::size_t plain_bytes) const {
  if (plain_bytes != layout_.plain_bytes()) {
    return Error{Errc::bad_input, "tensor '" + tensor_ + "' has " + std::to_string(layout_.plain_bytes()) +
                                      " bytes, not " + std::to_string(plain_bytes)};
  }
  if (index >= layout_.count()) {
    return Error{Errc::bad_input, "tensor '" + tensor_ + "' has " + std::to_string(layout_.count()) +
                                      " tiles, there is no tile " + std::to_string(index)};
  }
  return done();
}

Error CodecChain::at(std::size_t index, const std::string& codec, const Error& error) const {
  return Error{error.code, "tensor '" + tensor_ + "', tile " + std::to_string(index) + " of " +
                               std::to_string(layout_.count()) + ", codec " + codec + ": " + error.detail};
}

Outcome<std::size_t> CodecChain::encode(std::size_t index, ByteView plain, ByteSpan out) {
  BOOST_OUTCOME_TRY(check_call(index, plain.size()));
  const plugin::TileView tile = layout_.tile(index);
  ByteView from = plain.subspan(static_cast<std::size_t>(layout_.offset(index)), tile.bytes());
  for (std::size_t k = 0; k < codecs_.size(); ++k) {
    const ByteSpan to = k + 1 < codecs_.size() ? between_[k].span() : out;
    const Outcome<std::size_t> used = codecs_[k].codec->encode(tile, from, to);
    if (!used) return at(index, codecs_[k].name, used.error());
    if (used.value() > to.size())
      return at(index, codecs_[k].name, Error{Errc::plugin_fault, "says it wrote past its room"});
    from = to.first(used.value());
  }
  return from.size();
}

Outcome<void> CodecChain::decode(std::size_t index, ByteView coded, ByteSpan plain) {
  BOOST_OUTCOME_TRY(check_call(index, plain.size()));
  const plugin::TileView tile = layout_.tile(index);
  const ByteSpan place = plain.subspan(static_cast<std::size_t>(layout_.offset(index)), tile.bytes());
  // The caps of this very tile: the last one is smaller than the scratch.
  std::array<std::size_t, kMaxChain> cap{};
  std::size_t bound = tile.bytes();
  for (std::size_t k = 0; k < codecs_.size(); ++k) {
    cap[k] = bound;
    bound = codecs_[k].codec->bound(bound);
  }
  ByteView from = coded;
  for (std::size_t k = codecs_.size(); k-- > 0;) {
    const ByteSpan to = k == 0 ? place : between_[k - 1].span().first(std::min(cap[k], between_[k - 1].bytes));
    const Outcome<std::size_t> used = codecs_[k].codec->decode(tile, from, to);
    if (!used) return at(index, codecs_[k].name, used.error());
    if (used.value() > to.size())
      return at(index, codecs_[k].name, Error{Errc::plugin_fault, "says it wrote past its room"});
    from = to.first(used.value());
  }
  if (from.size() != tile.bytes()) {
    return at(index, codecs_.front().name,
              Error{Errc::corrupt_data,
                    "gave " + std::to_string(from.size()) + " of " + std::to_string(tile.bytes()) + " bytes"});
  }
  return done();
}

Outcome<double> CodecChain::try_ratio(ByteView plain) {
  if (layout_.count() == 0) return 1.0;
  Bytes out(coded_bound_);
  const std::size_t middle = (layout_.count() - 1) / 2;  // never the short last one of several
  BOOST_OUTCOME_TRY(const std::size_t used, encode(middle, plain, out));
  return static_cast<double>(used) / static_cast<double>(layout_.bytes(middle));
}

}  // namespace gearbox::link
