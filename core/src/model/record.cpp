#include "gearbox/model/record.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"
#include "model/digest.hpp"
#include "model/tensor_decl.hpp"

namespace gearbox::model {

namespace {

constexpr std::size_t kMaxModelFileBytes = 16 << 20;  // Python source, not weights
constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::uint32_t kMostPrefetch = 128;
constexpr std::uint32_t kMostStreams = 128;  // of which a worker holds 128, see shm::kMostCalls

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::uint32_t small(const toml::Table& table, std::string_view key, std::uint32_t fallback, std::int64_t lowest,
                    std::int64_t highest) {
  return static_cast<std::uint32_t>(table.integer(key, fallback, lowest, highest));
}

void read_numbers(const toml::Table& root, Record& record) {
  record.max_batch = small(root, "max_batch", record.max_batch, 1, 1024);
  record.max_delay_ms = small(root, "max_delay_ms", record.max_delay_ms, 0, 10'000);
  record.stream = root.boolean("stream", false);
  record.streams = small(root, "streams", record.streams, 1, kMostStreams);
  // The next batch is complete when the present one ends; of streams the next one is there.
  const std::uint32_t next_batch = record.stream          ? record.streams
                                   : record.max_batch > 1 ? std::min(record.max_batch, kMostPrefetch)
                                                          : record.prefetch;
  record.prefetch = small(root, "prefetch", next_batch, 1, kMostPrefetch);
  record.threads = small(root, "threads", record.threads, 1, 1024);
  record.memory_mb = static_cast<std::uint64_t>(root.integer("memory_mb", 0, 0, 16'777'216));
  record.max_output_bytes = static_cast<std::uint64_t>(root.integer("max_output_kb", 1024, 1, 1'048'576)) * 1024;
  record.repeatable = root.boolean("repeatable", false);
  if (record.stream && record.max_batch > 1)
    root.fault("max_batch", "a model that streams gets its requests one by one; see streams");
  if (!record.stream && root.has("streams")) root.fault("streams", "only a model with stream = true has them");
  record.load_timeout_ms = small(root, "load_timeout_ms", record.load_timeout_ms, 100, kHourMs);
  record.call_timeout_ms = small(root, "call_timeout_ms", record.call_timeout_ms, 10, kHourMs);
  record.cancel_by_restart = root.boolean("cancel_by_restart", record.cancel_by_restart);
  // A call that waits for others to join it counts as one that its worker runs.
  if (record.max_delay_ms >= record.call_timeout_ms) {
    root.fault("max_delay_ms", std::to_string(record.max_delay_ms) + " is not below call_timeout_ms, " +
                                   std::to_string(record.call_timeout_ms));
  }
}

}  // namespace

Outcome<Record> read_record(const std::filesystem::path& folder) {
  toml::Faults faults;
  const std::string shown_file = (folder / "model.toml").string();
  const auto document = toml::Document::read(folder / "model.toml", shown_file, faults);
  if (!document) return faults.error();
  const toml::Table root = document->root();

  Record record;
  record.folder = folder;
  if (root.require("name")) record.name = root.name("name", "");
  if (root.require("version")) record.version = root.name("version", "");
  record.framework = root.text("framework", "", 64);
  record.summary = root.text("summary", "", 512);
  record.file = root.name("file", record.file);  // the allow-list has no '/', so it stays inside the folder
  record.class_name = root.text("class", record.class_name, 64);
  if (!is_identifier(record.class_name))
    root.fault("class", "'" + record.class_name + "' is no name of a Python class");
  record.inputs = read_tensor_decls(root, "input", DeclKind::model_input);
  record.outputs = read_tensor_decls(root, "output", DeclKind::model_output);
  if (record.inputs.empty() && !root.has("input"))
    root.fault({}, "[[input]] is missing: a model takes at least one tensor");
  if (record.outputs.empty() && !root.has("output"))
    root.fault({}, "[[output]] is missing: a model gives at least one tensor");
  read_numbers(root, record);
  if (record.stream &&
      std::any_of(record.outputs.begin(), record.outputs.end(), [](const auto& one) { return one.list; }))
    root.fault("stream", "each part gives single tensors: no output may be a list");
  document->report_unknown_keys();

  const Outcome<std::string> source = toml::read_file(folder / record.file, kMaxModelFileBytes);
  if (!source) {
    root.fault(root.has("file") ? "file" : "",
               (folder / record.file).string() + ": " +
                   (source.error().code == Errc::not_found ? "no such file" : source.error().detail));
  }
  if (!faults.empty()) return faults.error();

  FilesDigest digest;
  digest.add(document->text());
  digest.add(source.value());
  record.digest = digest.hex();
  return record;
}

}  // namespace gearbox::model
