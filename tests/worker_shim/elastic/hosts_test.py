"""A group whose ranks live on two hosts: two rank hosts that share no memory with the driver's ranks, streams in place of descriptors.

The streams go straight to the rank host here; integration.elastic_hosts has nodes and networks between.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from support import elastic


class Site:
    """Another host: a rank host as a process, which can be killed and started again."""

    def __init__(self, folder, checkpoint, **options):
        self.socket = os.path.join(folder, "host.sock")
        self.options = {"checkpoint": str(checkpoint), "role": "ranks", "drivers": [""], **options}
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, "-B", "-m", "support.elastic_rank_host", json.dumps(self.options), self.socket],
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n"

    def kill(self):
        self.process.kill()
        self.close()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()
        checkpoint = elastic.random_checkpoint(elastic.small_shape())
        cls.path = checkpoint.__enter__()
        cls.addClassCleanup(checkpoint.__exit__, None, None, None)
        cls.prompts = [[1, 5, 9], [7] * 40, [3], list(range(60)), [8, 8, 2] * 9, [50]]
        reference = elastic.Reference(cls.path)
        cls.expected = [reference.generate(prompt, 100) for prompt in cls.prompts]

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gearbox-elastic-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def site(self, **options):
        site = Site(self.folder, self.path, **options)
        self.addCleanup(site.close)
        return site

    def start(self, site, there=2, **options):
        hosts = [{"name": "b", "ranks": there, "group": "story", "socket": site.socket}]
        driver = elastic.start(self.path, hosts=hosts, spares=0, **options)
        self.addCleanup(driver.close)
        return driver

    def submit(self, driver):
        from gearbox_elastic.sequences import Request
        return [driver.submit(Request(prompt, max_tokens=100)) for prompt in self.prompts]

    def check(self, name, streams, first=()):
        found = elastic.Differences(self)
        for number, (stream, expected) in enumerate(zip(streams, self.expected)):
            got = (list(first) if number == 0 else []) + stream.all(180)
            found.compare(f"{name}, prompt {number}", got, [token for token, _ in expected], [margin for _, margin in expected])
        found.check()

    @staticmethod
    def status(driver):
        return driver.ask({"op": "status"}, 60)

    def there(self, driver):
        """The pids of the ranks on the other host."""
        return [rank["host_pid"] for rank in self.status(driver)["ranks"] if rank["host"] == "b"]

    def some(self, stream, count=5):
        first = []
        while len(first) < count:
            first += stream.take(60)[0]
        return first

    def test_the_same_tokens_in_every_gear_and_over_shifts(self):
        driver = self.start(self.site())
        status = self.status(driver)
        self.assertEqual([rank["host"] for rank in status["ranks"]], ["", "", "b", "b"])
        self.assertEqual([rank["pid"] for rank in status["ranks"]][2:], [0, 0], "a process of another host is none of this one's")
        chance = random.Random(5)
        imported = paused = 0
        for gear in (1, 2, 3, 4, 5, 6):
            with self.subTest(gear=gear):
                self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
                streams = self.submit(driver)
                first = self.some(streams[0], 20)
                for other in chance.sample(range(1, 7), 2):
                    answer = driver.ask({"op": "shift", "gear": other, "shares": [chance.randint(1, 3) for _ in range(4)]}, 120)
                    self.assertTrue(answer["ok"], answer)
                    imported, paused = imported + answer["imported_bytes"], paused + answer["pause_bytes"]
                self.check(f"from gear {gear}", streams, first)
        self.assertGreater(imported, 0)
        self.assertGreater(paused, 0)
        figures = driver.ask({"op": "figures"}, 60)["ranks"]
        self.assertEqual([rank["free_units"] for rank in figures], [rank["units"] for rank in figures])
        self.assertGreater(min(rank["cache_moved_bytes"] for rank in figures), 0)
        self.assertEqual(len(driver.deaths), 0)

    def test_requests_that_come_while_it_shifts(self):
        """Some have no cache yet when it changes hosts, some are over when what was asked for them comes."""
        from gearbox_elastic.sequences import Request
        driver = self.start(self.site())
        chance = random.Random(9)
        streams = []
        for _ in range(60 if elastic.LONG else 15):
            answers = []
            driver._post(lambda: driver.command({"op": "shift", "gear": chance.randint(1, 6)}, answers.append))
            while not answers:
                number = chance.randrange(len(self.prompts))
                length = chance.choice((1, 3, 20, 60))
                streams.append((number, length, driver.submit(Request(self.prompts[number], max_tokens=length))))
                streams[-chance.randint(1, 6):][0][2].take(60)
            self.assertTrue(answers[0]["ok"], answers[0])
        found = elastic.Differences(self)
        for number, length, stream in streams:
            expected = self.expected[number][:length]
            rest = stream.all(180)  # of some, tokens were taken above
            found.compare(f"prompt {number}", rest, [token for token, _ in expected][length - len(rest):],
                          [margin for _, margin in expected][length - len(rest):])
        found.check()
        self.assertEqual(len(driver.deaths), 0)

    def test_a_rank_that_is_killed_there(self):
        driver = self.start(self.site())
        for gear in (3, 5):
            self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
            streams = self.submit(driver)
            first = self.some(streams[0])
            os.kill(self.there(driver)[1], signal.SIGKILL)
            self.check(f"gear {gear}", streams, first)
            self.assertEqual((self.status(driver)["gear"], len(self.status(driver)["ranks"])), (gear, 4))

    def test_a_rank_that_is_killed_here(self):
        driver = self.start(self.site(), gear=4)
        streams = self.submit(driver)
        first = self.some(streams[0])
        os.kill(self.status(driver)["ranks"][0]["pid"], signal.SIGKILL)
        self.check("gear 4", streams, first)

    def test_ranks_killed_at_random_moments_of_shifts(self):
        """Here or there, before and after the record, while cache is on its way between the hosts."""
        chance = random.Random(7)
        driver = self.start(self.site(), most_deaths=1000)
        for number in range(40 if elastic.LONG else 6):
            gear = chance.randint(1, 6)
            streams = self.submit(driver)
            first = self.some(streams[0])
            answers = []
            victim = self.status(driver)["ranks"][chance.randrange(4)]["host_pid"]
            killer = threading.Timer(chance.random() * 0.15, os.kill, (victim, signal.SIGKILL))
            killer.start()
            driver._post(lambda: driver.command({"op": "shift", "gear": gear}, answers.append))
            self.check(f"kill {number} in a shift to gear {gear}", streams, first)
            killer.join()
            elastic.wait_for(lambda: answers and self.status(driver)["phase"] == "running" and len(self.status(driver)["ranks"]) == 4)
            if answers[0]["ok"]:
                self.assertEqual(self.status(driver)["gear"], gear)
        figures = driver.ask({"op": "figures"}, 60)["ranks"]
        self.assertEqual([rank["free_units"] for rank in figures], [rank["units"] for rank in figures])

    def test_a_rank_killed_there_before_it_takes_over(self):
        os.environ["GEARBOX_STOP_AT"] = "rank3.shift.copy"
        try:
            site = self.site()
        finally:
            del os.environ["GEARBOX_STOP_AT"]
        driver = self.start(site)
        streams = self.submit(driver)
        first = self.some(streams[0])
        victim = self.there(driver)[1]
        answers = []
        driver._post(lambda: driver.command({"op": "shift", "gear": 3, "term": 3}, answers.append))

        def stopped():
            with open(f"/proc/{victim}/stat", encoding="ascii", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] == "T"
        elastic.wait_for(stopped)
        os.kill(victim, signal.SIGKILL)
        self.check("gear 3", streams, first)
        self.assertEqual((answers[0]["ok"], answers[0]["recovered"], self.status(driver)["gear"]), (True, True, 3))

    def test_a_rank_that_hangs_there_is_left_and_replaced(self):
        driver = self.start(self.site(), gear=3, step_limit_s=1.0)
        streams = self.submit(driver)
        first = self.some(streams[0])
        victim = self.there(driver)[0]
        os.kill(victim, signal.SIGSTOP)
        self.addCleanup(os.kill, victim, signal.SIGKILL)
        self.check("gear 3", streams, first)
        self.assertNotIn(victim, self.there(driver))

    def test_a_host_that_is_gone_is_done_without_and_taken_back(self):
        site = self.site()
        driver = self.start(site, gear=3, host_limit_s=1.0)
        streams = self.submit(driver)
        first = self.some(streams[0])
        site.kill()
        self.check("without the host", streams, first)
        status = self.status(driver)
        self.assertEqual((status["hosts"][0]["away"], status["phase"], len(status["ranks"])), (True, "running", 2))
        refused = driver.ask({"op": "shift", "gear": 4}, 60)
        self.assertIn("host 'b' with rank 2 is away", refused["why"])
        streams = self.submit(driver)
        first = self.some(streams[0])
        site.start()
        elastic.wait_for(lambda: self.status(driver)["gear"] == 3 and not self.status(driver)["wants"], 60)
        self.check("while the host comes back", streams, first)
        self.assertEqual(len(self.status(driver)["ranks"]), 4)
        self.check("with it", self.submit(driver))

    def test_a_host_that_comes_late(self):
        site = self.site()
        site.kill()
        driver = self.start(site, gear=2, host_limit_s=0.5)
        self.check("before it is there", self.submit(driver))
        self.assertTrue(self.status(driver)["hosts"][0]["away"])
        site.start()
        elastic.wait_for(lambda: len(self.status(driver)["ranks"]) == 4 and not self.status(driver)["wants"], 60)
        self.check("with it", self.submit(driver))

    def test_a_group_that_does_not_fit_without_the_host_waits_for_it(self):
        site = self.site()
        driver = self.start(site, there=4, gear=3, host_limit_s=0.3)
        streams = self.submit(driver)
        first = self.some(streams[0])
        site.kill()
        elastic.wait_for(lambda: driver.group.hosts[0].waited_for)
        self.assertEqual(self.status(driver)["phase"], "starting")
        site.start()
        self.check("when it is back", streams, first)

    def test_a_sequence_that_fits_only_with_the_host_waits_for_it(self):
        from gearbox_elastic.sequences import Request
        site = self.site()
        unit = 2 * 16 * 8 * 4  # 4 layers, 3 kv heads: 12 units a block of 16 positions; 10 blocks need 120
        driver = self.start(site, gear=4, host_limit_s=0.3, cache_mb=50 * unit / (1 << 20))
        stream = driver.submit(Request(self.prompts[0], max_tokens=100))
        long = driver.submit(Request(self.prompts[3], max_tokens=100))
        first = self.some(long)
        site.kill()
        elastic.wait_for(lambda: self.status(driver)["hosts"][0]["away"] and self.status(driver)["waiting"])
        site.start()
        found = elastic.Differences(self)
        for name, got, expected in (("short", stream.all(180), self.expected[0]), ("long", first + long.all(180), self.expected[3])):
            found.compare(name, got, [token for token, _ in expected], [margin for _, margin in expected])
        found.check()

    def test_another_checkpoint_there_is_refused(self):
        with elastic.random_checkpoint(elastic.small_shape(), seed=2) as other:
            site = Site(self.folder, other)
            self.addCleanup(site.close)
            driver = self.start(site, gear=2, host_limit_s=1.0)
            self.assertIn("has another checkpoint", self.status(driver)["hosts"][0]["why"])
            self.check("alone", self.submit(driver))

    def test_a_node_that_is_no_driver_of_the_model_is_refused(self):
        driver = self.start(self.site(drivers=["somebody"]), gear=2, host_limit_s=0.5)
        self.assertIn("node '' is none of this model's drivers", self.status(driver)["hosts"][0]["why"])

    def test_a_stream_that_ends_is_its_rank_s_end(self):
        from support import elastic as support
        driver = self.start(self.site())
        ranks = self.there(driver)
        driver.close()
        support.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks))

    def test_another_engine_shifts_between_hosts(self):
        from gearbox_elastic.sequences import Request
        from support import summing_engine
        site = Site(self.folder, "", engine="support.summing_engine:SummingEngine")
        self.addCleanup(site.close)
        hosts = [{"name": "b", "ranks": 2, "group": "story", "socket": site.socket}]
        driver = elastic.start("", engine="support.summing_engine:SummingEngine", hosts=hosts)
        self.addCleanup(driver.close)
        streams = [driver.submit(Request(prompt, max_tokens=150)) for prompt in self.prompts]
        for gear in (4, 2, 5, 3, 6, 1):
            self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 60)["ok"])
        for prompt, stream in zip(self.prompts, streams):
            self.assertEqual([token for token, _ in stream.all(180)], summing_engine.expected(prompt, 150))


class Waiting(unittest.TestCase):
    def test_a_call_that_ends_between_the_wait_and_the_look_has_not_failed(self):
        elastic.need_torch()
        from gearbox_elastic.collective.spanning import SpanningLinks

        class Work:
            waits = 0

            def wait(self, limit=None):
                self.waits += 1
                if self.waits == 1:
                    raise RuntimeError("Operation timed out!")

            def is_completed(self):
                return self.waits > 0
        SpanningLinks._finish(None, Work())


class Configuration(unittest.TestCase):
    def test_what_is_wrong_is_told(self):
        elastic.need_torch()
        from gearbox_elastic.options import Options
        host = {"name": "b", "ranks": 2}
        for values, why in (({"hosts": [{"name": "b"}]}, "hosts.ranks = None of 'b'"), ({"hosts": [host, host]}, "stands there twice"),
                            ({"hosts": [dict(host, ranks=9)]}, "the whole group has 4"), ({"hosts": [dict(host, port=1)]}, "unknown key 'port'"),
                            ({"hosts": [host], "collective": "shared"}, "not together"), ({"address": "host.example"}, "no numeric address"),
                            ({"role": "ranks"}, "needs drivers"), ({"role": "rank"}, "is not 'ranks'")):
            with self.subTest(values), self.assertRaisesRegex(ValueError, why):
                Options.of_dict(values)


if __name__ == "__main__":
    unittest.main()
