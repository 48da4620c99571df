"""A bad link in user space: a TCP proxy that delays, throttles, cuts, freezes and half-opens what passes, and counts it.

What TCP hides from both ends (loss, duplication, reordering of packets) it cannot show; that needs netem. It counts a byte as
carried when the kernel of the server's side has it: what was lost with a cut before was never carried. Standard library only.

    with ChaosProxy(port_of_the_server, seed=1) as link:
        link.delay_s = 0.3
        link.cut_every = 500_000
        ...                                  # devices talk to 127.0.0.1:link.port
        print(link.up, link.cuts)
"""
import asyncio
import contextlib
import fcntl
import random
import socket
import struct
import termios
import threading

PIECE = 16 * 1024       # bytes forwarded at once: where a cut may fall is as fine as this
ON_THE_WAY = 128        # pieces that may be on the way at once in one direction: 2 MiB, more than 300 ms of 50 Mbit/s
NEVER = float("inf")


class Link:
    """One connection through the proxy."""

    def __init__(self, near, far):
        self.near, self.far = near, far  # (reader, writer) of the device and of the server
        self.dead = False                # half-open: nothing passes any more, and nobody is told
        self.tasks = []
        self.ended = False

    def end(self, how):
        if self.ended:
            return
        self.ended = True
        for _, writer in (self.near, self.far):
            if how == "reset":
                with contextlib.suppress(OSError):  # closed already
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()


class ChaosProxy:
    """Settings may be changed at any time, from any thread. A context manager: nothing runs on afterwards."""

    def __init__(self, target, seed=0, near=("127.0.0.1", 0)):
        self.listens_at = near           # where devices find it
        self.target = target             # the server's port, on this host; may be changed: the address behind the name
        self.delay_s = 0.0               # each way
        self.bytes_per_s = NEVER         # each way, and all connections together
        self.cut_every = NEVER           # bytes towards the server after which all connections are cut, a fifth more or less
        self.up = self.down = 0          # bytes carried, towards the server and back
        self.connections = 0
        self.cuts = 0                    # how often connections that were there have been cut
        self.random = random.Random(seed)
        self.links = set()
        self.left = NEVER                # bytes until the next cut
        self.flows = asyncio.Event()     # not set: the link is frozen
        self.loop = asyncio.new_event_loop()
        self.started = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self):
        self.listener = socket.create_server(self.listens_at)
        self.port = self.listener.getsockname()[1]
        self.thread.start()
        self.started.wait()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.done.set)
        self.thread.join()

    # -- what can be done to the link, from any thread

    def cut(self):
        """Ends all connections, by a reset or in order, as the seed has it. New ones are taken at once."""
        self.call(self.cut_now())

    def freeze(self):
        """Nothing passes, nobody is told, until thaw(). New connections are frozen, too."""
        self.loop.call_soon_threadsafe(self.flows.clear)

    def thaw(self):
        self.loop.call_soon_threadsafe(self.flows.set)

    def half_open(self):
        """Through the connections that are there now nothing will pass ever again, and nobody is told. New ones work."""
        async def deaden():
            for link in self.links:
                link.dead = True
            return len(self.links)
        return self.call(deaden())

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    # -- inside

    def serve(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.main())
        self.loop.close()

    async def main(self):
        self.done = asyncio.Event()
        self.flows.set()
        server = await asyncio.start_server(self.accept, sock=self.listener, limit=PIECE)
        self.started.set()
        await self.done.wait()
        server.close()
        tasks = [task for link in self.links for task in link.tasks]
        for link in list(self.links):
            link.end("reset")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)

    async def accept(self, reader, writer):
        try:
            far = await asyncio.open_connection("127.0.0.1", self.target, limit=PIECE)
        except OSError:  # nobody serves there just now
            writer.transport.abort()
            return
        self.connections += 1
        link = Link((reader, writer), far)
        for _, end in (link.near, link.far):
            end.transport.set_write_buffer_limits(high=0)  # drain() then waits until the kernel has it all
        self.links.add(link)
        link.tasks = [asyncio.ensure_future(self.way(link, link.near[0], link.far[1], True)),
                      asyncio.ensure_future(self.way(link, link.far[0], link.near[1], False))]
        await asyncio.gather(*link.tasks, return_exceptions=True)
        link.end("in order")
        self.links.discard(link)

    async def way(self, link, reader, writer, upwards):
        """One direction: a reader, and behind it whoever lets the pieces out when their time has come."""
        line = asyncio.Queue(ON_THE_WAY)
        out = asyncio.ensure_future(self.let_out(link, line, writer, upwards))
        try:
            while not link.dead:
                data = await reader.read(PIECE)
                await line.put((self.loop.time() + self.delay_s, data))
                if not data:
                    break
            await out
        except OSError:
            link.end("reset")  # what one side's end means, the other is told
        finally:
            out.cancel()

    async def let_out(self, link, line, writer, upwards):
        while True:
            due, data = await line.get()
            await asyncio.sleep(max(0.0, due - self.loop.time()))
            if self.bytes_per_s < NEVER:
                await asyncio.sleep(len(data) / self.bytes_per_s)
            await self.flows.wait()
            if link.dead:
                await self.done.wait()  # whatever comes now stays here
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            self.count(data, upwards)
            if upwards and self.left <= 0:
                await self.cut_now()

    def count(self, data, upwards):
        if not upwards:
            self.down += len(data)
            return
        self.up += len(data)
        if self.cut_every < NEVER and self.left == NEVER:
            self.left = self.next_cut()
        self.left -= len(data)

    def next_cut(self):
        return self.cut_every * self.random.uniform(0.8, 1.2) if self.cut_every < NEVER else NEVER

    async def cut_now(self):
        self.left = self.next_cut()
        alive = [link for link in self.links if not link.dead and not link.ended]
        self.cuts += bool(alive)
        how = self.random.choice(["reset", "in order"])
        for link in alive:
            # A reset throws away what the other kernel has not taken yet; it was counted, so it has to get there.
            for _ in range(1000):
                if not unsent(link.far[1].get_extra_info("socket")):
                    break
                await asyncio.sleep(0.005)
            link.end(how)


def unsent(end):
    """Bytes that the other side's kernel has not acknowledged."""
    try:
        return struct.unpack("i", fcntl.ioctl(end.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
    except OSError:
        return 0  # closed
