"""A group with ranks on two hosts, each a network namespace with a node: texts go on while it shifts through all gears, and when a rank
there, the node there or the link between the two is gone. Needs root; where that is not allowed, it says NOT RUN."""
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import support  # noqa: F401  where the modules of tests/support are
from cluster import Cluster, wait_until
import test_elastic
from test_elastic import DATA, configs, has_torch

NORTH, SOUTH = "10.79.0.1", "10.79.0.2"


def run(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


def here(folder, trained, address, name):
    """The example's configuration, listening on a host's own address."""
    configs(folder, trained)
    file = folder / "gearbox.toml"
    text = file.read_text().replace("127.0.0.1", address).replace("[node]\n", f'[node]\nname = "{name}"\n')
    file.write_text(text)
    return file, folder / "models/stories/engine.toml"


def driver_configs(folder, trained):
    main, engine = here(folder, trained, NORTH, "north")
    # Limits that a busy machine keeps, and a lost host is not waited for longer than a test likes.
    head = f'address = "{NORTH}"\nhost_limit_s = 3.0\nstep_limit_s = 5.0\nprice_limit_s = 10.0\nmost_deaths = 100\n'
    engine.write_text(head + engine.read_text() + '\n[[hosts]]\nname = "south"\nranks = 2\ngroup = "story_ranks"\n')


def lender_configs(folder, trained, central):
    main, engine = here(folder, trained, SOUTH, "south")
    text = main.read_text().replace("[central]\n", "[central]\nenabled = false\n")
    text = text.replace("[node]\n", '[node]\ncentral = "{}"\ncentral_key = "{}"\n'.format(*central))
    main.write_text(text.replace('model = "stories"', 'model = "story_ranks"'))
    engine.write_text(f'role = "ranks"\ndrivers = ["north"]\naddress = "{SOUTH}"\nspares = 2\n' + engine.read_text())
    shutil.move(folder / "models/stories", folder / "models/story_ranks")
    record = folder / "models/story_ranks/model.toml"
    record.write_text(record.read_text().replace('name = "stories"', 'name = "story_ranks"'))
    shutil.rmtree(folder / "tasks")
    (folder / "tasks").mkdir()


class ElasticHosts(unittest.TestCase):
    finished = classmethod(test_elastic.Gears.finished.__func__)
    submit = classmethod(test_elastic.Gears.submit.__func__)
    ask = classmethod(test_elastic.Gears.ask.__func__)
    check = test_elastic.Gears.check
    files = 0

    @classmethod
    def setUpClass(cls):
        if not has_torch():
            print("NOT RUN: /usr/bin/python3 has no PyTorch", flush=True)
            raise unittest.SkipTest("no PyTorch")
        cls.names = [f"gearbox-{os.getpid()}-{name}" for name in ("north", "south")]
        cls.addClassCleanup(cls.remove_namespaces)
        try:
            cls.make_namespaces()
        except (OSError, subprocess.CalledProcessError) as failed:
            reason = f"network namespaces: {getattr(failed, 'stderr', None) or failed}".strip()
            print(f"NOT RUN: {reason}", flush=True)
            raise unittest.SkipTest(reason)
        cls.lines = [json.loads(line) for line in (DATA / "golden.jsonl").read_text().splitlines()] \
            if (DATA / "golden.jsonl").exists() else None
        trained = cls.lines is not None
        cls.site = cls.host(0, driver_configs, trained=trained)
        wait_until("its central", lambda: cls.site.status().get("central"), 60)
        cls.south = cls.host(1, lender_configs, trained=trained, central=cls.site.central(), start=False)
        identity = cls.south.run("keys", "show", "--config", cls.south.configs, "--make", "node", "--field", "node").stdout.strip()
        cls.site.run("nodes", "add", "south", identity)
        cls.begin(cls.south)
        cls.site.wait_ready(120)
        cls.wait_whole()
        prompts = [line["prompt"] for line in cls.lines[1:7]] if trained else ["one", "two", "three"]
        cls.prompts = [json.dumps({"prompt": prompt, "max_tokens": 96, "ignore_end": True}) for prompt in prompts]
        cls.expected = [line["text"].encode() for line in cls.lines[1:7]] if trained else \
            [cls.finished(cls.submit(prompt)) for prompt in cls.prompts]

    @classmethod
    def tearDownClass(cls):
        ranks = [rank["host_pid"] for rank in cls.status()["ranks"]]
        assert cls.site.stop() == 0, cls.site.log()
        assert cls.south.stop() == 0, cls.south.log()
        assert cls.site.leftovers() + cls.south.leftovers() == []
        assert not any(os.path.exists(f"/proc/{pid}") for pid in ranks), "a rank has outlived its group"

    @classmethod
    def make_namespaces(cls):
        for name in cls.names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", cls.names[0], "link", "add", "between", "type", "veth", "peer", "name", "between", "netns", cls.names[1])
        for name, address in zip(cls.names, (NORTH, SOUTH)):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "between")
            run("ip", "-n", name, "link", "set", "between", "up")

    @classmethod
    def remove_namespaces(cls):
        for name in cls.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    @classmethod
    def host(cls, number, configuration, start=True, **options):
        host = Cluster(configs=configuration, **options)
        cls.addClassCleanup(host.__exit__)
        host.at_server = ["ip", "netns", "exec", cls.names[number]]
        if start:
            cls.begin(host)
        return host

    @staticmethod
    def begin(host):
        host.start({"GEARBOX_STATE": str(host.state)})

    @classmethod
    def status(cls):
        return cls.ask({"op": "status"})

    @classmethod
    def wait_whole(cls):
        def whole():
            status = cls.status()
            return len(status["ranks"]) == 4 and not status["wants"] and status["phase"] == "running" and status
        return wait_until("all four ranks", whole, 120)

    def begun(self, count=None):
        """Texts of which some tokens have come."""
        tokens = self.status()["tokens"]
        senders = [self.submit(prompt) for prompt in self.prompts[:count]]
        wait_until("first tokens", lambda: self.status()["tokens"] > tokens + 10, 60, 0.01)
        return senders

    def in_time(self):
        status = self.status()
        self.assertGreater(status["running"] + status["waiting"], 0, "it came too late")

    def go_to(self, gear):
        answer = self.ask({"op": "shift", "gear": gear})
        self.assertTrue(answer["ok"], answer)

    def test_texts_go_on_while_the_group_shifts_through_all_gears(self):
        self.assertEqual([rank["host"] for rank in self.wait_whole()["ranks"]], ["", "", "south", "south"])
        senders = [self.submit(prompt) for prompt in self.prompts]
        for gear in (2, 3, 4, 5, 6, 1):
            self.go_to(gear)
        self.check(senders)

    def test_a_rank_there_that_is_killed_breaks_no_text(self):
        self.wait_whole()
        self.go_to(3)
        senders = self.begun()
        os.kill(self.status()["ranks"][3]["host_pid"], signal.SIGKILL)
        self.in_time()
        self.check(senders)
        self.assertEqual(self.wait_whole()["gear"], 3)

    def test_the_node_there_that_is_killed_breaks_no_text(self):
        self.wait_whole()
        self.go_to(3)
        senders = self.begun()
        victim = self.south.record("node")["pid"]
        os.kill(victim, signal.SIGKILL)
        self.in_time()
        self.check(senders)
        wait_until("another node", lambda: (self.south.records().get("node") or {"pid": victim})["pid"] != victim, 60)
        self.assertEqual(self.wait_whole()["gear"], 3)
        self.check([self.submit(prompt) for prompt in self.prompts[:2]])

    def test_the_node_here_that_is_killed_takes_no_driver_along_and_its_next_process_brings_the_ranks_back(self):
        driver = self.wait_whole()["ranks"][0]["pid"]
        lent = [rank["host_pid"] for rank in self.status()["ranks"]][2:]
        victim = self.site.record("node")["pid"]
        os.kill(victim, signal.SIGKILL)
        wait_until("the ranks there have ended", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in lent), 60)
        wait_until("another node", lambda: (self.site.records().get("node") or {"pid": victim})["pid"] != victim, 60)
        self.site.wait_ready()
        self.assertEqual(self.wait_whole()["ranks"][0]["pid"], driver)
        self.check([self.submit(prompt) for prompt in self.prompts[:2]])

    def test_a_link_that_is_cut_breaks_no_text(self):
        self.wait_whole()
        self.go_to(2)
        senders = self.begun()
        run("ip", "-n", self.names[1], "link", "set", "between", "down")
        try:
            self.in_time()
            self.check(senders)
            wait_until("it is known", lambda: self.status()["hosts"][0]["away"], 60)
            self.check([self.submit(prompt) for prompt in self.prompts[:2]])
        finally:
            run("ip", "-n", self.names[1], "link", "set", "between", "up")
        self.assertEqual(self.wait_whole()["gear"], 2)
        self.check([self.submit(prompt) for prompt in self.prompts[:2]])

    def test_who_lends_ranks_answers_nobody_and_doctor_warns_of_what_is_not_encrypted(self):
        models = {worker["model"] for worker in self.south.status()["node"]["workers"]}
        self.assertEqual(models, {"story_ranks"})
        for host, address in ((self.site, NORTH), (self.south, SOUTH)):
            found = json.loads(host.run("doctor", "--json", "--config", host.configs, ok=False).stdout)["findings"]
            words = [each for each in found if each["check"].startswith("ranks ")]
            self.assertEqual([each["verdict"] for each in words], ["warn"])
            self.assertRegex(words[0]["what"], re.escape(address) + ".*not encrypted")

    def test_ports_of_ranks_are_on_the_addresses_of_the_configuration_only(self):
        self.wait_whole()
        self.go_to(3)
        ranks = {rank["host_pid"] for rank in self.status()["ranks"]}
        for name, address in zip(self.names, (NORTH, SOUTH)):
            lines = subprocess.run(["ip", "netns", "exec", name, "ss", "-Htanp"], check=True, capture_output=True, text=True).stdout
            ends = [line.split()[3:5] for line in lines.splitlines() if any(f"pid={pid}," in line for pid in ranks)]
            self.assertGreaterEqual(len(ends), 2 * 3, lines)  # each rank with the three others
            self.assertEqual({own.rpartition(":")[0] for own, _ in ends}, {address})
            self.assertEqual({peer.rpartition(":")[0] for _, peer in ends}, {NORTH, SOUTH})


if __name__ == "__main__":
    unittest.main()
