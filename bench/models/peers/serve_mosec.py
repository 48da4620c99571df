"""The model behind mosec: a front in Rust and the model in a process of its own, joined by a unix socket.

usage: MODEL_FOLDER=... MODEL_CPU=1 MODEL_SHAPE=224,224,3 MODEL_BATCH=1 MODEL_DELAY_MS=0 serve_mosec.py --port N --address 127.0.0.1 ...
Raw bytes in both directions, by (de)serialize as mosec's documentation shows: faster than its JSON and its msgpack. The front stays on
the core that this was started on.
"""
import os
import sys

import numpy as np
from mosec import Server, Worker

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import direct  # noqa: E402

FOLDER = os.environ["MODEL_FOLDER"]
SHAPE = [int(length) for length in os.environ["MODEL_SHAPE"].split(",")]
BATCH = int(os.environ["MODEL_BATCH"])


class Served(Worker):
    resp_mime_type = "application/octet-stream"

    def __init__(self):
        super().__init__()
        os.sched_setaffinity(0, {int(os.environ["MODEL_CPU"])})
        self.model = direct.load(FOLDER)

    def deserialize(self, data):
        return {"data": np.frombuffer(data, np.uint8).reshape(SHAPE)}

    def serialize(self, data):
        return data["data"].tobytes()

    def forward(self, data):  # a list when max_batch_size is above 1
        return self.model.infer(data) if BATCH > 1 else self.model.infer([data])[0]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Served, num=1, max_batch_size=BATCH, max_wait_time=int(os.environ["MODEL_DELAY_MS"]))
    server.run()
