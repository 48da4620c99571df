"""One request and its answer between two Python processes, one in flight: unix socket, pyzmq, grpcio.

python_peers.py --json FILE [--calls N]: p50 in microseconds of each peer for 64 B and for 3 MB up, 64 B back, with the
names py_uds_64b_us, py_uds_3mb_us, pyzmq_64b_us ... A peer that is not installed is left out and named on stderr.
"""
import argparse
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time

LARGE = 3 << 20
SMALL = 64


def p50(samples):
    samples = sorted(samples[len(samples) // 10:])
    return samples[len(samples) // 2]


def timed(call, count):
    samples = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        samples.append((time.perf_counter() - began) * 1e6)
    return p50(samples)


def receive(connection, size, into):
    view = memoryview(into)[:size]
    while len(view):
        got = connection.recv_into(view)
        if got == 0:
            raise EOFError
        view = view[got:]


def serve_uds(path, size, ready):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        ready.set()
        connection, _ = listener.accept()
        buffer = bytearray(size)
        while True:
            try:
                receive(connection, size, buffer)
            except EOFError:
                return
            connection.sendall(bytes(SMALL))


def uds(folder, size, count):
    path = os.path.join(folder, f"uds-{size}")
    with child(serve_uds, path, size), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        request, reply = bytes(size), bytearray(SMALL)

        def call():
            connection.sendall(request)
            receive(connection, SMALL, reply)

        return timed(call, count)


def serve_zmq(path, _size, ready):
    import zmq
    with zmq.Context() as context, context.socket(zmq.REP) as server:
        server.bind("ipc://" + path)
        ready.set()
        while True:
            server.recv(copy=False)
            server.send(bytes(SMALL))


def pyzmq(folder, size, count):
    import zmq
    path = os.path.join(folder, f"zmq-{size}")
    with child(serve_zmq, path, size), zmq.Context() as context, context.socket(zmq.REQ) as client:
        client.linger = 0
        client.connect("ipc://" + path)
        request = bytes(size)

        def call():
            client.send(request, copy=False)
            client.recv()

        return timed(call, count)


OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def serve_grpc(path, _size, ready):
    from concurrent import futures
    import grpc
    answer = grpc.unary_unary_rpc_method_handler(lambda request, context: bytes(SMALL))
    handler = grpc.method_handlers_generic_handler("bench.Echo", {"Call": answer})
    server = grpc.server(futures.ThreadPoolExecutor(1), options=OPTIONS)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port("unix:" + path)
    server.start()
    ready.set()
    server.wait_for_termination()


def grpcio(folder, size, count):
    import grpc
    path = os.path.join(folder, f"grpc-{size}")
    with child(serve_grpc, path, size), grpc.insecure_channel("unix:" + path, options=OPTIONS) as channel:
        method = channel.unary_unary("/bench.Echo/Call")
        request = bytes(size)
        return timed(lambda: method(request), count)


class child:
    """A server process: ready on entry, gone on exit."""

    def __init__(self, body, path, size):
        context = multiprocessing.get_context("spawn")  # grpc does not survive a fork
        self.ready = context.Event()
        self.process = context.Process(target=body, args=(path, size, self.ready), daemon=True)

    def __enter__(self):
        self.process.start()
        if not self.ready.wait(20):
            self.process.kill()
            raise RuntimeError("the peer did not start")

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True)
    parser.add_argument("--calls", type=int, default=1000)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="gearbox-peers-") as folder:
        for name, peer in (("py_uds", uds), ("pyzmq", pyzmq), ("grpc_py", grpcio)):
            try:
                found[f"{name}_64b_us"] = peer(folder, SMALL, options.calls)
                found[f"{name}_3mb_us"] = peer(folder, LARGE, max(20, options.calls // 20))
            except ImportError as missing:
                print(f"NOT RUN: {name}: {missing}", file=sys.stderr)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
