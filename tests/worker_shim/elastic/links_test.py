"""Shared memory and gloo carry the same: links by themselves, as processes; and whole groups on gloo."""
import multiprocessing
import os
import tempfile
import unittest

from support import elastic

PLAN = {"replicas": [{"stages": [
    {"layers": [0, 2], "ranks": [
        {"rank": 0, "kv_heads": [0, 2], "hidden": [0, 20], "vocab": [0, 50], "positions": {"part": 0, "weights": [1, 1]}},
        {"rank": 1, "kv_heads": [0, 2], "hidden": [20, 50], "vocab": [50, 101], "positions": {"part": 1, "weights": [1, 1]}},
        {"rank": 2, "kv_heads": [2, 3], "hidden": [50, 100], "vocab": [101, 101]}]},
    {"layers": [2, 4], "ranks": [{"rank": 3, "kv_heads": [0, 3], "hidden": [0, 100], "vocab": [0, 101]}]}]}]}


def rank_of_links(kind, rank, meeting, results):
    import torch
    from gearbox_elastic.collective.gloo import GlooLinks
    from gearbox_elastic.collective.shared import SharedLinks
    from gearbox_elastic.plan import plan_of_dict
    from gearbox_elastic.role import Topology
    torch.set_num_threads(1)
    topology = Topology(plan_of_dict(PLAN, elastic.small_shape()))
    links = SharedLinks(topology, rank, os.dup(meeting), 30000) if kind == "shared" else GlooLinks(topology, rank, meeting, 30000)
    found = []
    for size in (3, 100000):  # the larger goes in pieces
        x = torch.arange(size, dtype=torch.float32) * 0.1 + rank
        if rank < 3:
            found.append(links.all_reduce(x.clone()))
            links.barrier()
            if rank < 2:
                found.append(links.gather_positions(x))
            links.send(found[-1].reshape(-1)[:size])
        else:
            found.append(links.receive(torch.empty(size)))
    results.put((rank, [each.numpy().tolist() for each in found], links.moved_bytes))
    links.close()


class Links(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        elastic.need_torch()

    def run_links(self, kind, meeting):
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        ranks = [context.Process(target=rank_of_links, args=(kind, rank, meeting, results)) for rank in range(4)]
        for rank in ranks:
            rank.start()
        try:
            found = dict((rank, (values, moved)) for rank, values, moved in (results.get(timeout=60) for _ in ranks))
        finally:
            for rank in ranks:
                rank.join(10)
                rank.kill()
        return found

    def test_shared_memory_and_gloo_give_the_same(self):
        from gearbox_elastic.collective.shared import Region
        from gearbox_elastic.plan import plan_of_dict
        from gearbox_elastic.role import Topology
        region = Region.make(Topology(plan_of_dict(PLAN, elastic.small_shape())))
        try:
            shared = self.run_links("shared", region.fd)
        finally:
            region.close()
        with tempfile.TemporaryDirectory() as folder:
            gloo = self.run_links("gloo", os.path.join(folder, "store"))
        import numpy as np
        for rank in range(4):
            self.assertEqual(shared[rank][1], gloo[rank][1], "bytes moved")
            for one, other in zip(shared[rank][0], gloo[rank][0]):
                np.testing.assert_allclose(one, other, rtol=1e-6)
        self.assertEqual(shared[0][0][0], shared[1][0][0])  # to the bit
        np.testing.assert_allclose(shared[2][0][0], [3.0, 3.3, 3.6], rtol=1e-6)
        self.assertEqual(shared[0][0][1], shared[1][0][1])
        np.testing.assert_allclose(shared[1][0][1], [[0, 0.1, 0.2], [1, 1.1, 1.2]], rtol=1e-6)
        np.testing.assert_allclose(shared[3][0][0], [0, 0.1, 0.2], rtol=1e-6)


class OnGloo(unittest.TestCase):
    def test_golden_answers_and_a_dead_rank(self):
        import signal
        lines = elastic.golden()[:6]
        driver = elastic.start(elastic.DATA / "stories260K.bin", collective="gloo", gear=3)
        try:
            self.assertEqual(driver.ask({"op": "status"}, 60)["collective"], "gloo")
            for gear in (3, 6, 4, 5):
                self.assertTrue(driver.ask({"op": "shift", "gear": gear}, 120)["ok"])
                found = elastic.Differences(self)
                streams = [driver.submit(elastic.request(line)) for line in lines]
                if gear == 4:
                    os.kill(driver.ask({"op": "status"}, 60)["ranks"][1]["pid"], signal.SIGKILL)
                for line, stream in zip(lines, streams):
                    found.compare(f"gloo gear {gear} {line['prompt']!r}", stream.all(180), line["greedy_ids"])
                found.check()
        finally:
            driver.close()


if __name__ == "__main__":
    unittest.main()
