"""plugins.gate: a balancer that is dropped into a running broker is replayed against the one in force before it serves."""
import json
import re
import unittest

import support  # noqa: F401  (finds the modules of tests/support)
import cluster
import swap_storm
import test_live
from swap_storm import ROLES, write_by_rename

CLUSTER = """
name = "four-cards"
[[nodes]]
name = "n"
card = "cpu"
cards = 4
"""

# A card takes any number of calls ahead of time: who sends all to one card has all of them wait there.
MODEL = """
name = "slow"
kind = "pipeline"
prefetch = 1000
[[steps]]
name = "look"
per_item_ms = 100
"""

KEYS = """
gate = true
gate_trace = "make:steady,rate=20,duration=20"
gate_cluster = "replay/cluster.toml"
gate_model = "replay/model.toml"
"""


def gate_configs(folder):
    swap_storm.storm_configs(folder)
    (folder / "replay").mkdir()
    (folder / "replay/cluster.toml").write_text(CLUSTER)
    (folder / "replay/model.toml").write_text(MODEL)
    file = folder / "gearbox.toml"
    text = file.read_text()
    assert text.count("[plugins]\n") == 1
    file.write_text(text.replace("[plugins]\n", "[plugins]" + KEYS))


class Gate(test_live.Site):
    SLOW = 150  # seconds: a replay gives way to everything else on the host

    def setUp(self):
        self.site = cluster.Cluster(configs=gate_configs)
        self.addCleanup(self.site.__exit__)
        self.drop = self.site.configs / "plugins"
        self.config = self.site.configs / "gearbox.toml"
        self.site.start()
        self.site.wait_ready()
        self.file = self.site.scratch / "hello.bin"
        self.file.write_bytes(b"hello")

    def drop_build(self, path):
        write_by_rename(self.drop / "balancer_least_loaded.so", (self.site.build / "swap_plugins" / path).read_bytes())

    def submit(self, count=1):
        done = self.site.run("submit", "--task", "echo", *[self.file] * count, "--json")
        self.assertEqual([answer["ok"] for answer in json.loads(done.stdout.splitlines()[0])], [True] * count)

    def in_force(self, version):
        for role in ROLES:
            self.assertTrue(self.rows(role, name="least_loaded", state="loaded", version=version), f"{role}\n{self.site.log()}")

    def refused(self, version):
        return self.wait_for("refused", seconds=self.SLOW, name="least_loaded", version=version, state="refused")["reason"]

    def test_a_worse_one_is_refused_and_a_good_one_swapped_in(self):
        before = {role: self.site.record(role)["pid"] for role in ROLES}
        self.drop_build("unruly/least_loaded_favours.so")
        reason = self.refused("9.0-favours")
        print(reason, flush=True)
        self.assertRegex(reason, r"^gate: worse: \w+ [\d.e+]+ -> [\d.e+]+ \(\+\d+\.\d %; 5 % are tolerated\)$")
        self.wait_for_log(r"node \| .*plugin refused by the gate kind=balancer name=least_loaded version=9\.0-favours .*worse: ")
        self.in_force("1.0")
        self.submit(3)
        listed = self.site.run("plugins", "list").stdout
        self.assertRegex(listed, r"9\.0-favours .*refused .*gate: worse")

        self.drop_build("1.1/balancer_least_loaded.so")
        self.wait_for("swapped in", seconds=self.SLOW, name="least_loaded", version="1.1", state="loaded")
        self.wait_for_log(r"node \| .*plugin passed the gate .*version=1\.1 .* requests=\d\d\d")
        self.submit(3)
        self.assertEqual({role: self.site.record(role)["pid"] for role in ROLES}, before)
        self.assertEqual([path.name for path in (self.site.state / "plugins").glob("gate-*")], [])
        self.end()

    def test_one_that_crashes_in_the_replay_is_refused_there(self):
        before = {role: self.site.record(role)["pid"] for role in ROLES}
        self.drop_build("unruly/least_loaded_crashes.so")
        self.assertEqual(self.refused("9.0-crashes"), "gate: while it was replayed: crashed: SIGSEGV")
        self.in_force("1.0")
        self.submit(30)
        self.assertEqual({role: self.site.record(role)["pid"] for role in ROLES}, before)
        self.end()

    def test_one_that_hangs_in_the_replay_is_refused_there(self):
        self.take_over(("gate = true\n", "gate = true\ngate_limit_s = 30\n"))
        self.drop_build("unruly/least_loaded_hangs.so")
        self.wait_for("judged", seconds=20, name="least_loaded", version="9.0-hangs", state="waiting")
        self.submit(30)
        self.assertRegex(self.refused("9.0-hangs"), r"^gate: .*no end within 30 s \(plugins.gate_limit_s\)$")
        self.in_force("1.0")
        self.submit()
        self.end()

    def test_what_the_node_recorded_is_replayed(self):
        self.take_over((KEYS.splitlines()[2] + "\n", "gate_least_requests = 40\n"))
        self.submit(5)
        self.drop_build("1.1/balancer_least_loaded.so")
        reason = self.wait_for("waits", roles=["node"], seconds=self.SLOW, name="least_loaded", version="1.1", state="waiting")["reason"]

        def waits_for_traffic():
            rows = self.rows("node", name="least_loaded", version="1.1", state="waiting")
            return rows and re.search(r"nothing to replay: the node has recorded 5 requests, 40 are needed", rows[0]["reason"])
        cluster.wait_until(f"waits for traffic ({reason})", waits_for_traffic, self.SLOW)
        self.in_force("1.0")
        self.submit(40)
        self.wait_for("swapped in", seconds=self.SLOW, name="least_loaded", version="1.1", state="loaded")
        self.wait_for_log(r"plugin passed the gate .*version=1\.1 .* requests=45")
        self.end()

    def test_what_is_missing_is_a_fault_of_the_configuration(self):
        self.edit(('gate_cluster = "replay/cluster.toml"\n', ""))
        self.wait_for_log(r"node \| .*configuration refused.*plugins\.gate: needs gate_cluster")


if __name__ == "__main__":
    unittest.main()
