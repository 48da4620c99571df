"""As many streams as asked for; each gives its number, and says how many are open."""
import gearbox_worker


class Model:
    def load(self, record, device):
        self.open = 0

    def stream(self, request):
        return self.tell(request["command"][0].decode())

    def tell(self, name):
        self.open += 1
        try:
            yield gearbox_worker.NOTHING_YET
            for number in range(3):
                yield {"text": f"{name} {number} of {self.open}"}
        finally:
            self.open -= 1
