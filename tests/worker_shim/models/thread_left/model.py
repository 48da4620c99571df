import atexit
import threading
import time


def spin():
    while True:
        time.sleep(0.001)


threading.Thread(target=spin).start()          # not a daemon
atexit.register(lambda: print("the exit handler ran", flush=True))


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        return [{"data": item["data"]} for item in batch]
