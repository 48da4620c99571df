import threading


class Model:
    def load(self, record, device):
        threading.Event().wait()

    def infer(self, batch):
        return batch
