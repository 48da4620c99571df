#include "config/compare.hpp"

#include <gmock/gmock.h>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "config/facts.hpp"
#include "config_folder.hpp"

namespace gearbox::config {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Every key there is, none with its default.
constexpr const char* kFull = R"([central]
enabled = false
listen = "tcp://127.0.0.1:1"
database = "host=db.example dbname=gearbox"
balancer = "least_loaded"
node_silent_ms = 4000
ticket_ttl_ms = 60000
idle_ms = 5000
max_connections = 10
password_checks_at_once = 1
password_tries_per_minute = 3
[node]
enabled = true
name = "barn"
listen = "tcp://[::1]:2"
advertise = "tcp://barn.example:7601"
central = "tcp://192.0.2.1:7600"
central_key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
balancer = "round_robin"
spin_us = 7
explain_requests = 12
recorded_requests = 99
recorded_payload_mb = 44
drain_ms = 2000
reattach_ms = 900
[node.limits]
max_upload_mb = 8
max_pixels = 1000
input_arena_mb = 32
output_arena_mb = 4
max_connections = 5
max_requests = 6
max_requests_per_device = 3
max_requests_per_tenant = 8
max_tenant_mb = 9
max_uploads_at_once = 9
default_deadline_ms = 11
idle_ms = 1000
[node.store]
enabled = false
keep_inputs = false
keep_hours = 1
max_mb = 2
[node.journal]
level = "always"
max_mb = 20
keep_hours = 7
[env.py]
python = "py/bin/python"
[env.other]
python = "other/bin/python"
[[worker]]
model = "detect"
version = "1"
env = "py"
count = 3
devices = "cuda:0"
memory_limit_mb = 700
pool = "vip"
[[worker]]
model = "read"
env = "py"
[plugins]
folder = "drop"
trusted_keys = ["aa112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"]
fault_limit = 20
call_budget_ms = 30
hang_ms = 4000
gate = true
gate_trace = "make:steady,rate=3"
gate_cluster = "tasks/read-text.toml"
gate_model = ["tasks/read-text.toml", "gearbox.toml"]
gate_tolerance_percent = 7.5
gate_limit_s = 61
gate_least_requests = 101
[plugins.least_loaded]
queue_limit = 5
factor = 0.5
on = true
text = "x"
[gears]
enabled = true
policy = "flexpipe"
mode = "gentle"
dry_run = true
interval_ms = 501
dwell_ms = 91001
urgent_dwell_ms = 15001
reverse_cooldown_ms = 30001
least_gain = 0.25
at_once = 11
per_hour = 13
hours = ["22:00-06:00"]
card = "rtx3090"
coordination = "etcd"
lease = "south"
hosts = ["south", "north"]
leaders = ["west"]
[gears.links]
listen = "0.0.0.0:7611"
peers = ["gpu-2:7611"]
ping_ms = 901
burst_every_ms = 29001
burst_kb = 65
[[gears.pool]]
name = "vip"
models = ["detect"]
groups = ["detect-2"]
gears = [1, 2]
tenants = [7, 8]
least_kb = 3
most_kb = 9
lends_percent = 20
[[gears.pool]]
name = "rest"
)";

constexpr const char* kFullTask =
    "summary = \"reads text\"\nallow_lossy = true\ndeadline_ms = 77\n"
    "[[input]]\nname = \"image\"\ndtype = \"UINT8\"\nshape = [-1, -1, 3]\n"
    "[[step]]\nname = \"one\"\nmodel = \"detect\"\nversion = \"latest\"\n[step.inputs]\nimage = \"request.image\"\n"
    "[[step]]\nname = \"two\"\nmodel = \"read\"\nfor_each = \"crop\"\n[step.inputs]\ncrop = \"one.crops\"\n"
    "[result]\ntext = \"two.text\"\ncount = \"one.count\"\n";

class Compare : public ConfigFolder {
 protected:
  void SetUp() override {
    ConfigFolder::SetUp();
    write("gearbox.toml", kFull);
    write("tasks/read-text.toml", kFullTask);
    before_ = loaded();
  }
  Snapshot loaded() {
    const auto config = load(folder());
    EXPECT_TRUE(config) << config.error().detail;
    return config ? config.value() : std::make_shared<Config>();
  }
  std::vector<Change> changes() { return compare(*before_, *loaded()); }
  std::vector<std::string> lines() {
    std::vector<std::string> all;
    for (const Change& change : changes()) all.push_back(shown(change));
    return all;
  }
  Snapshot before_;
};

struct Edit {
  const char* file;
  const char* from;
  const char* to;
  const char* change;  // as shown
};

const Edit kEdits[] = {
    {"gearbox.toml", "[central]\nenabled = false", "[central]\nenabled = true", "central.enabled: false -> true"},
    {"gearbox.toml", "tcp://127.0.0.1:1", "tcp://127.0.0.1:3",
     "central.listen: tcp://127.0.0.1:1 -> tcp://127.0.0.1:3"},
    {"gearbox.toml", "database = \"host=db.example dbname=gearbox\"", "",
     "central.database: host=db.example dbname=gearbox -> sqlite"},
    {"gearbox.toml", "\"least_loaded\"", "\"other\"", "central.balancer: least_loaded -> other"},
    {"gearbox.toml", "node_silent_ms = 4000", "", "central.node_silent_ms: 4000 -> 3000"},
    {"gearbox.toml", "ticket_ttl_ms = 60000", "ticket_ttl_ms = 60_001", "central.ticket_ttl_ms: 60000 -> 60001"},
    {"gearbox.toml", "idle_ms = 5000", "idle_ms = 6000", "central.idle_ms: 5000 -> 6000"},
    {"gearbox.toml", "max_connections = 10", "max_connections = 11", "central.max_connections: 10 -> 11"},
    {"gearbox.toml", "at_once = 1", "at_once = 2", "central.password_checks_at_once: 1 -> 2"},
    {"gearbox.toml", "per_minute = 3", "per_minute = 4", "central.password_tries_per_minute: 3 -> 4"},
    {"gearbox.toml", "[node]\nenabled = true", "[node]\nenabled = false", "node.enabled: true -> false"},
    {"gearbox.toml", "\"barn\"", "\"shed\"", "node.name: barn -> shed"},
    {"gearbox.toml", "tcp://[::1]:2", "tcp://[::1]:4", "node.listen: tcp://[::1]:2 -> tcp://[::1]:4"},
    {"gearbox.toml", "advertise = \"tcp://barn.example:7601\"", "",
     "node.advertise: tcp://barn.example:7601 -> (none)"},
    {"gearbox.toml", "192.0.2.1", "192.0.2.2", "node.central: tcp://192.0.2.1:7600 -> tcp://192.0.2.2:7600"},
    {"gearbox.toml", "central_key = \"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"", "",
     "node.central_key: 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff -> (none)"},
    {"gearbox.toml", "\"round_robin\"", "\"other\"", "node.balancer: round_robin -> other"},
    {"gearbox.toml", "spin_us = 7", "spin_us = 0", "node.spin_us: 7 -> 0"},
    {"gearbox.toml", "explain_requests = 12", "explain_requests = 0", "node.explain_requests: 12 -> 0"},
    {"gearbox.toml", "recorded_requests = 99", "recorded_requests = 0", "node.recorded_requests: 99 -> 0"},
    {"gearbox.toml", "recorded_payload_mb = 44", "", "node.recorded_payload_mb: 44 -> 0"},
    {"gearbox.toml", "drain_ms = 2000", "drain_ms = 0", "node.drain_ms: 2000 -> 0"},
    {"gearbox.toml", "reattach_ms = 900", "reattach_ms = 0", "node.reattach_ms: 900 -> 0"},
    {"gearbox.toml", "max_upload_mb = 8", "max_upload_mb = 9", "node.limits.max_upload_mb: 8 -> 9"},
    {"gearbox.toml", "max_pixels = 1000", "max_pixels = 1001", "node.limits.max_pixels: 1000 -> 1001"},
    {"gearbox.toml", "input_arena_mb = 32", "input_arena_mb = 33", "node.limits.input_arena_mb: 32 -> 33"},
    {"gearbox.toml", "output_arena_mb = 4", "output_arena_mb = 5", "node.limits.output_arena_mb: 4 -> 5"},
    {"gearbox.toml", "max_connections = 5", "max_connections = 4", "node.limits.max_connections: 5 -> 4"},
    {"gearbox.toml", "max_requests = 6", "max_requests = 7", "node.limits.max_requests: 6 -> 7"},
    {"gearbox.toml", "per_device = 3", "per_device = 4", "node.limits.max_requests_per_device: 3 -> 4"},
    {"gearbox.toml", "per_tenant = 8", "per_tenant = 0", "node.limits.max_requests_per_tenant: 8 -> 0"},
    {"gearbox.toml", "max_tenant_mb = 9", "max_tenant_mb = 10", "node.limits.max_tenant_mb: 9 -> 10"},
    {"gearbox.toml", "uploads_at_once = 9", "uploads_at_once = 8", "node.limits.max_uploads_at_once: 9 -> 8"},
    {"gearbox.toml", "deadline_ms = 11", "deadline_ms = 12", "node.limits.default_deadline_ms: 11 -> 12"},
    {"gearbox.toml", "idle_ms = 1000", "idle_ms = 1001", "node.limits.idle_ms: 1000 -> 1001"},
    {"gearbox.toml", "[node.store]\nenabled = false", "[node.store]", "node.store.enabled: false -> true"},
    {"gearbox.toml", "keep_inputs = false", "keep_inputs = true", "node.store.keep_inputs: false -> true"},
    {"gearbox.toml", "keep_hours = 1", "keep_hours = 2", "node.store.keep_hours: 1 -> 2"},
    {"gearbox.toml", "max_mb = 2\n", "max_mb = 3\n", "node.store.max_mb: 2 -> 3"},
    {"gearbox.toml", "level = \"always\"", "level = \"none\"", "node.journal.level: always -> none"},
    {"gearbox.toml", "max_mb = 20", "max_mb = 21", "node.journal.max_mb: 20 -> 21"},
    {"gearbox.toml", "keep_hours = 7", "keep_hours = 8", "node.journal.keep_hours: 7 -> 8"},
    {"gearbox.toml", "\"py/bin/python\"", "\"/opt/py\"", "env.py.python: py/bin/python -> /opt/py"},
    {"gearbox.toml", "\"other/bin/python\"", "\"/opt/o\"", "env.other.python: other/bin/python -> /opt/o"},
    {"gearbox.toml", "version = \"1\"\n", "", "worker[detect].version: 1 -> (none)"},
    {"gearbox.toml", "env = \"py\"\ncount", "env = \"other\"\ncount", "worker[detect].env: py -> other"},
    {"gearbox.toml", "count = 3", "count = 0", "worker[detect].count: 3 -> 0"},
    {"gearbox.toml", "cuda:0", "cpu", "worker[detect].devices: cuda:0 -> cpu"},
    {"gearbox.toml", "memory_limit_mb = 700", "memory_limit_mb = 800", "worker[detect].memory_limit_mb: 700 -> 800"},
    {"gearbox.toml", "pool = \"vip\"", "pool = \"rest\"", "worker[detect].pool: vip -> rest"},
    {"gearbox.toml", "models = [\"detect\"]\n", "", "gears.pool[vip].models: detect -> (none)"},
    {"gearbox.toml", "groups = [\"detect-2\"]\n", "", "gears.pool[vip].groups: detect-2 -> (none)"},
    {"gearbox.toml", "gears = [1, 2]", "gears = [1]", "gears.pool[vip].gears: 1, 2 -> 1"},
    {"gearbox.toml", "tenants = [7, 8]", "tenants = [8]", "gears.pool[vip].tenants: 7, 8 -> 8"},
    {"gearbox.toml", "least_kb = 3", "", "gears.pool[vip].least_kb: 3 -> 0"},
    {"gearbox.toml", "most_kb = 9", "", "gears.pool[vip].most_kb: 9 -> 0"},
    {"gearbox.toml", "lends_percent = 20", "", "gears.pool[vip].lends_percent: 20 -> 50"},
    {"gearbox.toml", "\"drop\"", "\"../drop\"", "plugins.folder: drop -> FOLDER/../drop"},
    {"gearbox.toml", "[\"aa", "[\"bb",
     "plugins.trusted_keys: aa112233445566778899aabbccddeeff00112233445566778899aabbccddeeff -> "
     "bb112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"},
    {"gearbox.toml", "fault_limit = 20", "", "plugins.fault_limit: 20 -> 10"},
    {"gearbox.toml", "call_budget_ms = 30", "", "plugins.call_budget_ms: 30 -> 100"},
    {"gearbox.toml", "hang_ms = 4000", "", "plugins.hang_ms: 4000 -> 10000"},
    {"gearbox.toml", "gate = true", "", "plugins.gate: true -> false"},
    {"gearbox.toml", "make:steady,rate=3", "make:steady,rate=4",
     "plugins.gate_trace: make:steady,rate=3 -> make:steady,rate=4"},
    {"gearbox.toml", "gate_cluster = \"tasks/read-text.toml\"", "gate_cluster = \"gearbox.toml\"",
     "plugins.gate_cluster: tasks/read-text.toml -> gearbox.toml"},
    {"gearbox.toml", "gate_model = [\"tasks/read-text.toml\", \"gearbox.toml\"]", "gate_model = \"gearbox.toml\"",
     "plugins.gate_model: tasks/read-text.toml, gearbox.toml -> gearbox.toml"},
    {"gearbox.toml", "gate_tolerance_percent = 7.5", "", "plugins.gate_tolerance_percent: 7.5 -> 5"},
    {"gearbox.toml", "gate_limit_s = 61", "", "plugins.gate_limit_s: 61 -> 60"},
    {"gearbox.toml", "gate_least_requests = 101", "", "plugins.gate_least_requests: 101 -> 100"},
    {"gearbox.toml", "queue_limit = 5", "queue_limit = 6", "plugins.least_loaded.queue_limit: 5 -> 6"},
    {"gearbox.toml", "factor = 0.5", "factor = 0.1", "plugins.least_loaded.factor: 0.5 -> 0.1"},
    {"gearbox.toml", "on = true", "on = false", "plugins.least_loaded.on: true -> false"},
    {"gearbox.toml", "text = \"x\"", "text = \"\\n\"", "plugins.least_loaded.text: x -> \\x0a"},
    {"gearbox.toml", "[gears]\nenabled = true", "[gears]\nenabled = false", "gears.enabled: true -> false"},
    {"gearbox.toml", "policy = \"flexpipe\"", "", "gears.policy: flexpipe -> cost_model"},
    {"gearbox.toml", "coordination = \"etcd\"", "", "gears.coordination: etcd -> central"},
    {"gearbox.toml", "lease = \"south\"", "", "gears.lease: south -> scheduler"},
    {"gearbox.toml", "hosts = [\"south\", \"north\"]", "", "gears.hosts: north, south -> (none)"},
    {"gearbox.toml", "leaders = [\"west\"]", "", "gears.leaders: west -> (none)"},
    {"gearbox.toml", "listen = \"0.0.0.0:7611\"", "", "gears.links.listen: 0.0.0.0:7611 -> (none)"},
    {"gearbox.toml", "peers = [\"gpu-2:7611\"]", "", "gears.links.peers: gpu-2:7611 -> (none)"},
    {"gearbox.toml", "ping_ms = 901", "", "gears.links.ping_ms: 901 -> 1000"},
    {"gearbox.toml", "burst_every_ms = 29001", "", "gears.links.burst_every_ms: 29001 -> 30000"},
    {"gearbox.toml", "burst_kb = 65", "", "gears.links.burst_kb: 65 -> 1024"},
    {"gearbox.toml", "mode = \"gentle\"", "", "gears.mode: gentle -> normal"},
    {"gearbox.toml", "dry_run = true", "", "gears.dry_run: true -> false"},
    {"gearbox.toml", "interval_ms = 501", "", "gears.interval_ms: 501 -> 1000"},
    {"gearbox.toml", "\ndwell_ms = 91001", "", "gears.dwell_ms: 91001 -> 300000"},
    {"gearbox.toml", "urgent_dwell_ms = 15001", "", "gears.urgent_dwell_ms: 15001 -> 60000"},
    {"gearbox.toml", "reverse_cooldown_ms = 30001", "", "gears.reverse_cooldown_ms: 30001 -> 120000"},
    {"gearbox.toml", "least_gain = 0.25", "least_gain = 0.5", "gears.least_gain: 0.25 -> 0.5"},
    {"gearbox.toml", "at_once = 11", "", "gears.at_once: 11 -> 1"},
    {"gearbox.toml", "per_hour = 13", "", "gears.per_hour: 13 -> 6"},
    {"gearbox.toml", "22:00-06:00", "21:00-06:00", "gears.hours: 22:00-06:00 -> 21:00-06:00"},
    {"gearbox.toml", "card = \"rtx3090\"", "", "gears.card: rtx3090 -> cpu"},
    {"tasks/read-text.toml", "reads text", "reads", "task.read-text.summary: reads text -> reads"},
    {"tasks/read-text.toml", "allow_lossy = true", "", "task.read-text.allow_lossy: true -> false"},
    {"tasks/read-text.toml", "deadline_ms = 77", "deadline_ms = 78", "task.read-text.deadline_ms: 77 -> 78"},
    {"tasks/read-text.toml", "shape = [-1, -1, 3]", "shape = [-1, 8, 3]",
     "task.read-text.input.image: UINT8 [-1, -1, 3] -> UINT8 [-1, 8, 3]"},
    {"tasks/read-text.toml", "\"latest\"", "\"1\"", "task.read-text.step.one.version: latest -> 1"},
    {"tasks/read-text.toml", "version = \"latest\"", "version = \"latest\"\ndeadline_share = 0.5",
     "task.read-text.step.one.deadline_share: 0 -> 0.5"},
    {"tasks/read-text.toml", "version = \"latest\"", "version = \"latest\"\nretry = 2",
     "task.read-text.step.one.retry: 0 -> 2"},
    {"tasks/read-text.toml", "count = \"one.count\"", "count = \"two.text\"",
     "task.read-text.result.count: one.count -> two.text"},
};

class EachKey : public Compare, public ::testing::WithParamInterface<Edit> {};

TEST_P(EachKey, IsNamedWhenItChangesAndNothingElseIs) {
  const Edit& edit = GetParam();
  write_changed(edit.file, edit.file == std::string("gearbox.toml") ? kFull : kFullTask, edit.from, edit.to);
  std::string expected = edit.change;
  if (const std::size_t at = expected.find("FOLDER"); at != std::string::npos) {
    expected = expected.substr(0, at) + (folder() / "../drop").lexically_normal().string();
  }
  EXPECT_THAT(lines(), ::testing::ElementsAre(expected));
}

INSTANTIATE_TEST_SUITE_P(All, EachKey, ::testing::ValuesIn(kEdits), [](const auto& one) {
  std::string name = one.param.change;
  name.resize(name.find(": "));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST_F(Compare, TheEditsAboveNameEveryKeyOfTheFiles) {
  std::set<std::string> left;
  for (const Value& value : values_of(*before_)) {
    if (!value.key.starts_with("model.")) left.insert(value.key);
  }
  for (const Edit& edit : kEdits) left.erase(std::string(edit.change).substr(0, std::string(edit.change).find(": ")));
  // Those that cannot change alone, or that another worker's edit stands for.
  for (const char* key : {"task.read-text.steps",
                          "task.read-text.step.one.model",
                          "task.read-text.step.one.for_each",
                          "task.read-text.step.one.inputs.image",
                          "task.read-text.step.two.model",
                          "task.read-text.step.two.version",
                          "task.read-text.step.two.for_each",
                          "task.read-text.step.two.inputs.crop",
                          "task.read-text.result.text",
                          "worker[read].version",
                          "worker[read].env",
                          "worker[read].count",
                          "worker[read].devices",
                          "worker[read].memory_limit_mb",
                          "worker[read].pool",
                          "gears.pool[rest].models",
                          "gears.pool[rest].groups",
                          "gears.pool[rest].gears",
                          "gears.pool[rest].tenants",
                          "gears.pool[rest].least_kb",
                          "gears.pool[rest].most_kb",
                          "gears.pool[rest].lends_percent",
                          "task.read-text.step.two.deadline_share",
                          "task.read-text.step.two.retry"}) {
    EXPECT_EQ(left.erase(key), 1U) << key;
  }
  EXPECT_THAT(left, IsEmpty());
}

TEST_F(Compare, EachKeyIsThereOnceAndItsPathIsTheKey) {
  std::set<std::string> keys;
  for (const Value& value : values_of(*before_)) {
    EXPECT_TRUE(keys.insert(value.key).second) << value.key;
    ASSERT_GE(value.path.size(), 2U) << value.key;
    EXPECT_TRUE(value.key.ends_with("." + value.path.back())) << value.key;
  }
}

TEST_F(Compare, CommentsBlanksAndOrderAreNoChange) {
  std::string text = kFull;
  const std::size_t central_ends = text.find("[node]");
  const std::string central = text.substr(0, central_ends);
  text = "# note\n\n" + text.substr(central_ends) + "\n# moved\n" + central;
  const std::string first_worker = "[[worker]]\nmodel = \"read\"\nenv = \"py\"\n";
  const std::size_t at = text.find(first_worker);
  ASSERT_NE(at, std::string::npos);
  text.erase(at, first_worker.size());
  text.insert(text.find("[[worker]]"), first_worker);
  write("gearbox.toml", text);
  write("tasks/read-text.toml", "# note\n" + std::string(kFullTask) + "   # end\n");
  EXPECT_NE(loaded()->digest, before_->digest);
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Compare, ADefaultThatIsWrittenDownIsNoChange) {
  write("gearbox.toml", kMain);
  before_ = loaded();
  write("gearbox.toml", std::string(kMain) + "[central]\nidle_ms = 30_000\n[plugins]\nfolder = \"plugins/\"\n");
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Compare, TheOrderOfTrustedKeysIsNoChange) {
  const std::string a(64, 'a');
  const std::string b(64, 'b');
  write("gearbox.toml", std::string(kMain) + "[plugins]\ntrusted_keys = [\"" + a + "\", \"" + b + "\"]\n");
  before_ = loaded();
  write("gearbox.toml", std::string(kMain) + "[plugins]\ntrusted_keys = [\"" + b + "\", \"" + a + "\"]\n");
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Compare, NamesWhatIsAddedAndWhatIsGone) {
  write_changed("tasks/read-text.toml", kFullTask, "count = \"one.count\"\n", "");
  write_changed("gearbox.toml", kFull, "[[worker]]\nmodel = \"read\"\nenv = \"py\"\n", "[env.new]\npython = \"n\"\n");
  EXPECT_THAT(lines(),
              ::testing::ElementsAre("env.new.python: (none) -> n", "worker[read].env: py -> (none)",
                                     "worker[read].count: 1 -> (none)", "worker[read].memory_limit_mb: 0 -> (none)",
                                     "task.read-text.result.count: one.count -> (none)"));
}

TEST_F(Compare, AModelsFilesCountByTheirDigest) {
  write("models/read/model.py", "class Model: x = 1\n");
  const std::vector<std::string> found = lines();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr("model.read@2.digest: "));
}

TEST_F(Compare, AModelsRecordIsNamedKeyByKey) {
  write("models/read/model.toml",
        "max_batch = 4\nmax_delay_ms = 5\nprefetch = 3\nthreads = 2\nmemory_mb = 9\nmax_output_kb = 2\n"
        "load_timeout_ms = 1000\ncall_timeout_ms = 1001\nframework = \"f\"\nsummary = \"s\"\nfile = \"m.py\"\nclass = "
        "\"M\"\n" +
            std::string(kRead));
  write("models/read/m.py", "class M: pass\n");
  std::set<std::string> keys;
  for (const Change& change : changes()) keys.insert(change.key.substr(std::string("model.read@2.").size()));
  EXPECT_EQ(keys, (std::set<std::string>{"digest", "framework", "summary", "file", "class", "max_batch", "max_delay_ms",
                                         "prefetch", "threads", "memory_mb", "max_output_kb", "load_timeout_ms",
                                         "call_timeout_ms"}));
}

TEST_F(Compare, ANewVersionIsANewModel) {
  std::string newer = kRead;
  newer.replace(newer.find("\"2\""), 3, "\"2.1\"");
  write("models/read-2.1/model.toml", newer);
  write("models/read-2.1/model.py", "class Model: pass\n");
  const std::vector<Change> found = changes();
  ASSERT_FALSE(found.empty());
  for (const Change& change : found) {
    EXPECT_TRUE(change.key.starts_with("model.read@2.1.")) << change.key;
    EXPECT_EQ(change.before, "");
    EXPECT_FALSE(change.needs_restart);
  }
}

TEST_F(Compare, WorkersOfOneModelAreToldApart) {
  const auto keys_with = [&](const std::string& tables) {
    write("gearbox.toml", std::string(kMain) + "[env.b]\npython = \"b\"\n" + tables);
    std::vector<std::string> keys;
    for (const Value& value : values_of(*loaded())) {
      if (value.key.ends_with("].count") && value.key.find("read") == std::string::npos) keys.push_back(value.key);
    }
    return keys;
  };
  EXPECT_THAT(keys_with(""), ::testing::ElementsAre("worker[detect].count"));
  EXPECT_THAT(keys_with("[[worker]]\nmodel = \"detect\"\nversion = \"1\"\nenv = \"py\"\n"),
              ::testing::ElementsAre("worker[detect].count", "worker[detect@1].count"));
  EXPECT_THAT(keys_with("[[worker]]\nmodel = \"detect\"\nenv = \"b\"\n"),
              ::testing::ElementsAre("worker[detect, py].count", "worker[detect, b].count"));
  EXPECT_THAT(keys_with("[[worker]]\nmodel = \"detect\"\nenv = \"py\"\ndevices = \"cuda:1\"\n"),
              ::testing::ElementsAre("worker[detect, py].count", "worker[detect, py, cuda:1].count"));
  EXPECT_THAT(keys_with("[[worker]]\nmodel = \"detect\"\nenv = \"py\"\n"),
              ::testing::ElementsAre("worker[detect, py, #1].count", "worker[detect, py, #2].count"));
}

TEST_F(Compare, TheKeysThatNeedARestartAreTheseAndNoOthers) {
  std::vector<std::string> found;
  for (const Value& value : values_of(*before_)) {
    if (needs_restart(value.key)) found.push_back(value.key);
  }
  EXPECT_THAT(found,
              ::testing::ElementsAre("central.enabled", "central.listen", "central.database",
                                     "central.password_checks_at_once", "node.enabled", "node.name", "node.listen",
                                     "node.advertise", "node.central", "node.central_key", "node.limits.input_arena_mb",
                                     "node.limits.output_arena_mb", "node.store.enabled", "node.journal.level",
                                     "node.journal.max_mb", "plugins.folder", "plugins.trusted_keys", "gears.enabled"));
}

TEST_F(Compare, TheFaultNamesEachKeyThatNeedsARestart) {
  write_changed("gearbox.toml", kFull, "tcp://[::1]:2", "tcp://[::1]:4");
  EXPECT_EQ(restart_fault(changes()),
            "node.listen: tcp://[::1]:2 -> tcp://[::1]:4 needs a restart of the broker; nothing of this change is "
            "applied");
  std::string two = kFull;
  two.replace(two.find("tcp://[::1]:2"), 13, "tcp://[::1]:4");
  write_changed("gearbox.toml", two, "input_arena_mb = 32", "input_arena_mb = 64");
  EXPECT_EQ(restart_fault(changes()),
            "node.listen: tcp://[::1]:2 -> tcp://[::1]:4; node.limits.input_arena_mb: 32 -> 64 need a restart of the "
            "broker; nothing of this change is applied");
  write_changed("gearbox.toml", kFull, "spin_us = 7", "spin_us = 8");
  EXPECT_EQ(restart_fault(changes()), "");
}

TEST_F(Compare, WhatARoleTellsOverItsSocketIsTheWholeList) {
  std::vector<Value> told;
  std::uint64_t next = 0;
  do {
    boost::json::object request;
    request["command"] = "config";
    request["from"] = next;
    const auto more = add_values(config_facts(*before_, request), told);
    ASSERT_TRUE(more) << more.error().detail;
    next = more.value();
  } while (next != 0);
  EXPECT_EQ(told.size(), values_of(*before_).size());
  EXPECT_THAT(compare(told, values_of(*before_)), IsEmpty());
}

TEST_F(Compare, ALargeConfigurationIsToldInPieces) {
  Config large = *before_;
  for (int i = 0; i < 300; ++i) {
    TaskConfig task = large.tasks.at("read-text");
    task.summary = std::string(500, '\x01');
    large.tasks.emplace("task-" + std::to_string(i), task);
  }
  std::vector<Value> told;
  std::uint64_t next = 0;
  int pieces = 0;
  do {
    const boost::json::object facts = config_facts(large, {{"from", next}});
    EXPECT_LT(boost::json::serialize(facts).size(), 60U * 1024);
    const auto more = add_values(facts, told);
    ASSERT_TRUE(more);
    ASSERT_GT(more.value() == 0 ? UINT64_MAX : more.value(), next);
    next = more.value();
    ++pieces;
  } while (next != 0);
  EXPECT_GT(pieces, 10);
  EXPECT_THAT(compare(told, values_of(large)), IsEmpty());
}

TEST_F(Compare, AnAnswerThatIsNoneIsAFault) {
  std::vector<Value> told;
  EXPECT_FALSE(add_values({}, told));
  EXPECT_FALSE(add_values({{"values", boost::json::object{{"a", 1}}}}, told));
  EXPECT_EQ(config_facts(*before_, {{"from", -5}}).at("from"), 0);
  EXPECT_TRUE(config_facts(*before_, {{"from", 1'000'000}}).at("values").as_object().empty());
}

TEST_F(Compare, ALogTellsOfWholeTablesInOneLineEach) {
  write("models/extra/model.toml", std::string(kDetect).replace(std::string(kDetect).find("\"1\""), 3, "\"7\""));
  write("models/extra/model.py", "class Model: pass\n");
  write_changed("gearbox.toml", kFull, "spin_us = 7", "spin_us = 9");
  const auto after = load(folder());
  ASSERT_TRUE(after) << after.error().detail;
  EXPECT_THAT(lines_of(*before_, *after.value(), {"node", "model"}),
              ::testing::ElementsAre("node.spin_us: 7 -> 9", "model detect@7: added"));
  EXPECT_THAT(lines_of(*after.value(), *before_, {"model"}), ::testing::ElementsAre("model detect@7: removed"));
  EXPECT_THAT(lines_of(*before_, *after.value(), {"central"}), ::testing::IsEmpty());
}

}  // namespace
}  // namespace gearbox::config
