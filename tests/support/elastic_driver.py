"""A driver in a process of its own, for tests that kill it: options as JSON; it says `ready` and serves its control socket.

A line on stdin is a request {"prompt": [...], "max_tokens": N}; its tokens come back as one line.
"""
import json
import sys

from gearbox_elastic.driver import Driver
from gearbox_elastic.options import Options
from gearbox_elastic.sequences import Request


def main():
    driver = Driver(Options.of_dict(json.loads(sys.argv[1]))).start()
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        stream = driver.submit(Request(asked["prompt"], max_tokens=asked["max_tokens"]))
        print(json.dumps([token for token, _ in stream.all(120)]), flush=True)
    driver.close()


if __name__ == "__main__":
    main()
