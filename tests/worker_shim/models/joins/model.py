import numpy as np


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        stacked = np.stack([item["data"] for item in batch])    # raises unless all are of one shape
        return [{"data": row} for row in stacked]
