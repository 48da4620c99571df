// A balancer that fills the first candidate up before it bothers the next: the others may sleep, or serve something
// else.
#include "gearbox/plugin/balancer.hpp"

namespace {

namespace plugin = gearbox::plugin;

class FillFirst final : public plugin::Balancer {
 public:
  explicit FillFirst(std::uint32_t fill) : fill_(fill) {}

  gearbox::Outcome<plugin::CandidateId> pick(const plugin::RequestView&,
                                             std::span<const plugin::CandidateView> candidates,
                                             gearbox::Instant) override {
    const plugin::CandidateView* emptiest = &candidates.front();  // never empty, says the contract
    for (const plugin::CandidateView& candidate : candidates) {
      if (candidate.queued + candidate.running < fill_) return candidate.id;
      if (candidate.queued + candidate.running < emptiest->queued + emptiest->running) emptiest = &candidate;
    }
    return emptiest->id;
  }

 private:
  std::uint32_t fill_;
};

// The table is the one place where an option is declared: checks, defaults and `broker plugins list` come from it.
constexpr plugin::OptionSpec kOptions[] = {{.key = "fill",
                                            .type = plugin::OptionType::integer,
                                            .fallback = "4",
                                            .unit = "requests",
                                            .help = "requests that a candidate gets before the next one gets any",
                                            .lowest = 1,
                                            .highest = 1000}};

gearbox::Outcome<std::unique_ptr<plugin::Balancer>> make(const plugin::Options& options) {
  BOOST_OUTCOME_TRY(const auto fill, options.integer("fill"));  // checked: between lowest and highest
  return std::make_unique<FillFirst>(static_cast<std::uint32_t>(fill));
}

}  // namespace

GEARBOX_PLUGIN(balancer, "fill_first", "1.0", "fills one candidate before the next", kOptions, make)
