#include "replay/workload.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "gearbox/base/text.hpp"
#include "replay/chance.hpp"

namespace gearbox::replay {

namespace {

/// Streams of chance, one for each thing that is drawn.
enum Stream : std::uint64_t { kTimes = 1, kKept, kKind, kPrompt, kOutput, kDealt, kBursts, kCopies };

constexpr Nanos kMinute = 60 * kSecond;

class TraceSource final : public Source {
 public:
  TraceSource(std::vector<Arrival> arrivals, double speed) : arrivals_(std::move(arrivals)), speed_(speed) {}
  Nanos next_at(Nanos now) override { return at_ < arrivals_.size() ? std::max(now, time_of(at_)) : kNever; }
  Arrival take() override {
    Arrival arrival = arrivals_[at_];
    arrival.at = time_of(at_++);
    return arrival;
  }
  double span_s() const override { return arrivals_.empty() ? 0 : in_seconds(time_of(arrivals_.size() - 1)); }

 private:
  Nanos time_of(std::size_t index) const {
    return static_cast<Nanos>(static_cast<double>(arrivals_[index].at) / speed_);
  }
  std::vector<Arrival> arrivals_;
  double speed_;
  std::size_t at_ = 0;
};

/// A kind of request of a mix; lengths spread evenly by a quarter to both sides.
struct Kind {
  double share;
  double prompt, output;
};
constexpr Kind kShort{0.6, 256, 64};
constexpr Kind kMedium{0.3, 1024, 256};
constexpr Kind kLong{0.1, 4096, 512};
constexpr Kind kDocument{1, 8192, 256};
constexpr double kSpread = 0.25;

class Mix {
 public:
  explicit Mix(std::uint64_t seed) : kind_(seed, kKind), prompt_(seed, kPrompt), output_(seed, kOutput) {}

  /// `documents`: share of long documents among the requests.
  Arrival make(Nanos at, double documents) {
    const std::uint64_t number = number_++;
    const double drawn = kind_.uniform(number);
    Kind kind = kDocument;
    if (drawn >= documents) {
      const double rest = (drawn - documents) / (1 - documents);
      kind = rest < kShort.share ? kShort : rest < kShort.share + kMedium.share ? kMedium : kLong;
    }
    Arrival arrival;
    arrival.at = at;
    arrival.input_tokens = spread(kind.prompt, prompt_.uniform(number));
    arrival.output_tokens = spread(kind.output, output_.uniform(number));
    arrival.bytes = 4 * arrival.input_tokens;
    return arrival;
  }

 private:
  static std::uint32_t spread(double mean, double drawn) {
    return static_cast<std::uint32_t>(mean * (1 - kSpread + 2 * kSpread * drawn) + 0.5);
  }
  Chance kind_, prompt_, output_;
  std::uint64_t number_ = 0;
};

/// From `low` at the beginning and end of a period to 1 in its middle.
double swing(double seconds, double period, double low) {
  return low + (1 - low) * (0.5 - 0.5 * std::cos(6.283185307179586 * seconds / period));
}

/// Poisson arrivals of a rate that changes, by thinning.
class OpenSource final : public Source {
 public:
  OpenSource(const Workload& workload, std::uint64_t seed)
      : workload_(workload), times_(seed, kTimes), kept_(seed, kKept), bursts_(seed, kBursts), mix_(seed) {
    advance();
  }
  Nanos next_at(Nanos now) override { return next_ == kNever ? kNever : std::max(now, next_); }
  Arrival take() override {
    const double seconds = in_seconds(next_);
    Arrival arrival = mix_.make(next_, documents_at(seconds));
    if (workload_.kind == "cameras") arrival = picture(next_);
    advance();
    return arrival;
  }
  double span_s() const override { return workload_.duration_s; }

 private:
  static constexpr double kBurstEach = 180;  // seconds
  static constexpr double kBurstLasts = 30;

  void advance() {
    for (;;) {
      at_s_ += times_.exponential(drawn_) / workload_.rate;
      const std::uint64_t number = drawn_++;
      if (at_s_ >= workload_.duration_s) {
        next_ = kNever;
        return;
      }
      if (kept_.uniform(number) < share_at(at_s_)) break;
    }
    next_ = from_seconds(at_s_);
  }
  bool in_burst(double seconds) const {
    const double from = std::floor(seconds / kBurstEach) * kBurstEach;
    const double begin = from + (kBurstEach - kBurstLasts) * bursts_.uniform(static_cast<std::uint64_t>(from));
    return seconds >= begin && seconds < begin + kBurstLasts;
  }
  bool in_night(double seconds) const {
    return seconds > 0.6 * workload_.duration_s && seconds < 0.85 * workload_.duration_s;
  }

  /// Of the peak rate.
  double share_at(double seconds) const {
    if (workload_.kind == "day" || workload_.kind == "cameras") {
      return swing(seconds, workload_.period_s > 0 ? workload_.period_s : workload_.duration_s, workload_.low);
    }
    if (workload_.kind == "bursts") return in_night(seconds) ? 0.12 : in_burst(seconds) ? 1 : 0.35;
    if (workload_.kind == "night") return in_night(seconds) ? 0.12 : 0.35;
    return 1;
  }
  double documents_at(double seconds) const {
    const bool night = workload_.kind == "bursts" || workload_.kind == "night";
    return night && in_night(seconds) ? 0.8 : 0;
  }
  static Arrival picture(Nanos at) {
    Arrival arrival;
    arrival.at = at;
    arrival.bytes = 300'000;
    return arrival;
  }

  Workload workload_;
  Chance times_, kept_, bursts_;
  Mix mix_;
  std::uint64_t drawn_ = 0;
  double at_s_ = 0;
  Nanos next_ = kNever;
};

/// As many requests under way as the swing tells for the moment: who has an answer asks again.
class ClosedSource final : public Source {
 public:
  ClosedSource(const Workload& workload, std::uint64_t seed) : workload_(workload), mix_(seed) {}
  Nanos next_at(Nanos now) override {
    double seconds = in_seconds(now);
    while (seconds < workload_.duration_s && users_at(seconds) <= open_) seconds += 1;
    next_ = seconds < workload_.duration_s ? std::max(now, from_seconds(seconds)) : kNever;
    return next_;
  }
  Arrival take() override {
    ++open_;
    return mix_.make(next_, 0);
  }
  void ended(Nanos) override { open_ -= open_ > 0 ? 1 : 0; }
  double span_s() const override { return workload_.duration_s; }

 private:
  std::uint64_t users_at(double seconds) const {
    const double period = workload_.period_s > 0 ? workload_.period_s : workload_.duration_s;
    return static_cast<std::uint64_t>(workload_.concurrent * swing(seconds, period, workload_.low) + 0.5);
  }
  Workload workload_;
  Mix mix_;
  std::uint64_t open_ = 0;
  Nanos next_ = kNever;
};

/// Each once more and again, a little later.
void copy(std::vector<Arrival>& arrivals, std::uint32_t copies, std::uint64_t seed) {
  constexpr double kBehind = 5;  // seconds
  const Chance chance(seed, kCopies);
  const std::size_t once = arrivals.size();
  arrivals.reserve(once * copies);
  for (std::uint32_t copy = 1; copy < copies; ++copy) {
    for (std::size_t i = 0; i < once; ++i) {
      Arrival other = arrivals[i];
      other.at += from_seconds(kBehind * chance.uniform(copy * once + i));
      arrivals.push_back(other);
    }
  }
  std::stable_sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
}

/// Within each minute, who asks for what is drawn anew.
void deal(std::vector<Arrival>& arrivals, std::uint64_t seed) {
  const Chance chance(seed, kDealt);
  for (std::size_t from = 0; from < arrivals.size();) {
    std::size_t until = from;
    while (until < arrivals.size() && arrivals[until].at / kMinute == arrivals[from].at / kMinute) ++until;
    for (std::size_t left = until - from; left > 1; --left) {
      const std::size_t i = from + left - 1;
      const std::size_t other = from + chance.index(i, left);
      const Nanos one = arrivals[i].at;
      const Nanos two = arrivals[other].at;
      std::swap(arrivals[i], arrivals[other]);
      arrivals[i].at = one;
      arrivals[other].at = two;
    }
    from = until;
  }
}

}  // namespace

std::unique_ptr<Source> source_of(const Trace& trace, double speed, std::uint64_t seed, std::uint32_t copies) {
  std::vector<Arrival> arrivals = trace.arrivals;
  if (copies > 1) copy(arrivals, copies, seed);
  if (seed != 0 || copies > 1) deal(arrivals, seed);
  return std::make_unique<TraceSource>(std::move(arrivals), speed);
}

std::unique_ptr<Source> backlog_of(const std::vector<Arrival>& arrivals) {
  std::vector<Arrival> all = arrivals;
  for (Arrival& arrival : all) arrival.at = 0;
  return std::make_unique<TraceSource>(std::move(all), 1);
}

Outcome<Workload> read_workload(const std::string& text) {
  const std::vector<std::string> kinds = {"reference", "steady", "day", "bursts", "night", "cameras"};
  Workload made;
  std::string_view rest = text;
  if (rest.substr(0, 5) == "make:") rest.remove_prefix(5);
  std::size_t comma = rest.find(',');
  made.kind = std::string(rest.substr(0, comma));
  if (std::find(kinds.begin(), kinds.end(), made.kind) == kinds.end()) {
    const std::string_view near = nearest(made.kind, kinds);
    return Error{Errc::bad_input, "there is no workload '" + escaped(made.kind, 40) + "'" +
                                      (near.empty() ? std::string() : ", did you mean '" + std::string(near) + "'") +
                                      " (reference, steady, day, bursts, night, cameras)"};
  }
  const std::vector<std::pair<std::string_view, double*>> keys = {
      {"rate", &made.rate},           {"load", &made.load},       {"concurrent", &made.concurrent},
      {"duration", &made.duration_s}, {"period", &made.period_s}, {"low", &made.low}};
  while (comma != std::string_view::npos) {
    rest.remove_prefix(comma + 1);
    comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t equal = pair.find('=');
    const std::string_view key = pair.substr(0, equal);
    const auto known = std::find_if(keys.begin(), keys.end(), [&](const auto& each) { return each.first == key; });
    double value = 0;
    const std::string_view number = equal == std::string_view::npos ? std::string_view() : pair.substr(equal + 1);
    const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool good = failed == std::errc() && end == number.data() + number.size() && value >= 0 && value < 1e9;
    if (known == keys.end() || !good) {
      return Error{Errc::bad_input, "'" + escaped(pair, 60) +
                                        "': a workload has rate, load, concurrent, duration, period and low, each a "
                                        "number of 0 or more"};
    }
    *known->second = value;
  }
  if (made.low > 1) return Error{Errc::bad_input, "low is a share of the peak, 0 to 1"};
  if (made.duration_s <= 0) return Error{Errc::bad_input, "duration is above 0 s"};
  if (made.kind == "reference" && made.concurrent < 1) return Error{Errc::bad_input, "concurrent is 1 or more"};
  if (made.kind != "reference" && (made.rate > 0) == (made.load > 0))
    return Error{Errc::bad_input, "a workload of kind " + made.kind + " has a rate or a load, one of them, above 0"};
  return made;
}

std::unique_ptr<Source> source_of(const Workload& workload, std::uint64_t seed) {
  if (workload.kind == "reference") return std::make_unique<ClosedSource>(workload, seed);
  return std::make_unique<OpenSource>(workload, seed);
}

}  // namespace gearbox::replay
