"""The model behind NVIDIA's PyTriton: Triton as the front, the model in this process, tensors through shared memory.

usage: MODEL_FOLDER=... MODEL_CPU=1 MODEL_SHAPE=224,224,3 MODEL_BATCH=1 MODEL_DELAY_MS=0 MODEL_ANSWER=int64:1 serve_pytriton.py PORT
Triton and its stub stay on the core that this was started on; this process moves to MODEL_CPU once Triton runs. Clients send
tensors as raw bytes (the binary extension of the KServe protocol), as Triton's own client does.
"""
import os
import signal
import sys

import numpy as np
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import direct  # noqa: E402


def main():
    shape = tuple(int(length) for length in os.environ["MODEL_SHAPE"].split(","))
    kind, length = os.environ["MODEL_ANSWER"].split(":")
    batch = int(os.environ["MODEL_BATCH"])
    delay_us = int(os.environ["MODEL_DELAY_MS"]) * 1000
    model = direct.load(os.environ["MODEL_FOLDER"])

    def infer(requests):
        """Each request is one item with a batch dimension of 1."""
        answers = model.infer([{"data": request.data["data"][0]} for request in requests])
        return [{"data": answer["data"][np.newaxis]} for answer in answers]

    config = TritonConfig(http_address="127.0.0.1", http_port=int(sys.argv[1]), allow_grpc=False, allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="model", infer_func=infer, inputs=[Tensor(name="data", dtype=np.uint8, shape=shape)],
            outputs=[Tensor(name="data", dtype=np.dtype(kind), shape=(int(length),))],
            config=ModelConfig(batching=True, max_batch_size=batch, batcher=DynamicBatcher(max_queue_delay_microseconds=delay_us)),
            strict=False)
        triton.run()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # by way of `with`: Triton and its shared memory go, too
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {int(os.environ["MODEL_CPU"])})
        triton.serve()


if __name__ == "__main__":
    main()
