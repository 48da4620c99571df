#include "core/plugin_host/gate_player.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "plugin_host/private_copy.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int record(const fs::path& out, const fs::path& state) {
  if (!fs::exists(state / "recorded")) {
    std::fprintf(stderr, "broker: no node runs here\n");
    return 1;
  }
  std::ofstream file(out);
  file << "# gearbox-trace 1\nat_us,model\n";
  for (const char c : text_of(state / "recorded")) file << "0," << c << '\n';
  return 0;
}

/// The plugins that lie in a side's folder.
std::string parts_of(const fs::path& folder, const char* side) {
  std::string text;
  for (const auto& entry : fs::directory_iterator(folder / "plugins")) {
    const std::string stem = entry.path().stem().string();
    const std::size_t at = stem.find('_');
    const fs::path copies = fs::temp_directory_path() / "played";
    if (!open_copies_folder(copies)) return {};
    const auto copy = PrivateCopy::make(entry.path(), copies);
    if (!copy) return {};
    text += std::string(text.empty() ? "" : ",") + "{\"side\":\"" + side + "\",\"kind\":\"" + stem.substr(0, at) +
            "\",\"name\":\"" + stem.substr(at + 1) + "\",\"checksum\":\"" + copy.value().checksum() + "\"}";
  }
  return text;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int gate(const std::string& what, const fs::path& candidate, const fs::path& against) {
  if (what == "no_setting") {
    say(R"({"error":"cluster.toml:3: no nodes","side":"setting"})");
    return 1;
  }
  say(R"({"replays":"candidate"})");
  if (what == "crashes") ::raise(SIGSEGV);
  if (what == "hangs") ::pause();
  if (what == "nonsense") {
    say("{]");
    return 0;
  }
  if (what == "fails") {
    say(R"({"error":"it picked nobody","side":"candidate"})");
    return 1;
  }
  std::string parts = parts_of(candidate, "candidate") + "," + parts_of(against, "against");
  if (what == "other_bytes") parts = parts_of(against, "candidate") + "," + parts_of(against, "against");
  say(std::string(R"({"passes":)") + (what == "worse" ? "false" : "true") +
      R"(,"requests":9,"tolerance_percent":5,"figures":[{"figure":"p99_s","against":0.2,"candidate":3.4,"worse":)" +
      (what == "worse" ? "true" : "false") + R"(}],"parts":[)" + parts + "]}");
  return 0;
}

}  // namespace

int play_replay(int count, char** arguments) {
  fs::path out, state, cluster, candidate, against;
  for (int i = 2; i + 1 < count; ++i) {
    const std::string_view word = arguments[i];
    if (word == "--out") out = arguments[i + 1];
    if (word == "--state") state = arguments[i + 1];
    if (word == "--cluster") cluster = arguments[i + 1];
    if (word == "--candidate") candidate = arguments[i + 1];
    if (word == "--against") against = arguments[i + 1];
  }
  const std::string_view command = count > 1 ? arguments[1] : "";
  if (command == "record") return record(out, state);
  if (command == "gate") return gate(text_of(cluster), candidate, against);
  return 2;
}

}  // namespace gearbox::plugin_host
