#include "plugin_host/guards.hpp"

#include <algorithm>
#include <exception>

#include "gearbox/base/text.hpp"

namespace gearbox::plugin_host {

namespace {

Error fault(Library& library, Errc code, const std::string& what) {
  library.faults().fetch_add(1, std::memory_order_relaxed);  // a counter for people; nothing is ordered by it
  return Error{code, "plugin " + library.info().name + ": " + what};
}

/// Runs `call`; a throw becomes an error of `code`.
template <class Call>
auto without_throw(Library& library, Errc code, Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return fault(library, code, "threw: " + escaped(thrown.what(), 128));
  } catch (...) {
    return fault(library, code, "threw");
  }
}

/// For calls that cannot fail by contract.
template <class T, class Call>
T or_else(Library& library, T otherwise, Call call) {
  try {
    return call();
  } catch (...) {
    library.faults().fetch_add(1, std::memory_order_relaxed);
    return otherwise;
  }
}

// Members are destroyed in reverse: the plugin's object first, then the library that its code lies in.
class GuardedBalancer final : public plugin::Balancer {
 public:
  GuardedBalancer(std::shared_ptr<Library> library, std::unique_ptr<plugin::Balancer> inner)
      : library_(std::move(library)), inner_(std::move(inner)) {}

  Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                    std::span<const plugin::CandidateView> candidates, Instant now) override {
    auto picked = without_throw(*library_, Errc::plugin_fault, [&] { return inner_->pick(request, candidates, now); });
    if (!picked) return picked;
    const bool offered = std::any_of(candidates.begin(), candidates.end(), [&](const plugin::CandidateView& candidate) {
      return candidate.id == picked.value();
    });
    if (offered) return picked;
    return fault(*library_, Errc::plugin_fault,
                 "picked " + std::to_string(static_cast<std::uint32_t>(picked.value())) + ", which is no candidate");
  }

 private:
  std::shared_ptr<Library> library_;
  std::unique_ptr<plugin::Balancer> inner_;
};

class GuardedCodec final : public plugin::Codec {
 public:
  GuardedCodec(std::shared_ptr<Library> library, std::unique_ptr<plugin::Codec> inner)
      : library_(std::move(library)), inner_(std::move(inner)) {}

  bool lossless() const override {
    return or_else(*library_, false, [&] { return inner_->lossless(); });
  }
  bool takes_any_bytes() const override {
    return or_else(*library_, false, [&] { return inner_->takes_any_bytes(); });
  }
  bool accepts(const plugin::TileView& tile) const override {
    return or_else(*library_, false, [&] { return inner_->accepts(tile); });
  }
  std::size_t bound(std::size_t in_bytes) const override {
    return or_else(*library_, in_bytes, [&] { return inner_->bound(in_bytes); });
  }

  Outcome<std::size_t> encode(const plugin::TileView& tile, ByteView in, ByteSpan out) override {
    return inside(out, Errc::plugin_fault,
                  without_throw(*library_, Errc::plugin_fault, [&] { return inner_->encode(tile, in, out); }));
  }
  Outcome<std::size_t> decode(const plugin::TileView& tile, ByteView in, ByteSpan out) override {
    return inside(out, Errc::corrupt_data,
                  without_throw(*library_, Errc::corrupt_data, [&] { return inner_->decode(tile, in, out); }));
  }

 private:
  Outcome<std::size_t> inside(ByteSpan out, Errc code, Outcome<std::size_t> used) const {
    if (!used || used.value() <= out.size()) return used;
    return fault(*library_, code,
                 "says it wrote " + std::to_string(used.value()) + " bytes into " + std::to_string(out.size()));
  }

  std::shared_ptr<Library> library_;
  std::unique_ptr<plugin::Codec> inner_;
};

class GuardedTransport final : public plugin::Transport {
 public:
  GuardedTransport(std::shared_ptr<Library> library, std::unique_ptr<plugin::Transport> inner)
      : library_(std::move(library)),
        inner_(std::move(inner)),
        scheme_(or_else(*library_, std::string(), [&] { return std::string(inner_->scheme()); })) {}

  std::string_view scheme() const override { return scheme_; }
  Outcome<plugin::Listening> listen(std::string_view url) override {
    auto listening = without_throw(*library_, Errc::plugin_fault, [&] { return inner_->listen(url); });
    if (listening && listening.value().descriptor < 0)
      return fault(*library_, Errc::plugin_fault, "listens on no descriptor");
    return listening;
  }
  Outcome<plugin::Connection> accept(int listening) override {
    return connected(without_throw(*library_, Errc::plugin_fault, [&] { return inner_->accept(listening); }));
  }
  Outcome<plugin::Connection> connect(std::string_view url, Instant deadline) override {
    return connected(without_throw(*library_, Errc::plugin_fault, [&] { return inner_->connect(url, deadline); }));
  }

 private:
  Outcome<plugin::Connection> connected(Outcome<plugin::Connection> connection) const {
    if (connection && connection.value().descriptor < 0)
      return fault(*library_, Errc::plugin_fault, "connected no descriptor");
    return connection;
  }

  std::shared_ptr<Library> library_;
  std::unique_ptr<plugin::Transport> inner_;
  std::string scheme_;
};

}  // namespace

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
