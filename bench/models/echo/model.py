"""Gives back what it got; of more than 4 KiB only the sum, so that a large request has a small reply."""
import numpy as np

SMALL = 4096


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        for item in batch:
            if item["data"].size > SMALL:
                return [item if item["data"].size <= SMALL else {"data": total(item["data"])} for item in batch]
        return batch


def total(data):
    """Reads every byte once: the sum of the 64-bit words, as 8 bytes."""
    flat = data.reshape(-1)
    words = flat[: flat.size // 8 * 8].view(np.uint64)
    return np.array([words.sum(dtype=np.uint64)]).view(np.uint8)
