#include "plugin_host/plugin_host.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>
#include <tuple>

#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/toml/document.hpp"
#include "plugin_host/resolve.hpp"
#include "plugin_host/swap_keeper.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

std::string shortened(const std::string& checksum) {
  return checksum.substr(0, 12);
}

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The checksums of private copies in `folder` that this process has mapped.
std::set<std::string> mapped_copies(const fs::path& folder) {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  const std::string prefix = folder.string() + "/";
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find(prefix);
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + prefix.size());
    if (name.size() >= 67 && name.substr(64, 3) == ".so") found.insert(name.substr(0, 64));
  }
  return found;
}

}  // namespace

struct PluginHost::State {
  explicit State(const HostPaths& its_paths)
      : paths(its_paths), shipped(paths.shipped, true), dropped(paths.dropped, false) {}

  HostPaths paths;
  std::shared_ptr<CallRules> rules = std::make_shared<CallRules>();
  std::shared_ptr<CallRecord> record;
  std::unique_ptr<Loader> loader;
  std::unique_ptr<SwapKeeper> keeper;  // null: of whoever only looks

  // The looking thread's.
  FolderFiles shipped, dropped;
  BuildBook book;
  watch::Stamp book_stamp;
  bool book_known = false;
  std::uint64_t last_edition = 0;
  std::map<std::string, Given> options_seen;  // [plugins.NAME] at the last look
  std::set<std::string> not_reloaded;         // checksums of old builds that could not be put back
  std::map<std::string, std::string> told;    // what was logged last, by what it is about

  mutable std::mutex mutex;  // of what follows
  TablePtr table = std::make_shared<const Table>();
  std::map<std::string, PluginInfo> past;  // by checksum: what was in force once and may be mapped still

  TablePtr now() const {
    const std::lock_guard held(mutex);
    return table;
  }
  void forget_closed() {
    if (past.empty()) return;
    const auto mapped = mapped_copies(paths.copies);
    std::erase_if(past, [&](const auto& entry) { return !mapped.contains(entry.first); });
  }
  bool serves() const { return !paths.calling.empty(); }
  Outcome<Instant> look_at_files(Instant now, bool first, const config::PluginsConfig& config);
  bool read_book_if_changed();
  void bar_what_fails();
  Outcome<TablePtr> next_table(const config::PluginsConfig& config, const Needs& needs, bool is_new,
                               Instant& look_again);
  Outcome<void> pass_gate(const ResolveInput& input, const config::PluginsConfig& config, bool is_new,
                          Resolved& resolved, Instant& look_again);
  Outcome<void> judge(const config::PluginsConfig& config, const Resolved& resolved) const;
  Given options_for(const PluginKey& key, const LoadedBuild& build, const config::PluginsConfig& config);
  bool stands_in(const PluginKey& key, const Chosen& chosen) const;
  /// Logs `line` unless the last one about the same thing had the same `mark` (empty: the line itself).
  void tell_once(const std::string& about, const std::string& line, const std::string& mark = {});
  void log_changes(const Table& before, const Table& after);
  void note(const Table& table);
};

void PluginHost::State::tell_once(const std::string& about, const std::string& line, const std::string& mark) {
  constexpr std::size_t kMostTold = 1024;
  if (told.size() > kMostTold) told.clear();
  std::string& last = told[about];
  const std::string& now = mark.empty() ? line : mark;
  if (last == now) return;
  last = now;
  if (!line.empty()) spdlog::warn("{}", line);
}

Outcome<Instant> PluginHost::State::look_at_files(Instant now, bool first, const config::PluginsConfig& config) {
  const bool book_changed = read_book_if_changed();
  const bool other_options = config.options != options_seen;
  Instant look_again = Instant::max();
  for (FolderFiles* folder : {&shipped, &dropped}) {
    const auto load = [&](const fs::path& file, PluginInfo& info) {
      return loader->load(file, config, book, folder->shipped(), info);
    };
    const auto again = folder->look(now, first, load);
    if (!again && first) return again.error();
    // Later an untrusted folder is one in which nothing changes: bars and the other folder are followed all the same.
    const std::string fault = again ? std::string() : "plugins: " + describe(again.error());
    tell_once("folder " + folder->folder().string(), fault);
    if (again) look_again = std::min(look_again, again.value());
    if (first) continue;
    folder->again(  // what was released; what other options may fit
        [&](const FolderFiles::File& file) {
          if (!file.bad) return false;
          if (file.bad->state == "barred") return book_changed && book.bar_of(file.bad->checksum) == nullptr;
          return other_options && file.bad->by_options;
        },
        load);
  }
  options_seen = config.options;
  return look_again;
}

bool PluginHost::State::read_book_if_changed() {
  const fs::path file = book_file(paths.copies);
  const watch::Stamps stamps = watch::stamps_of(
      {watch::Folder{paths.copies, 0, [&](const std::string& name) { return name == file.filename().string(); }}});
  const auto found = stamps.entries.find(file);
  const watch::Stamp stamp = found == stamps.entries.end() ? watch::Stamp() : found->second;
  if (book_known && stamp == book_stamp) return false;
  auto read = read_book(paths.copies);
  tell_once("book", read ? std::string() : "plugins: the book of builds cannot be read: " + describe(read.error()));
  if (!read) return false;
  book = std::move(read).value();
  book_stamp = stamp;
  book_known = true;
  return true;
}

/// A build that passed the limit of faults gives way to the last good one, if there is one.
void PluginHost::State::bar_what_fails() {
  const TablePtr serving = now();
  for (const auto& [key, entry] : serving->entries_) {
    const BuildPtr& build = entry.build;
    // What came with the broker is the last resort; a stalled machine alone can make it slow.
    if (!build->library->health().tripped() || build->info.shipped || book.bar_of(build->info.checksum) != nullptr)
      continue;
    const std::string fault = build->library->health().last_fault();
    const bool shipped_one = std::any_of(shipped.files().begin(), shipped.files().end(), [&](const auto& file) {
      const BuildPtr& other = file.second.good;
      return other && other->info.kind == key.first && other->info.name == key.second &&
             other->info.checksum != build->info.checksum;
    });
    if (!shipped_one && book.last_good(key.first, key.second, build->info.checksum) == nullptr) {
      tell_once("failing " + build->info.checksum,
                "plugin failing kind=" + key.first + " name=" + key.second + " version=" + build->info.version +
                    " last=\"" + escaped(fault, 256) + "\"; it stays, since there is no other build of it",
                "told");
      continue;
    }
    Bar verdict{key.first,
                key.second,
                build->info.version,
                build->info.checksum,
                "failed " + std::to_string(rules->fault_limit.load()) + " times within a minute; last: " + fault,
                wall_ms()};
    auto written = bar(paths.copies, verdict);
    if (written) {
      book = std::move(written).value();
    } else {
      tell_once("bar", "plugins: a bar cannot be written: " + describe(written.error()));
      book.bars.push_back(verdict);  // in this process at least
    }
    spdlog::error("plugin barred kind={} name={} version={} checksum={} reason=\"{}\"", verdict.kind, verdict.name,
                  verdict.version, shortened(verdict.checksum), escaped(verdict.reason, 512));
  }
}

/// Is it another build than the one that the user's files name? Then their options were not meant for it.
bool PluginHost::State::stands_in(const PluginKey& key, const Chosen& chosen) const {
  return !chosen.reason.empty() || std::any_of(book.bars.begin(), book.bars.end(), [&](const Bar& bar) {
    return bar.kind == key.first && bar.name == key.second;
  });
}

/// Those of its manifest and of the configuration that it takes.
Given PluginHost::State::options_for(const PluginKey& key, const LoadedBuild& build,
                                     const config::PluginsConfig& config) {
  const auto given = config.options.find(key.second);
  std::vector<std::string> left_out;
  Given fits = OptionValues::fitting(
      build.info.options, merged(build.options, given == config.options.end() ? Given() : given->second), left_out);
  std::string names;
  for (const std::string& name : left_out) names += (names.empty() ? "" : ", ") + escaped(name, 64);
  tell_once("options " + key.first + " " + key.second,
            names.empty() ? std::string()
                          : "plugin runs without some of its options kind=" + key.first + " name=" + key.second +
                                " version=" + build.info.version + " left_out=\"" + names + "\"");
  return fits;
}

/// [plugins.NAME] of a configuration that is not in force yet, against what it would serve.
Outcome<void> PluginHost::State::judge(const config::PluginsConfig& config, const Resolved& resolved) const {
  toml::Faults faults;
  std::vector<std::string> names;
  for (const auto& [key, chosen] : resolved.serving) names.push_back(key.second);
  for (const auto& [name, given] : config.options) {
    bool known = std::any_of(book.builds.begin(), book.builds.end(), [&](const Build& build) {
      return build.name == name;  // it served once: its table may wait for it
    });
    for (const auto& [key, chosen] : resolved.serving) {
      if (key.second != name) continue;
      known = true;
      if (stands_in(key, chosen)) continue;
      const auto values = OptionValues::make(chosen.build->info.options, merged(chosen.build->options, given));
      if (!values) faults.add_told(values.error(), "gearbox.toml: plugins." + name + ".");
    }
    if (known) continue;
    const std::string_view near = nearest(name, names);
    const std::string hint = near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?";
    // With a refused file about it may be that one's table, which gave no name: its refusal has been logged and must
    // not stop the broker.
    const bool may_be_refused = std::any_of(resolved.others.begin(), resolved.others.end(),
                                            [](const PluginInfo& info) { return info.state != "shadowed"; });
    if (!may_be_refused) faults.add("gearbox.toml", 0, 0, "plugins." + name, "no plugin is called so" + hint);
  }
  if (!faults.empty()) return faults.error();
  return done();
}

Outcome<void> PluginHost::State::pass_gate(const ResolveInput& input, const config::PluginsConfig& config, bool is_new,
                                           Resolved& resolved, Instant& look_again) {
  if (!keeper) return done();
  const TablePtr now = this->now();
  SwapKeeper::Input swaps;
  swaps.config = &config;
  swaps.is_new = is_new;
  swaps.needs = input.needs;
  swaps.needs_before = &now->needs_;
  for (const auto& [key, entry] : now->entries_) swaps.in_force.emplace(key, InForce{entry.build, entry.options});
  swaps.reload = input.reload;
  return keeper->apply(swaps, book, resolved, look_again);
}

Outcome<TablePtr> PluginHost::State::next_table(const config::PluginsConfig& config, const Needs& needs, bool is_new,
                                                Instant& look_again) {
  ResolveInput input;
  input.shipped = &shipped;
  input.dropped = &dropped;
  input.book = &book;
  input.needs = &needs;
  const TablePtr now = this->now();
  for (const auto& [key, entry] : now->entries_) input.in_force.emplace(key, entry.build);
  input.reload = [&](const Build& build) -> Outcome<BuildPtr> {
    if (not_reloaded.contains(build.checksum)) return Error{Errc::bad_plugin, "it could not be put back before"};
    const bool is_shipped = std::any_of(shipped.files().begin(), shipped.files().end(), [&](const auto& entry) {
      const auto& [good, bad] = std::tie(entry.second.good, entry.second.bad);
      return (good && good->info.checksum == build.checksum) || (bad && bad->checksum == build.checksum);
    });
    auto loaded = loader->reload(build, config, is_shipped);
    tell_once("reload " + build.checksum, loaded ? std::string()
                                                 : "plugin not put back kind=" + build.kind + " name=" + build.name +
                                                       " version=" + build.version + " reason=\"" +
                                                       escaped(describe(loaded.error()), 256) + "\"");
    if (!loaded && loaded.error().code == Errc::bad_plugin) not_reloaded.insert(build.checksum);
    return loaded;
  };
  Resolved resolved = resolve(input);
  if (is_new) {
    BOOST_OUTCOME_TRY(judge(config, resolved));
  }
  BOOST_OUTCOME_TRY(pass_gate(input, config, is_new, resolved, look_again));
  auto next = std::make_shared<Table>();
  bool changed = false;
  for (const auto& [key, chosen] : resolved.serving) {
    Table::Entry entry;
    entry.build = chosen.build;
    entry.library = chosen.build->library;
    entry.info = chosen.build->info;
    entry.info.reason = chosen.reason;
    entry.scheme = chosen.build->scheme;
    entry.options = options_for(key, *chosen.build, config);
    const auto old = now->entries_.find(key);
    if (old != now->entries_.end() && old->second.library == entry.library && old->second.options == entry.options) {
      entry.edition = old->second.edition;
      entry.info.since_unix_ms = old->second.info.since_unix_ms;
      changed = changed || old->second.info.reason != entry.info.reason || old->second.info.file != entry.info.file;
    } else {
      entry.edition = ++last_edition;
      entry.info.since_unix_ms = wall_ms();
      changed = true;
    }
    next->entries_.emplace(key, std::move(entry));
  }
  next->others_ = resolved.others;
  next->needs_ = needs;
  for (const Bar& bar : book.bars) next->barred_.emplace(bar.kind, bar.name);
  next->rules_ = Table::Rules{config.call_budget, config.hang, config.fault_limit};
  const auto same = [](const PluginInfo& a, const PluginInfo& b) {
    return a.file == b.file && a.state == b.state && a.reason == b.reason && a.checksum == b.checksum;
  };
  const auto same_need = [](const Need& a, const Need& b) {
    return a.kind == b.kind && a.name == b.name && a.by == b.by;
  };
  changed = changed || now->rules_ != next->rules_ || now->barred_ != next->barred_ ||
            !std::equal(now->needs_.begin(), now->needs_.end(), needs.begin(), needs.end(), same_need) ||
            now->entries_.size() != next->entries_.size() ||
            !std::equal(now->others_.begin(), now->others_.end(), next->others_.begin(), next->others_.end(), same);
  if (!changed) return now;
  return TablePtr(std::move(next));
}

void PluginHost::State::log_changes(const Table& before, const Table& after) {
  for (const auto& [key, entry] : after.entries_) {
    const auto old = before.entries_.find(key);
    const std::string tail = entry.info.reason.empty() ? std::string() : "; " + entry.info.reason;
    if (old == before.entries_.end()) {
      // What comes with the broker is there at every start: no news.
      const bool news = !entry.info.shipped || !before.entries_.empty() || !tail.empty();
      spdlog::log(news ? spdlog::level::info : spdlog::level::debug,
                  "plugin loaded kind={} name={} version={} checksum={}{}", key.first, key.second, entry.info.version,
                  shortened(entry.info.checksum), tail);
    } else if (old->second.info.checksum != entry.info.checksum) {
      spdlog::info("plugin swapped kind={} name={} version={} -> {} checksum={} -> {}{}", key.first, key.second,
                   old->second.info.version, entry.info.version, shortened(old->second.info.checksum),
                   shortened(entry.info.checksum), tail);
    } else if (old->second.edition != entry.edition) {
      spdlog::info("plugin options changed kind={} name={} version={}{}", key.first, key.second, entry.info.version,
                   tail);
    } else if (old->second.info.reason != entry.info.reason && !entry.info.reason.empty()) {
      spdlog::warn("plugin kept kind={} name={} version={}{}", key.first, key.second, entry.info.version, tail);
    }
  }
  for (const auto& [key, entry] : before.entries_) {
    if (after.entries_.contains(key)) continue;
    spdlog::info("plugin unloaded kind={} name={} version={} checksum={}", key.first, key.second, entry.info.version,
                 shortened(entry.info.checksum));
  }
}

/// Writes down what serves now, so that it can be gone back to.
void PluginHost::State::note(const Table& now) {
  for (const auto& [key, entry] : now.entries_) {
    if (!serves()) break;  // whoever only looks leaves no trace
    const Build* last = book.last_good(key.first, key.second, {});
    if (last != nullptr && last->checksum == entry.info.checksum) continue;
    auto written = note_build(
        paths.copies, Build{key.first, key.second, entry.info.version, entry.info.checksum, entry.info.since_unix_ms});
    tell_once("note",
              written ? std::string() : "plugins: the book of builds cannot be written: " + describe(written.error()));
    if (written) book = std::move(written).value();
  }
  std::vector<std::string> kept;
  for (const Build& build : book.builds) kept.push_back(build.checksum);
  remove_unused_copies(paths.copies, kept);
}

PluginHost::PluginHost(std::unique_ptr<State> state) : state_(std::move(state)) {}
PluginHost::~PluginHost() {
  state_->rules->on_trouble(nullptr);
}

Outcome<std::unique_ptr<PluginHost>> PluginHost::open(const HostPaths& paths, const config::PluginsConfig& config,
                                                      const Needs& needs) {
  link::crypto_ready();
  BOOST_OUTCOME_TRY(open_copies_folder(paths.copies));
  auto state = std::make_unique<State>(paths);
  state->record = CallRecord::unrecorded();
  if (state->serves()) {
    BOOST_OUTCOME_TRY(state->record, CallRecord::create(paths.calling));
  }
  state->loader = std::make_unique<Loader>(paths, state->record, state->rules);
  state->loader->starting(true);
  BOOST_OUTCOME_TRY(state->look_at_files(Clock::now(), true, config));
  state->loader->starting(false);
  if (state->serves() && !paths.state.empty())
    state->keeper = std::make_unique<SwapKeeper>(paths, [rules = state->rules] { rules->tell_trouble(); });
  Instant look_again = Instant::max();  // whoever follows looks at once
  BOOST_OUTCOME_TRY(TablePtr table, state->next_table(config, needs, true, look_again));
  std::unique_ptr<PluginHost> host(new PluginHost(std::move(state)));
  host->use(std::move(table));
  return host;
}

TablePtr PluginHost::table() const {
  return state_->now();
}

Outcome<PluginHost::Look> PluginHost::look(const config::PluginsConfig& config, const Needs& needs, bool is_new) {
  Look look;
  BOOST_OUTCOME_TRY(look.look_again, state_->look_at_files(Clock::now(), false, config));
  state_->bar_what_fails();
  BOOST_OUTCOME_TRY(look.table, state_->next_table(config, needs, is_new, look.look_again));
  return look;
}

void PluginHost::use(TablePtr table) {
  const TablePtr before = this->table();
  if (before == table) return;
  state_->rules->budget = table->rules_.call_budget;
  state_->rules->hang = table->rules_.hang;
  state_->rules->fault_limit = table->rules_.fault_limit;
  {
    const std::lock_guard held(state_->mutex);
    for (const auto& [key, entry] : before->entries_) state_->past.insert_or_assign(entry.info.checksum, entry.info);
    for (const PluginInfo& info : table->others_) state_->past.erase(info.checksum);  // told of there
    state_->table = table;
    state_->forget_closed();
  }
  if (state_->serves()) state_->log_changes(*before, *table);
  state_->note(*table);
}

std::vector<PluginInfo> PluginHost::list() const {
  const TablePtr now = table();
  std::vector<PluginInfo> all;
  std::set<std::string> serving;
  for (const auto& [key, entry] : now->entries_) {
    PluginInfo info = entry.info;
    const Health& health = entry.library->health();
    info.calls = health.calls();
    info.faults = health.faults();
    info.p99 = health.p99();
    serving.insert(info.checksum);
    all.push_back(std::move(info));
  }
  all.insert(all.end(), now->others_.begin(), now->others_.end());
  const std::lock_guard held(state_->mutex);
  state_->forget_closed();
  for (const auto& [checksum, info] : state_->past) {
    if (serving.contains(checksum)) continue;
    all.push_back(info);
    all.back().state = "retiring";
    all.back().reason = "its library is still in use";
  }
  return all;
}

std::vector<fs::path> PluginHost::folders() const {
  std::vector<fs::path> all;
  for (const fs::path& path : {state_->paths.shipped, state_->paths.dropped, state_->paths.copies}) {
    if (!path.empty()) all.push_back(path);
  }
  return all;
}

void PluginHost::interrupt() {
  state_->loader->interrupt();
  if (state_->keeper) state_->keeper->interrupt();
}

void PluginHost::on_trouble(std::function<void()> trouble) {
  state_->rules->on_trouble(std::move(trouble));
}

}  // namespace gearbox::plugin_host
