"""The bare limit: the model called in a loop, in the environment of the worker, on the worker's core.

usage: direct.py MODEL_FOLDER CPU PAYLOADS SHAPE [ANSWERS]     (SHAPE: 224,224,3)
Says {"ready": true}, then answers each line {"batch": N, "seconds": S, "warm_up": S} of its input with a line
{"samples": [[start_us, took_us], ...], "cpu_s": C}: one sample for each item; all items of a batch have the time of the batch.
With ANSWERS it first writes there what the model gives for each payload alone.
"""
import importlib.util
import json
import os
import sys
import time
import types


def load(folder):
    """The model of `folder`, as the worker loads it: with the fields of the record that these models read."""
    spec = importlib.util.spec_from_file_location("model", os.path.join(folder, "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Model()
    model.load(types.SimpleNamespace(threads=1, folder=folder), "cpu")
    return model


def main():
    folder, cpu, payloads, shape = sys.argv[1:5]
    os.sched_setaffinity(0, {int(cpu)})
    import numpy as np
    model = load(folder)
    # Read-only, as the worker's views are.
    pieces = np.frombuffer(open(payloads, "rb").read(), np.uint8).reshape([-1, *map(int, shape.split(","))])
    if len(sys.argv) > 5:
        with open(sys.argv[5], "wb") as out:
            for piece in pieces:
                out.write(model.infer([{"data": piece}])[0]["data"].tobytes())
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        samples = []
        at = 0
        cpu = time.process_time()
        begun = time.perf_counter_ns()
        ends = begun + int((asked["warm_up"] + asked["seconds"]) * 1e9)
        start = begun
        while start < ends:
            batch = [{"data": pieces[(at + i) % len(pieces)]} for i in range(asked["batch"])]
            at += asked["batch"]
            model.infer(batch)
            end = time.perf_counter_ns()
            samples += [[(start - begun) / 1e3, (end - start) / 1e3]] * asked["batch"]
            start = end
        print(json.dumps({"samples": samples, "cpu_s": time.process_time() - cpu}), flush=True)


if __name__ == "__main__":
    main()
