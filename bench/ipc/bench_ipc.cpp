// bench_ipc: one request and its answer between node and worker, one in flight, beside the bare limits; interleaved
// rounds.
//
//   bench_ipc [--json FILE] [--rounds N] [--idle-seconds N] [--only ROW]
//             [--worker-argv-json '["/path/worker_shim"]' --model DIR --python PATH]
//
// With --worker-argv-json the rows py_* run the same path to that command (worker_shim with bench/models/echo).
// JSON: flat, name → number: ratios as ipc.NAME, medians of the p50s as ipc.NAME_us.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include "bare.hpp"
#include "ours.hpp"

namespace gearbox::bench {
namespace {

constexpr std::size_t kLarge = 3 << 20;

double median(Samples values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  std::string name;
  std::function<Samples()> measure;
  Samples p50s = {};
};

struct Target {
  const char* name;
  const char* above;
  const char* below;
  double at_most;
};
constexpr Target kTargets[] = {
    {"cpp_64b_over_ring", "cpp_64b_us", "ring_spin_us", 3.0},
    {"ring_3mb_in_memcpys", "ring_3mb_us", "memcpy_3mb_us", 0},
    {"cpp_3mb_in_memcpys", "cpp_3mb_us", "memcpy_3mb_us", 0},
    {"py_3mb_over_ring", "py_3mb_us", "ring_3mb_us", 0},
    {"py_64b_over_ring", "py_64b_us", "ring_spin_us", 5.0},
    {"py_3mb_in_memcpys", "py_3mb_us", "memcpy_3mb_us", 1.8},
    {"one_core_over_futex_ring", "one_core_us", "futex_ring_one_core_us", 1.5},
    {"asleep_over_uds", "asleep_us", "uds_asleep_us", 1.1},
};

int run(const std::map<std::string, std::string>& options) {
  const int rounds = std::atoi(options.at("--rounds").c_str());
  const auto echo = [&](std::vector<std::string> more, int node_cpu, std::uint32_t workers) {
    Ours::Form form;
    form.command = {ECHO_WORKER};
    form.more = std::move(more);
    form.model = "/";
    form.workers = workers;
    form.node_cpu = node_cpu;
    return std::make_unique<Ours>(std::move(form));
  };
  const auto two = echo({"--pin", "1"}, 0, 1);
  const auto reader = echo({"--pin", "1", "--do", "small"}, 0, 1);
  const auto one = echo({"--pin", "0"}, 0, 1);
  std::unique_ptr<Ours> python;
  if (options.contains("--worker-argv-json")) {
    boost::json::error_code failed;
    const auto words = boost::json::parse(options.at("--worker-argv-json"), failed);
    if (failed || !words.is_array() || words.get_array().empty()) return 2;
    Ours::Form form;
    for (const auto& word : words.get_array())
      form.command.emplace_back(word.is_string() ? word.get_string().c_str() : "");
    form.model = options.at("--model");
    form.python = options.at("--python");
    python = std::make_unique<Ours>(std::move(form));
  }
  std::vector<Row> rows = {
      {"memcpy_3mb_us", [] { return memcpy_of(kLarge, 60); }},
      {"ring_spin_us", [] { return ring_spin(20000); }},
      {"ring_3mb_us", [] { return ring_spin_large(kLarge, 200); }},
      {"cpp_64b_us", [&] { return two->calls(20000, 64); }},
      {"cpp_3mb_us", [&] { return reader->calls(200, kLarge); }},
      {"futex_ring_one_core_us", [] { return ring_futex_one_core(20000); }},
      {"one_core_us", [&] { return one->calls(20000, 64); }},
      {"uds_us", [] { return uds_ping(5000, 0); }},
      {"uds_asleep_us", [] { return uds_ping(300, 1000); }},
      {"asleep_us", [&] { return two->calls(300, 64, 1000); }},
  };
  if (python) {
    rows.push_back({"py_64b_us", [&] { return python->calls(20000, 64); }});
    rows.push_back({"py_3mb_us", [&] { return python->calls(200, kLarge); }});
  }
  if (options.contains("--only")) std::erase_if(rows, [&](const Row& row) { return row.name != options.at("--only"); });
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) {
      Samples samples = row.measure();
      samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 10));  // warm-up
      row.p50s.push_back(median(std::move(samples)));
    }
  }
  std::map<std::string, double> out;
  std::printf("%-28s %10s %10s %10s\n", "p50, µs", "median", "least", "most");
  for (const Row& row : rows) {
    const auto [least, most] = std::minmax_element(row.p50s.begin(), row.p50s.end());
    out[row.name] = median(row.p50s);
    std::printf("%-28s %10.2f %10.2f %10.2f\n", row.name.c_str(), out[row.name], *least, *most);
  }
  const int idle_seconds = std::atoi(options.at("--idle-seconds").c_str());
  if (idle_seconds > 0) {
    out["idle_cpu_percent"] = echo({}, -1, 8)->idle_percent(std::chrono::seconds(idle_seconds));
    std::printf("%-28s %10.3f (at most 1)\n", "idle_cpu_percent", out["idle_cpu_percent"]);
  }
  std::printf("\n%-28s %10s %10s\n", "ratio", "", "at most");
  for (const Target& target : kTargets) {
    if (!out.contains(target.above) || !out.contains(target.below)) continue;
    // Of each round's own figures: what drifts between rounds drifts in both.
    const auto of = [&](const char* name) {
      return std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; })->p50s;
    };
    Samples ratios = of(target.above);
    const Samples below = of(target.below);
    for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= below[i];
    out[target.name] = median(ratios);
    std::printf("%-28s %10.2f ", target.name, out[target.name]);
    if (target.at_most > 0)
      std::printf("%10.1f %s", target.at_most, out[target.name] <= target.at_most ? "" : "missed");
    std::printf("\n");
  }
  if (options.contains("--json")) {
    std::ofstream file(options.at("--json"));
    const char* comma = "{";
    for (const auto& [name, value] : out) {
      file << comma << "\n  \"ipc." << name << "\": " << value;
      comma = ",";
    }
    file << "\n}\n";
    file.close();
    if (!file) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace gearbox::bench

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--rounds", "3"}, {"--idle-seconds", "5"}, {"--model", "/"}, {"--python", ""}};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc || std::string_view(argv[i]).substr(0, 2) != "--") {
      std::fprintf(stderr,
                   "usage: bench_ipc [--json FILE] [--rounds N] [--idle-seconds N] [--only ROW] [--worker-argv-json "
                   "JSON --model DIR --python PATH]\n");
      return 2;
    }
    options[argv[i]] = argv[i + 1];
  }
  return gearbox::bench::run(options);
}
