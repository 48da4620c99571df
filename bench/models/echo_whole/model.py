"""Gives back all of what it got, as a copy: the work is one pass over the bytes. (`echo` answers a large request with a sum.)"""


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        return [{"data": item["data"].copy()} for item in batch]
