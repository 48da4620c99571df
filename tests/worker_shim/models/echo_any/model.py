class Model:
    def load(self, record, device):
        self.record, self.device = record, device

    def infer(self, batch):
        return [{"data": item["data"]} for item in batch]
