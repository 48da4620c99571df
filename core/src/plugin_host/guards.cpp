#include "plugin_host/guards.hpp"

#include <algorithm>

#include "plugin_host/guarded_call.hpp"

namespace gearbox::plugin_host {

namespace {

class GuardedBalancer final : public plugin::Balancer {
 public:
  GuardedBalancer(std::shared_ptr<Library> library, std::unique_ptr<plugin::Balancer> inner)
      : held_(std::move(library), std::move(inner)) {}

  Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                    std::span<const plugin::CandidateView> candidates, Instant now) override {
    Call call(*held_.library, "pick");
    auto picked = without_throw(call, Errc::plugin_fault, [&] { return held_.object->pick(request, candidates, now); });
    call.ended(held_.budget());
    if (!picked) return picked;
    const bool offered = std::any_of(candidates.begin(), candidates.end(), [&](const plugin::CandidateView& candidate) {
      return candidate.id == picked.value();
    });
    if (offered) return picked;
    return call.fault(Errc::plugin_fault, "picked " + std::to_string(static_cast<std::uint32_t>(picked.value())) +
                                              ", which is no candidate");
  }

 private:
  Held<plugin::Balancer> held_;
};

class GuardedCodec final : public plugin::Codec {
 public:
  GuardedCodec(std::shared_ptr<Library> library, std::unique_ptr<plugin::Codec> inner)
      : held_(std::move(library), std::move(inner)) {}

  bool lossless() const override {
    return or_else(*held_.library, "lossless", false, [&] { return held_.object->lossless(); });
  }
  bool takes_any_bytes() const override {
    return or_else(*held_.library, "takes_any_bytes", false, [&] { return held_.object->takes_any_bytes(); });
  }
  bool accepts(const plugin::TileView& tile) const override {
    return or_else(*held_.library, "accepts", false, [&] { return held_.object->accepts(tile); });
  }
  std::size_t bound(std::size_t in_bytes) const override {
    return or_else(*held_.library, "bound", in_bytes, [&] { return held_.object->bound(in_bytes); });
  }

  Outcome<std::size_t> encode(const plugin::TileView& tile, ByteView in, ByteSpan out) override {
    Call call(*held_.library, "encode");
    return inside(call, out, Errc::plugin_fault,
                  without_throw(call, Errc::plugin_fault, [&] { return held_.object->encode(tile, in, out); }));
  }
  Outcome<std::size_t> decode(const plugin::TileView& tile, ByteView in, ByteSpan out) override {
    Call call(*held_.library, "decode");
    return inside(call, out, Errc::corrupt_data,
                  without_throw(call, Errc::corrupt_data, [&] { return held_.object->decode(tile, in, out); }));
  }

 private:
  Outcome<std::size_t> inside(Call& call, ByteSpan out, Errc code, Outcome<std::size_t> used) const {
    call.ended(held_.budget());
    if (!used || used.value() <= out.size()) return used;
    return call.fault(code,
                      "says it wrote " + std::to_string(used.value()) + " bytes into " + std::to_string(out.size()));
  }

  Held<plugin::Codec> held_;
};

class GuardedTransport final : public plugin::Transport {
 public:
  GuardedTransport(std::shared_ptr<Library> library, std::unique_ptr<plugin::Transport> inner)
      : held_(std::move(library), std::move(inner)),
        scheme_(or_else(*held_.library, "scheme", std::string(), [&] { return std::string(held_.object->scheme()); })) {
  }

  std::string_view scheme() const override { return scheme_; }
  Outcome<plugin::Listening> listen(std::string_view url) override {
    Call call(*held_.library, "listen");
    auto listening = without_throw(call, Errc::plugin_fault, [&] { return held_.object->listen(url); });
    call.ended(kNoBudget);
    if (listening && listening.value().descriptor < 0)
      return call.fault(Errc::plugin_fault, "listens on no descriptor");
    return listening;
  }
  Outcome<plugin::Connection> accept(int listening) override {
    Call call(*held_.library, "accept");
    return connected(call, held_.budget(),
                     without_throw(call, Errc::plugin_fault, [&] { return held_.object->accept(listening); }));
  }
  Outcome<plugin::Connection> connect(std::string_view url, Instant deadline) override {
    // May block until its deadline, and the kernel may take a moment more.
    const Instant begun = Clock::now();
    const Clock::duration hang = held_.library->rules().hang.load(std::memory_order_relaxed);
    const Instant until = std::max(begun, deadline);
    Call call(*held_.library, "connect", begun, until > Instant::max() - hang ? Instant::max() : until + hang);
    return connected(call, kNoBudget,
                     without_throw(call, Errc::plugin_fault, [&] { return held_.object->connect(url, deadline); }));
  }

 private:
  Outcome<plugin::Connection> connected(Call& call, Clock::duration budget,
                                        Outcome<plugin::Connection> connection) const {
    call.ended(budget);
    if (connection && connection.value().descriptor < 0)
      return call.fault(Errc::plugin_fault, "connected no descriptor");
    return connection;
  }

  Held<plugin::Transport> held_;
  std::string scheme_;
};

class GuardedSink final : public plugin::Sink {
 public:
  GuardedSink(std::shared_ptr<Library> library, std::unique_ptr<plugin::Sink> inner)
      : held_(std::move(library), std::move(inner)) {}

  // Blocking is what these are for, on a thread that only this sink has: neither a budget nor a hang ends the node.
  Outcome<void> open(const plugin::SinkPlace& place) override {
    Call call(*held_.library, "open", Clock::now(), Instant::max());
    auto opened = without_throw(call, Errc::plugin_fault, [&] { return held_.object->open(place); });
    call.ended(kNoBudget);
    return opened;
  }
  plugin::Verdict deliver(std::span<const plugin::EventView> events, Instant deadline) override {
    Call call(*held_.library, "deliver", Clock::now(), Instant::max());
    const auto verdict = without_throw(call, Errc::plugin_fault, [&]() -> Outcome<plugin::Verdict> {
      return held_.object->deliver(events, deadline);
    });
    call.ended(kNoBudget);
    if (!verdict) return later(verdict.error());
    switch (verdict.value().fate) {
      case plugin::Fate::done:
      case plugin::Fate::later:
      case plugin::Fate::never:
        return verdict.value();
    }
    return later(call.fault(Errc::plugin_fault, "gave the unknown fate " +
                                                    std::to_string(static_cast<std::uint32_t>(verdict.value().fate))));
  }

 private:
  static plugin::Verdict later(const Error& error) { return {plugin::Fate::later, error.detail, milliseconds{0}}; }

  Held<plugin::Sink> held_;
};

}  // namespace

std::shared_ptr<plugin::Sink> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Sink> inner) {
  return std::make_shared<GuardedSink>(std::move(library), std::move(inner));
}
std::shared_ptr<plugin::Balancer> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Balancer> inner) {
  return std::make_shared<GuardedBalancer>(std::move(library), std::move(inner));
}
std::shared_ptr<plugin::Codec> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Codec> inner) {
  return std::make_shared<GuardedCodec>(std::move(library), std::move(inner));
}
std::shared_ptr<plugin::Transport> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Transport> inner) {
  return std::make_shared<GuardedTransport>(std::move(library), std::move(inner));
}

}  // namespace gearbox::plugin_host
