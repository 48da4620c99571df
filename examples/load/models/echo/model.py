"""Gives back what it gets: the work is the way there and back."""
import gearbox_worker


class Model:
    def load(self, record, device):
        pass

    def infer(self, batch):
        answers = []
        for index, item in enumerate(batch):
            data = gearbox_worker.empty(item["data"].shape, item["data"].dtype, index)
            data[...] = item["data"]
            answers.append({"data": data})
        return answers
