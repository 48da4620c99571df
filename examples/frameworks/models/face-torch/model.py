"""Faces with five landmarks each: MTCNN in PyTorch. The networks and their weights: package facenet-pytorch."""
import numpy as np
import torch
from facenet_pytorch.models.mtcnn import ONet, PNet, RNet

from cascade import find_faces
from gearbox_worker import BadInput
from picture import decode


class Model:
    def load(self, record, device):
        if device not in ("", "cpu"):
            raise ValueError(f"device {device!r}: this environment's PyTorch runs on the CPU only")
        torch.set_num_threads(record.threads)
        self.networks = [network(pretrained=True).eval() for network in (PNet, RNet, ONet)]

    def infer(self, batch):
        return [self.find(item["image"]) for item in batch]

    def find(self, image):
        if image.ndim == 1:
            image = decode(image)
        elif image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise BadInput(f"image: expected [height, width, 3] or the bytes of a file, got {list(image.shape)}")
        boxes, scores, landmarks = find_faces(image, *[channels_last(network) for network in self.networks])
        return {"boxes": boxes, "scores": scores, "landmarks": landmarks}


def channels_last(network):
    def run(pixels):
        with torch.inference_mode():
            outputs = network(torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))))
        return [output.numpy().transpose(0, 2, 3, 1) if output.ndim == 4 else output.numpy() for output in outputs]
    return run
