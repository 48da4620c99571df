#include <gmock/gmock.h>

#include <sys/stat.h>

#include "config/central_places.hpp"
#include "config_folder.hpp"

namespace gearbox::config {
namespace {

using ::testing::HasSubstr;

TEST_F(ConfigFolder, LoadsWithTheDefaultsOfEveryKeyThatIsNotThere) {
  const auto loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const Config& config = *loaded.value();
  EXPECT_EQ(config.central.listen, "tcp://127.0.0.1:7600");
  EXPECT_EQ(config.central.database, "sqlite");
  EXPECT_EQ(config.node.limits.max_upload_bytes, 64ULL << 20);
  EXPECT_EQ(config.plugins.folder, folder() / "plugins");
  ASSERT_EQ(config.workers.size(), 2U);
  EXPECT_EQ(config.workers[0].count, 1U);
  EXPECT_EQ(config.workers[1].count, 2U);
  EXPECT_EQ(config.envs.at("py").python, "py/bin/python");
  ASSERT_EQ(config.models.size(), 2U);
  EXPECT_EQ(config.tasks.at("read-text").steps.size(), 2U);
  EXPECT_EQ(config.digest.size(), 32U);
}

TEST_F(ConfigFolder, ReadsEveryKeyOfTheMainFile) {
  write("gearbox.toml", std::string(kMain) + R"(
[central]
enabled = false
listen = "tcp://0.0.0.0:0"
balancer = "round_robin"
node_silent_ms = 4000
ticket_ttl_ms = 60000
idle_ms = 5000
max_connections = 10
password_checks_at_once = 1
password_tries_per_minute = 3
[node]
enabled = false
name = "barn"
listen = "tcp://[::1]:0"
advertise = "tcp://barn.example:7601"
central = "tcp://192.0.2.1:7600"
central_key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
balancer = "round_robin"
spin_us = 0
explain_requests = 77
[node.limits]
max_upload_mb = 8
max_pixels = 1000
input_arena_mb = 16
output_arena_mb = 4
max_connections = 5
max_requests = 6
max_requests_per_device = 7
max_requests_per_tenant = 70
max_tenant_mb = 5
max_uploads_at_once = 8
default_deadline_ms = 9
idle_ms = 1000
[node.store]
enabled = false
keep_inputs = false
keep_hours = 1
max_mb = 2
[plugins]
folder = "drop"
trusted_keys = ["00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
                "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"]
fault_limit = 3
call_budget_ms = 40
hang_ms = 500
[plugins.least_loaded]
queue_limit = 5
factor = 0.5
on = true
text = "x"
)");
  const auto loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const Config& config = *loaded.value();
  EXPECT_FALSE(config.central.enabled);
  EXPECT_EQ(config.central.listen, "tcp://0.0.0.0:0");
  EXPECT_EQ(config.central.balancer, "round_robin");
  EXPECT_EQ(config.central.node_silent, milliseconds(4000));
  EXPECT_EQ(config.central.ticket_ttl, milliseconds(60000));
  EXPECT_EQ(config.central.idle, milliseconds(5000));
  EXPECT_EQ(config.central.max_connections, 10U);
  EXPECT_EQ(config.central.password_checks_at_once, 1U);
  EXPECT_EQ(config.central.password_tries_per_minute, 3U);
  EXPECT_EQ(config.node.name, "barn");
  EXPECT_EQ(config.node.listen, "tcp://[::1]:0");
  EXPECT_EQ(config.node.advertise, "tcp://barn.example:7601");
  EXPECT_EQ(config.node.central, "tcp://192.0.2.1:7600");
  EXPECT_EQ(config.node.central_key.size(), 64U);
  EXPECT_EQ(config.node.spin_us, 0U);
  EXPECT_EQ(config.node.explain_requests, 77U);
  EXPECT_EQ(config.node.limits.max_upload_bytes, 8ULL << 20);
  EXPECT_EQ(config.node.limits.max_pixels, 1000U);
  EXPECT_EQ(config.node.limits.input_arena_bytes, 16ULL << 20);
  EXPECT_EQ(config.node.limits.output_arena_bytes, 4ULL << 20);
  EXPECT_EQ(config.node.limits.max_connections, 5U);
  EXPECT_EQ(config.node.limits.max_requests, 6U);
  EXPECT_EQ(config.node.limits.max_requests_per_device, 7U);
  EXPECT_EQ(config.node.limits.max_requests_per_tenant, 70U);
  EXPECT_EQ(config.node.limits.max_tenant_bytes, 5U << 20);
  EXPECT_EQ(config.node.limits.max_uploads_at_once, 8U);
  EXPECT_EQ(config.node.limits.default_deadline, milliseconds(9));
  EXPECT_EQ(config.node.limits.idle, milliseconds(1000));
  EXPECT_FALSE(config.node.store.enabled);
  EXPECT_FALSE(config.node.store.keep_inputs);
  EXPECT_EQ(config.node.store.keep_hours, 1U);
  EXPECT_EQ(config.node.store.max_bytes, 2ULL << 20);
  EXPECT_EQ(config.plugins.folder, folder() / "drop");
  ASSERT_EQ(config.plugins.trusted_keys.size(), 2U);
  EXPECT_EQ(to_text(config.plugins.trusted_keys[1]),
            "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100");
  EXPECT_EQ(config.plugins.fault_limit, 3U);
  EXPECT_EQ(config.plugins.call_budget, milliseconds(40));
  EXPECT_EQ(config.plugins.hang, milliseconds(500));
  EXPECT_EQ(config.plugins.options.size(), 1U);
  const auto& options = config.plugins.options.at("least_loaded");
  EXPECT_EQ(std::get<std::int64_t>(options.at("queue_limit")), 5);
  EXPECT_EQ(std::get<double>(options.at("factor")), 0.5);
  EXPECT_EQ(std::get<bool>(options.at("on")), true);
  EXPECT_EQ(std::get<std::string>(options.at("text")), "x");
}

TEST_F(ConfigFolder, AWildcardIsGoodWithAnAddressToDial) {
  for (const char* lines :
       {"[node]\nlisten = \"tcp://0.0.0.0:7601\"\nadvertise = \"tcp://barn.example:7601\"\n",
        "[node]\nlisten = \"tcp://[::]:7601\"\nadvertise = \"tcp://[2001:db8::1]:7601\"\n",
        "[node]\nlisten = \"tcp://[::1]:7601\"\n", "[node]\nlisten = \"tcp://10.0.0.0:7601\"\n",
        "[node]\nenabled = false\nlisten = \"tcp://0.0.0.0:7601\"\n", "[central]\nlisten = \"tcp://0.0.0.0:7600\"\n"}) {
    write("gearbox.toml", std::string(kMain) + lines);
    EXPECT_EQ(faults(), "") << lines;
  }
}

TEST_F(ConfigFolder, ANodeMayKnowSeveralCentrals) {
  const std::string first(64, '1');
  const std::string second(64, '2');
  const std::string urls = "[node]\ncentral = [\"tcp://a:1\", \"tcp://[::1]:2\"]\n";
  write("gearbox.toml", std::string(kMain) + urls + "central_key = \"" + first + "\"\n");
  auto loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  auto places = central_places(loaded.value()->node);
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].url, "tcp://a:1");
  EXPECT_EQ(places[1].url, "tcp://[::1]:2");
  EXPECT_EQ(places[1].key, first) << "one key is that of all";
  write("gearbox.toml", std::string(kMain) + urls + "central_key = [\"" + first + "\", \"" + second + "\"]\n");
  loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  places = central_places(loaded.value()->node);
  EXPECT_EQ(places[0].key, first);
  EXPECT_EQ(places[1].key, second);
  write("gearbox.toml", std::string(kMain));
  loaded = load(folder());
  ASSERT_TRUE(loaded);
  places = central_places(loaded.value()->node);
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].url + places[0].key, "") << "this host's own";
}

struct BadMain {
  const char* name;
  const char* lines;   // appended to a main file that loads
  const char* expect;  // in the faults
};

class BadMainFile : public ConfigFolder, public ::testing::WithParamInterface<BadMain> {};

TEST_P(BadMainFile, IsRefusedAsAWhole) {
  write("gearbox.toml", std::string(kMain) + GetParam().lines);
  EXPECT_THAT(faults(), HasSubstr(GetParam().expect));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadMainFile,
    ::testing::Values(
        BadMain{"UnknownKey", "[central]\nlisen = \"tcp://a:1\"\n",
                "gearbox.toml:14:1: central.lisen: unknown key; did you mean 'listen'?"},
        BadMain{"UnknownTable", "[centrl]\n", "centrl: unknown key; did you mean 'central'?"},
        BadMain{"UnknownKeyOfLimits", "[node.limits]\nmax_upload = 3\n",
                "node.limits.max_upload: unknown key; did you mean 'max_upload_mb'?"},
        BadMain{"PortOutOfRange", "[node]\nlisten = \"tcp://127.0.0.1:65616\"\n",
                "port 65616 is out of range (0 to 65535)"},
        BadMain{"PortThatWouldWrap", "[node]\nlisten = \"tcp://127.0.0.1:4294975376\"\n",
                "port 4294975376 is out of range"},
        BadMain{"NegativePort", "[node]\nlisten = \"tcp://127.0.0.1:-1\"\n", "has a port that is no number"},
        BadMain{"NoPort", "[node]\nlisten = \"tcp://127.0.0.1\"\n", "has no port"},
        BadMain{"DialPortZero", "[node]\nadvertise = \"tcp://127.0.0.1:0\"\n", "port 0 is out of range (1 to 65535)"},
        BadMain{"WildcardWithoutAdvertise", "[node]\nlisten = \"tcp://0.0.0.0:7601\"\n",
                "node.listen: 'tcp://0.0.0.0:7601' is every address of this host, and no device can dial that: add "
                "advertise = \"tcp://HOST:7601\""},
        BadMain{"WildcardOfIpv6", "[node]\nlisten = \"tcp://[::]:0\"\n", "advertise = \"tcp://HOST:PORT\""},
        BadMain{"WildcardSpelledOut", "[node]\nlisten = \"tcp://[0:0::0]:1\"\n", "advertise = \"tcp://HOST:1\""},
        BadMain{"WildcardMapped", "[node]\nlisten = \"tcp://[::ffff:0.0.0.0]:1\"\n", "no device can dial that"},
        BadMain{"WildcardInShort", "[node]\nlisten = \"tcp://0:1\"\n", "no device can dial that"},
        BadMain{"DeadlineOverAnHour", "[node.limits]\ndefault_deadline_ms = 3600001\n",
                "node.limits.default_deadline_ms: 3600001 is out of range (1 to 3600000)"},
        BadMain{"NoUrl", "[node]\nlisten = \"127.0.0.1:1\"\n", "is no URL"},
        BadMain{"BareIpv6", "[node]\nlisten = \"tcp://::1:5\"\n", "outside of brackets"},
        BadMain{"WrongType", "[node]\nspin_us = \"20\"\n",
                "node.spin_us: expected an integer (0 to 10000), got a text"},
        BadMain{"FloatForInteger", "[node]\nspin_us = 20.0\n", "got a number with a fraction"},
        BadMain{"ZeroConnections", "[central]\nmax_connections = 0\n", "0 is out of range (1 to 1000000)"},
        BadMain{"NegativeWorkers", "[[worker]]\nmodel = \"detect\"\nenv = \"py\"\ncount = -1\n",
                "worker[3].count: -1 is out of range (0 to 64)"},
        BadMain{"ABillionWorkers", "[[worker]]\nmodel = \"detect\"\nenv = \"py\"\ncount = 1000000000\n",
                "1000000000 is out of range"},
        BadMain{"UnknownModel", "[[worker]]\nmodel = \"detct\"\nenv = \"py\"\n",
                "has a model called 'detct'; did you mean 'detect'?"},
        BadMain{"UnknownVersion", "[[worker]]\nmodel = \"detect\"\nversion = \"9\"\nenv = \"py\"\n",
                "has no version '9'; there is 1"},
        BadMain{"UnknownEnv", "[[worker]]\nmodel = \"detect\"\nenv = \"pi\"\n",
                "there is no [env.pi]; did you mean 'py'?"},
        BadMain{"NoEnv", "[[worker]]\nmodel = \"detect\"\n", "worker[3]: 'env' is missing"},
        BadMain{"BadModelName", "[[worker]]\nmodel = \"../../etc/passwd\"\nenv = \"py\"\n", "is no name"},
        BadMain{"BadDevice", "[[worker]]\nmodel = \"detect\"\nenv = \"py\"\ndevices = \"gpu\"\n",
                "is no list of devices"},
        BadMain{"BadListOfDevices", "[[worker]]\nmodel = \"detect\"\nenv = \"py\"\ndevices = \"cuda,cuda:0\"\n",
                "'cuda,cuda:0' is no list of devices (\"cpu\"; \"cuda\", a GPU that the node chooses;"},
        BadMain{"UploadOverArena", "[node.limits]\nmax_upload_mb = 300\n",
                "max_upload_mb (300) may be half of input_arena_mb (256) at most"},
        BadMain{"CentralsWithoutKey", "[node]\ncentral = [\"tcp://a:1\", \"tcp://b:1\"]\n", "add central_key"},
        BadMain{"CentralsWithOtherKeys",
                "[node]\ncentral = \"tcp://a:1\"\ncentral_key = "
                "[\"1111111111111111111111111111111111111111111111111111111111111111\", "
                "\"1111111111111111111111111111111111111111111111111111111111111111\"]\n",
                "as many keys as addresses"},
        BadMain{"NoCentral", "[node]\ncentral = []\n", "node.central: is empty"},
        BadMain{"BadCentral", "[node]\ncentral = [\"tcp://a:1\", \"b\"]\ncentral_key = \"11\"\n",
                "node.central: 'b' is no URL"},
        BadMain{"ShortKey", "[node]\ncentral_key = \"00ff\"\n", "expected 64 hexadecimal digits"},
        BadMain{"EnvWithoutPython", "[env.other]\n", "env.other: 'python' is missing"},
        BadMain{"PluginKey", "[plugins]\nfoldr = \"x\"\n", "plugins.foldr: unknown key; did you mean 'folder'?"},
        BadMain{
            "PluginKeyFarFromAll", "[plugins]\nx = 1\n",
            "plugins.x: unknown key; [plugins] has 'folder', 'trusted_keys', 'fault_limit', 'call_budget_ms', "
            "'hang_ms', 'gate', 'gate_trace', 'gate_cluster', 'gate_model', 'gate_tolerance_percent', 'gate_limit_s', "
            "'gate_least_requests' and one table for each plugin"},
        BadMain{"NoTrustedKeys", "[plugins]\ntrusted_keys = []\n",
                "plugins.trusted_keys: is empty: leave the line out"},
        BadMain{"TrustedKeyTooShort", "[plugins]\ntrusted_keys = [\"00ff\"]\n",
                "plugins.trusted_keys: entry 1: expected 64 hexadecimal digits"},
        BadMain{"TrustedKeyTooLong",
                "[plugins]\ntrusted_keys = [\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0\"]\n",
                "plugins.trusted_keys: entry 1 is longer than 64 bytes"},
        BadMain{"TrustedKeyAlone", "[plugins]\ntrusted_keys = \"00\"\n", "expected an array of texts, got a text"},
        BadMain{"TrustedKeyNumber", "[plugins]\ntrusted_keys = [1]\n",
                "expected an array of texts, got an integer in it"},
        BadMain{"NoFaultAllowed", "[plugins]\nfault_limit = 0\n", "0 is out of range (1 to 1000000)"},
        BadMain{"NoBudget", "[plugins]\ncall_budget_ms = 0\n", "0 is out of range (1 to 60000)"},
        BadMain{"HangTooShort", "[plugins]\nhang_ms = 99\n", "99 is out of range (100 to 3600000)"},
        BadMain{"GateWithoutCluster", "[plugins]\ngate = true\n", "plugins.gate: needs gate_cluster"},
        BadMain{"GateWithoutModel", "[plugins]\ngate = true\ngate_cluster = \"gearbox.toml\"\n",
                "plugins.gate: needs gate_model"},
        BadMain{"GateClusterGone", "[plugins]\ngate_cluster = \"gone.toml\"\n",
                "plugins.gate_cluster: there is no file "},
        BadMain{"GateTraceGone", "[plugins]\ngate_trace = \"gone.csv\"\n", "plugins.gate_trace: there is no file "},
        BadMain{"GateModelNumber", "[plugins]\ngate_model = 3\n", "expected an array of texts, got an integer"},
        BadMain{"GateTolerance", "[plugins]\ngate_tolerance_percent = -1\n", "plugins.gate_tolerance_percent: "},
        BadMain{"PluginArray", "[plugins.x]\na = [1]\n",
                "plugins.x.a: expected a number, true, false or a text, got an array"},
        BadMain{"Duplicate", "[central]\nidle_ms = 1000\nidle_ms = 2000\n", "gearbox.toml:15:"},
        BadMain{"NoDatabase", "[central]\ndatabase = \"sqllite\"\n",
                "central.database: expected \"sqlite\", \"postgresql://HOST/DATABASE\" or \"host=... dbname=...\""},
        BadMain{"Password", "[central]\ndatabase = \"postgresql://me:s3cret@db/gearbox\"\n",
                "central.database: holds a password: put it into ~/.pgpass"},
        BadMain{"TableForValue", "[central.listen]\n", "central.listen: expected a text in quotes, got a table"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(ConfigFolder, TellsTheFaultsOfAllFilesAtOnce) {
  write("gearbox.toml", "[central]\nidle_ms = 0\n");
  write_changed("models/read/model.toml", kRead, "BYTES", "TEXT");
  write_changed("tasks/read-text.toml", kTask, "summary", "sumary");
  const std::string text = faults();
  EXPECT_THAT(text, HasSubstr("gearbox.toml:2:11: central.idle_ms: 0 is out of range"));
  EXPECT_THAT(text, HasSubstr("models/read/model.toml:9:9: output[1].dtype: 'TEXT' is no type"));
  EXPECT_THAT(text, HasSubstr("tasks/read-text.toml:1:1: sumary: unknown key; did you mean 'summary'?"));
}

TEST_F(ConfigFolder, RefusesAFolderOrMainFileThatIsMissingOrEmpty) {
  EXPECT_EQ(load(folder() / "none").error().code, Errc::bad_config);
  write("gearbox.toml", "");
  EXPECT_THAT(faults(), HasSubstr("gearbox.toml: is empty"));
  write("gearbox.toml", " \n\t\n");
  EXPECT_THAT(faults(), HasSubstr("gearbox.toml: is empty"));
  std::filesystem::remove(folder() / "gearbox.toml");
  EXPECT_THAT(faults(), HasSubstr("gearbox.toml: no such file"));
  write("gearbox.toml", kMain);
  write("tasks/read-text.toml", "");
  EXPECT_THAT(faults(), HasSubstr("tasks/read-text.toml: is empty"));
}

TEST_F(ConfigFolder, RefusesADottedKeyOf400KilobytesAndGoesOnWorking) {
  std::string key;
  for (int i = 0; i < 100'000; ++i) key += "a.";
  write("gearbox.toml", key + "a = 1\n");
  EXPECT_THAT(faults(), HasSubstr("gearbox.toml:1:64: a dotted key of more than 32 parts"));
  write("gearbox.toml", kMain);
  EXPECT_EQ(faults(), "");
}

TEST_F(ConfigFolder, IgnoresEditorsFilesAndFilesOfOtherKinds) {
  write("tasks/.read-text.toml.swp", "x");
  write("tasks/read-text.toml~", "x");
  write("tasks/notes.md", "x");
  write("models/README.md", "x");
  write("models/.git/x", "x");
  EXPECT_EQ(faults(), "");
}

TEST_F(ConfigFolder, DoesNotHangOnAFifoNamedLikeATask) {
  ASSERT_EQ(::mkfifo((folder() / "tasks/fifo.toml").c_str(), 0600), 0);
  EXPECT_THAT(faults(), HasSubstr("tasks/fifo.toml: is not a regular file"));
}

TEST_F(ConfigFolder, RefusesTwoFoldersWithOneModelAndVersion) {
  write("models/other/model.toml", kDetect);
  write("models/other/model.py", "");
  EXPECT_THAT(faults(), HasSubstr("model detect 1 is in"));
}

TEST_F(ConfigFolder, RefusesAModelWhoseGrantDoesNotFitIntoTheOutputArena) {
  write("gearbox.toml", std::string(kMain) + "[node.limits]\noutput_arena_mb = 1\n");
  write("models/detect/model.toml", std::string("max_output_kb = 1025\n") + kDetect);
  EXPECT_THAT(faults(),
              HasSubstr("max_output_kb of detect 1 (1025) does not fit into node.limits.output_arena_mb (1)"));
}

TEST_F(ConfigFolder, CountsWhatAGrantTakesBesidesTheOutputs) {
  write("gearbox.toml", std::string(kMain) + "[node.limits]\noutput_arena_mb = 1\n");
  write("models/detect/model.toml", std::string("max_output_kb = 1024\n") + kDetect);
  EXPECT_THAT(faults(), HasSubstr("max_output_kb of detect 1 (1024) does not fit"));
}

TEST_F(ConfigFolder, RefusesMoreWorkersThanANodeMayHave) {
  std::string workers;
  for (int i = 0; i < 16; ++i) workers += "[[worker]]\nmodel = \"detect\"\nenv = \"onnx\"\ncount = 64\n";
  write("gearbox.toml", std::string(kMain) + workers);
  EXPECT_THAT(faults(), HasSubstr("a node has 1024 workers at most; with this table it would be "));
}

TEST_F(ConfigFolder, TheDigestChangesWithEachFileAndOnlyThen) {
  const std::string first = load(folder()).value()->digest;
  EXPECT_EQ(load(folder()).value()->digest, first);
  write("gearbox.toml", std::string(kMain) + "# note\n");
  const std::string second = load(folder()).value()->digest;
  write("tasks/read-text.toml", std::string(kTask) + "# note\n");
  const std::string third = load(folder()).value()->digest;
  write("models/read/model.py", "class Model: x = 1\n");
  const std::string fourth = load(folder()).value()->digest;
  EXPECT_NE(first, second);
  EXPECT_NE(second, third);
  EXPECT_NE(third, fourth);
}

}  // namespace
}  // namespace gearbox::config
