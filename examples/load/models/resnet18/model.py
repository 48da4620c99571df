"""ResNet-18 of torchvision with random weights: the load of the real thing, not its answers."""
import numpy as np
import torch
from PIL import Image
from torchvision.models import resnet18

from gearbox_worker import BadInput

SIDE = 224
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)    # ImageNet's


class Model:
    def load(self, record, device):
        self.device = torch.device(device or "cpu")
        torch.set_num_threads(record.threads)
        torch.manual_seed(0)        # each worker gives the same
        self.network = resnet18(weights=None).eval().to(self.device)
        self.mean = torch.tensor(MEAN, device=self.device).view(1, 3, 1, 1)
        self.spread = torch.tensor(SPREAD, device=self.device).view(1, 3, 1, 1)

    def infer(self, batch):
        pixels = torch.from_numpy(np.stack([scaled(item["crop"]) for item in batch])).to(self.device)
        with torch.inference_mode():
            pixels = (pixels.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.spread
            best = torch.softmax(self.network(pixels), 1).max(1)
        return [{"label": label, "score": score} for label, score in
                zip(best.indices.cpu().numpy().reshape(-1, 1), best.values.cpu().numpy().reshape(-1, 1))]


def scaled(crop):
    if crop.ndim != 3 or crop.shape[2] != 3 or crop.size == 0:
        raise BadInput(f"crop: expected [height, width, 3], got {list(crop.shape)}")
    if crop.shape[:2] == (SIDE, SIDE):
        return crop
    return np.asarray(Image.fromarray(crop).resize((SIDE, SIDE), Image.BILINEAR))
