#include "plugin_host/resolve.hpp"

#include <algorithm>
#include <set>

namespace gearbox::plugin_host {

namespace {

const std::string kAlthough = "in force although it is barred: nothing else serves ";

PluginKey key_of(const BuildPtr& build) {
  return {build->info.kind, build->info.name};
}

/// The files of a folder, those first whose build is in force: of twins the one that serves goes on serving.
std::vector<FolderFiles::File*> in_order(FolderFiles& folder, const std::map<PluginKey, BuildPtr>& in_force) {
  std::vector<FolderFiles::File*> files;
  for (auto& [path, file] : folder.files()) files.push_back(&file);
  std::stable_sort(files.begin(), files.end(), [&](const auto* a, const auto* b) {
    const auto serves = [&](const FolderFiles::File* file) {
      if (!file->good) return false;
      const auto found = in_force.find(key_of(file->good));
      return found != in_force.end() && found->second->library == file->good->library;
    };
    return serves(a) && !serves(b);
  });
  return files;
}

class Resolver {
 public:
  explicit Resolver(const ResolveInput& input) : input_(input) {}

  Resolved run() {
    take(*input_.dropped);
    from_drop_folder_ = result_.serving;
    take(*input_.shipped);
    // Whose barred build serves now, lies there, or is needed, with or without its file.
    std::set<PluginKey> barred;
    for (const PluginInfo& bad : result_.others) {
      if (bad.state == "barred" && !bad.name.empty()) barred.emplace(bad.kind, bad.name);
    }
    for (const auto& [key, build] : input_.in_force) {
      if (is_barred(build)) barred.insert(key);
    }
    for (const PluginKey& key : barred) put_back(key);
    for (const Need& need : *input_.needs) keep(need);
    return std::move(result_);
  }

 private:
  void take(FolderFiles& folder) {
    std::map<PluginKey, std::string> seen;  // in this folder
    for (FolderFiles::File* file : in_order(folder, input_.in_force)) {
      if (file->good) {
        const Bar* bar = input_.book->bar_of(file->good->info.checksum);
        if (bar != nullptr) bar_file(*file, *bar);
      }
      if (file->bad) result_.others.push_back(*file->bad);
      if (!file->good) continue;
      const PluginKey key = key_of(file->good);
      const auto [twin, alone] = seen.emplace(key, file->path.filename().string());
      if (!alone) {
        if (file->bad) continue;
        PluginInfo info = file->good->info;
        info.state = "refused";
        info.reason = twin->second + " is a " + key.first + " called '" + key.second + "' too";
        result_.others.push_back(std::move(info));
        continue;
      }
      Chosen chosen{file->good, {}};
      if (file->bad) chosen.reason = "the file there now is " + file->bad->state;
      if (result_.serving.try_emplace(key, std::move(chosen)).second) continue;
      PluginInfo info = file->good->info;
      info.state = "shadowed";
      info.reason = "a dropped plugin of that name goes before it";
      result_.others.push_back(std::move(info));
    }
  }

  static void bar_file(FolderFiles::File& file, const Bar& bar) {
    if (!file.bad) {
      file.bad = file.good->info;
      file.bad->state = "barred";
      file.bad->reason = bar.reason;
    }
    file.good.reset();
  }

  bool is_barred(const BuildPtr& build) const { return input_.book->bar_of(build->info.checksum) != nullptr; }

  /// The last good build of that name, unless another dropped file gives one. A shipped build that is barred gives way
  /// to nothing that somebody has deleted.
  void put_back(const PluginKey& key) {
    if (from_drop_folder_.contains(key)) return;
    const Build* last = input_.book->last_good(key.first, key.second, {});
    const auto there = result_.serving.find(key);
    if (last == nullptr || (there != result_.serving.end() && there->second.build->info.checksum == last->checksum))
      return;
    auto build = in_force_or_reloaded(key, *last);
    if (build)
      result_.serving[key] =
          Chosen{std::move(build).value(), "put back, because " + barred_version(key) + " is barred"};
  }

  std::string barred_version(const PluginKey& key) const {
    const auto& bars = input_.book->bars;
    const auto newest = std::find_if(bars.rbegin(), bars.rend(),
                                     [&](const Bar& bar) { return bar.kind == key.first && bar.name == key.second; });
    return newest == bars.rend() ? std::string("a later build") : newest->version;
  }

  Outcome<BuildPtr> in_force_or_reloaded(const PluginKey& key, const Build& build) const {
    const auto now = input_.in_force.find(key);
    if (now != input_.in_force.end() && now->second->info.checksum == build.checksum) return now->second;
    return input_.reload(build);
  }

  /// What the configuration names stays, whatever becomes of its file.
  void keep(const Need& need) {
    if (need.kind == "transport") return keep_transport(need);
    const PluginKey key{need.kind, need.name};
    if (result_.serving.contains(key)) return;
    const std::string why = "kept without its file: " + need.by + " names it";
    const auto now = input_.in_force.find(key);
    if (now != input_.in_force.end() && !is_barred(now->second)) {
      result_.serving[key] = Chosen{now->second, why};
      return;
    }
    if (const Build* last = input_.book->last_good(need.kind, need.name, {})) {
      if (auto build = input_.reload(*last)) {
        result_.serving[key] = Chosen{std::move(build).value(), why};
        return;
      }
    }
    // Rather one that is barred than none; at a start another one stands in for it.
    if (now != input_.in_force.end())
      result_.serving[key] = Chosen{now->second, "in force although it is barred: there is no other build of it"};
  }

  void keep_transport(const Need& need) {
    const std::string scheme = need.name.substr(0, need.name.find("://"));
    for (const auto& [key, chosen] : result_.serving) {
      if (chosen.build->scheme == scheme) return;
    }
    for (const auto& [key, build] : input_.in_force) {
      if (build->scheme != scheme || result_.serving.contains(key)) continue;
      result_.serving[key] =
          Chosen{build, is_barred(build) ? kAlthough + scheme + "://"
                                         : "kept without its file: " + need.by + " needs " + scheme + "://"};
      return;
    }
    // A role without its transport is of no use to anybody: rather one that has crashed once.
    for (const PluginInfo& bad : result_.others) {
      if (bad.state != "barred" || bad.kind != "transport") continue;
      auto build = input_.reload(Build{bad.kind, bad.name, bad.version, bad.checksum, 0});
      if (!build || build.value()->scheme != scheme) continue;
      result_.serving[{bad.kind, bad.name}] = Chosen{std::move(build).value(), kAlthough + scheme + "://"};
      return;
    }
  }

  const ResolveInput& input_;
  Resolved result_;
  std::map<PluginKey, Chosen> from_drop_folder_;
};

}  // namespace

Resolved resolve(const ResolveInput& input) {
  return Resolver(input).run();
}

}  // namespace gearbox::plugin_host
