#include "plugin_host/probe.hpp"

#include <algorithm>
#include <array>

#include "gearbox/base/text.hpp"
#include "plugin_host/guards.hpp"
#include "plugin_host/option_values.hpp"

namespace gearbox::plugin_host {

namespace {

Error refused(const std::string& why) {
  return Error{Errc::bad_plugin, why};
}

Outcome<void> try_out(plugin::Balancer& balancer) {
  const std::array<plugin::CandidateView, 3> candidates = {
      plugin::CandidateView{plugin::CandidateId{3}, 0, 0, 1, microseconds{0}},
      plugin::CandidateView{plugin::CandidateId{7}, 2, 1, 1, microseconds{900}},
      plugin::CandidateView{plugin::CandidateId{4000000000U}, 0, 1, 4, microseconds{40000}}};
  const plugin::RequestView request{
      .task = "probe", .model = "probe", .payload_bytes = 1, .tenant = 0, .priority = 0, .attempt = 0};
  for (std::size_t count = 1; count <= candidates.size(); ++count) {
    const auto picked = balancer.pick(request, std::span(candidates).first(count), Clock::now());
    if (!picked && picked.error().code != Errc::overloaded) return refused("pick() failed: " + picked.error().detail);
  }
  return done();
}

Outcome<void> try_out(plugin::Codec& codec) {
  const std::array<plugin::TileView, 4> tiles = {
      plugin::TileView{wire::DType::uint8, 1, 1000, 1}, plugin::TileView{wire::DType::uint8, 8, 16, 3},
      plugin::TileView{wire::DType::uint8, 8, 16, 4}, plugin::TileView{wire::DType::uint16, 8, 16, 1}};
  bool any = false;
  for (const plugin::TileView& tile : tiles) {
    if (!codec.accepts(tile)) continue;
    any = true;
    Bytes plain(tile.bytes());
    for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>((i * i) >> 3);
    const std::size_t bound = codec.bound(plain.size());
    if (bound > (1U << 20))
      return refused("bound() of " + std::to_string(plain.size()) + " bytes is " + std::to_string(bound));
    Bytes coded(bound);
    const auto used = codec.encode(tile, plain, coded);
    if (!used) return refused("encode() failed: " + used.error().detail);
    Bytes back(plain.size());
    const auto got = codec.decode(tile, ByteView(coded).first(used.value()), back);
    if (!got) return refused("decode() of its own output failed: " + got.error().detail);
    if (got.value() != plain.size() || (codec.lossless() && back != plain))
      return refused("decode() does not give back what encode() got");
  }
  if (!any) return refused("accepts no kind of tile");
  return done();
}

Outcome<void> try_out(plugin::Transport& transport) {
  const std::string_view scheme = transport.scheme();
  const bool good = !scheme.empty() && scheme.size() <= 32 && std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  if (!good) return refused("scheme() is '" + escaped(scheme, 32) + "'");
  const auto connected = transport.connect("no url", after(Clock::now(), milliseconds{100}));
  if (connected || connected.error().code != Errc::bad_input) return refused("connect() takes 'no url' for an address");
  return done();
}

/// Without open(): what it works with is not there while it is checked.
Outcome<void> try_out(plugin::Sink& sink) {
  const plugin::Verdict verdict = sink.deliver({}, after(Clock::now(), milliseconds{100}));
  if (verdict.fate != plugin::Fate::done) return refused("deliver() of no events at all is not done");
  return done();
}

Outcome<void> try_out(plugin::GearPolicy& policy) {
  const std::array<plugin::GearView, 2> gears = {plugin::GearView{1, {2, 1, 1, 1}, true, true},
                                                 plugin::GearView{2, {1, 2, 1, 1}, true, true}};
  plugin::PoolView pool;
  pool.name = "probe";
  pool.model = {.layers = 2, .width = 64, .heads = 8, .kv_heads = 4, .head_width = 8, .parameters = 260'000};
  pool.fast = pool.slow = {.requests_per_s = 1, .prompt_tokens = 10, .output_tokens = 10};
  std::array<plugin::GroupView, 2> groups;
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    groups[i].id = plugin::GroupId{7 * i};
    groups[i].node = i;
    groups[i].card = *gears::card_named("rtx3090");
    groups[i].gear = static_cast<std::uint8_t>(i + 1);
    groups[i].gears = gears;
    groups[i].since_shift = milliseconds{3'600'000};
    groups[i].memory_pressure = 0.5;
    groups[i].waiting = 200 * i;
  }
  for (std::size_t count = 0; count <= groups.size(); ++count) {
    const plugin::ClusterView cluster{std::span(&pool, 1), std::span(groups).first(count)};
    const auto proposed = policy.propose(cluster, Clock::now());
    if (!proposed) return refused("propose() failed: " + proposed.error().detail);
  }
  return done();
}

/// Nothing that it works with is there while it is checked: with no time left it must not even look for it.
Outcome<void> try_out(plugin::Coordination& coordination) {
  const auto looked = coordination.look("probe", Clock::now() - milliseconds{1});
  if (looked || looked.error().code != Errc::timeout) return refused("look() after its deadline is no timeout");
  return done();
}

template <plugin::Kind kind>
Outcome<void> probe_kind(const std::shared_ptr<Library>& library, const plugin::Options& options) {
  BOOST_OUTCOME_TRY(auto made, library->make<kind>(options));
  const auto object = guarded(library, std::move(made));
  BOOST_OUTCOME_TRY(try_out(*object));
  if (library->health().faults() != 0) return refused("threw in a call that must not fail");
  return done();
}

}  // namespace

Outcome<void> probe(const std::shared_ptr<Library>& library) {
  BOOST_OUTCOME_TRY(const OptionValues options, OptionValues::make(library->info().options, {}));
  switch (library->kind()) {
    case plugin::Kind::transport:
      return probe_kind<plugin::Kind::transport>(library, options);
    case plugin::Kind::balancer:
      return probe_kind<plugin::Kind::balancer>(library, options);
    case plugin::Kind::codec:
      return probe_kind<plugin::Kind::codec>(library, options);
    case plugin::Kind::sink:
      return probe_kind<plugin::Kind::sink>(library, options);
    case plugin::Kind::gear:
      return probe_kind<plugin::Kind::gear>(library, options);
    case plugin::Kind::coordination:
      return probe_kind<plugin::Kind::coordination>(library, options);
    default:
      return refused("is of a kind that is unknown here");
  }
}

}  // namespace gearbox::plugin_host
