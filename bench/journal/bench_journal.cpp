// bench_journal: how long a request takes to become durable, beside the bare limit: one write of the same bytes over a
// file's old content and one fdatasync. One request at a time, arms interleaved; then what group commit reaches with
// many waiting.
//
//   bench_journal --folder DIR [--seconds S] [--json FILE]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "journal/journal.hpp"

namespace {

using namespace gearbox;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_journal: %s\n", what.c_str());
  std::exit(1);
}

double us_since(Instant begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

RequestKey key_of(std::uint64_t number) {
  RequestKey key;
  std::memcpy(key.id.bytes.data(), &number, sizeof number);
  return key;
}

class BareFile {
 public:
  BareFile(const std::filesystem::path& file, std::size_t bytes)
      : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), bytes_(bytes, std::byte{42}) {
    write();
  }
  BareFile(const BareFile&) = delete;
  BareFile& operator=(const BareFile&) = delete;
  ~BareFile() { ::close(descriptor_); }
  void write() {
    bytes_[0] ^= std::byte{1};
    if (::pwrite(descriptor_, bytes_.data(), bytes_.size(), 0) != static_cast<ssize_t>(bytes_.size()) ||
        ::fdatasync(descriptor_) != 0) {
      fail(std::strerror(errno));
    }
  }

 private:
  int descriptor_;
  Bytes bytes_;
};

class Bench {
 public:
  Bench(const std::filesystem::path& folder, double seconds) : folder_(folder), seconds_(seconds) {
    journal::Journal::Setup setup;
    setup.folder = folder / "journal";
    auto opened = journal::Journal::open(setup);
    if (!opened) fail(describe(opened.error()));
    journal_ = std::move(opened).value();
  }

  /// Microseconds until `bytes` are durable, in the median: bare, and through the journal.
  std::pair<double, double> at_low_load(std::size_t size) {
    const Bytes bytes(size, std::byte{7});
    BareFile bare(folder_ / "bare", size);
    std::vector<double> bare_us;
    std::vector<double> ours_us;
    accept(bytes);  // the payload's file is there from now on
    const Instant begin = Clock::now();
    while (us_since(begin) < seconds_ * 1e6) {
      Instant at = Clock::now();
      bare.write();
      bare_us.push_back(us_since(at));
      ours_us.push_back(accept(bytes));
    }
    return {median(bare_us), median(ours_us)};
  }

  /// Requests made durable in a second while `waiting` of them wait at any time.
  double together(std::size_t size, std::uint32_t waiting) {
    const Bytes bytes(size, std::byte{7});
    std::atomic<std::uint64_t> durable{0};
    std::atomic<std::uint32_t> open{0};
    const Instant begin = Clock::now();
    std::promise<void> last;
    const Instant until = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
    // Each that is durable is forgotten and brings the next, on the journal's own thread.
    std::function<void()> next = [&] {
      const std::uint64_t number = ++number_;
      journal_->accept({key_of(number), "head", {ByteView(bytes)}}, [&, number](const Outcome<void>& outcome) {
        if (!outcome) fail(describe(outcome.error()));
        ++durable;
        journal_->forget(key_of(number));
        if (Clock::now() < until) return next();
        if (--open == 0) last.set_value();
      });
    };
    open = waiting;
    for (std::uint32_t i = 0; i < waiting; ++i) next();
    last.get_future().get();
    return static_cast<double>(durable) / (us_since(begin) / 1e6);
  }

 private:
  /// Microseconds until it was durable.
  double accept(const Bytes& bytes) {
    std::promise<Outcome<void>> told;
    const Instant begin = Clock::now();
    const RequestKey key = key_of(++number_);
    journal_->accept({key, "head", {ByteView(bytes)}},
                     [&](Outcome<void> outcome) { told.set_value(std::move(outcome)); });
    const Outcome<void> outcome = told.get_future().get();
    const double took = us_since(begin);
    if (!outcome) fail(describe(outcome.error()));
    journal_->forget(key);
    // Outside the time that is measured: the next one must not share a commit with this forgetting.
    std::promise<void> gone;
    journal_->settle({key_of(0), true, "", {}}, [&](const Outcome<bool>&) { gone.set_value(); });
    gone.get_future().get();
    return took;
  }

  std::filesystem::path folder_;
  double seconds_;
  std::unique_ptr<journal::Journal> journal_;
  std::uint64_t number_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  if (!options.contains("--folder") || argc % 2 == 0) {
    std::fprintf(stderr, "usage: bench_journal --folder DIR [--seconds S] [--json FILE]\n");
    return 2;
  }
  const double seconds = options.contains("--seconds") ? std::atof(options["--seconds"].c_str()) : 5;
  const std::filesystem::path folder = std::filesystem::path(options["--folder"]) / "bench-journal";
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::filesystem::create_directories(folder);
  std::map<std::string, double> facts;
  {
    Bench bench(folder, seconds);
    std::printf("%10s  %14s  %14s  %6s\n", "bytes", "fdatasync, us", "durable, us", "ratio");
    for (const std::size_t size :
         {std::size_t{1000}, std::size_t{64 * 1024}, std::size_t{1'000'000}, std::size_t{3'000'000}}) {
      const auto [bare, ours] = bench.at_low_load(size);
      std::printf("%10zu  %14.0f  %14.0f  %6.2f\n", size, bare, ours, ours / bare);
      const std::string name = "journal." + std::to_string(size) + "b_";
      facts[name + "fdatasync_us"] = bare;
      facts[name + "durable_us"] = ours;
      if (size == 1000) facts["journal.commit_over_fdatasync"] = ours / bare;
      if (size == 3'000'000) facts["journal.large_over_fdatasync"] = ours / bare;
    }
    for (const std::uint32_t waiting : {1U, 16U, 64U}) {
      const double rate = bench.together(1000, waiting);
      std::printf("%u waiting: %.0f requests of 1,000 bytes in a second\n", waiting, rate);
      facts["journal.durable_per_s_" + std::to_string(waiting)] = rate;
    }
  }
  std::filesystem::remove_all(folder, ignored);
  if (options.contains("--json")) {
    std::ofstream file(options["--json"]);
    const char* between = "{\n";
    for (const auto& [name, value] : facts) {
      file << between << "  \"" << name << "\": " << value;
      between = ",\n";
    }
    file << "\n}\n";
    if (!file.flush()) fail("cannot write " + options["--json"]);
  }
  return 0;
}
