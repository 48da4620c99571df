"""Mask R-CNN (ResNet-50, feature pyramid) of torchvision with random weights: the load of the real thing, not its answers.

As many things as DETECTIONS are always "found", so that each request makes as many calls of the next step.
"""
import numpy as np
import torch
from torchvision.models.detection import maskrcnn_resnet50_fpn

from gearbox_worker import BadInput
from picture import decode

DETECTIONS = 8
SHORT_SIDE, LONG_SIDE = 320, 640    # the network's; torchvision's own 800 and 1333 take six times as long


class Model:
    def load(self, record, device):
        self.device = torch.device(device or "cpu")
        torch.set_num_threads(record.threads)
        torch.manual_seed(0)        # each worker gives the same
        self.network = maskrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, min_size=SHORT_SIDE, max_size=LONG_SIDE, rpn_post_nms_top_n_test=100,
            box_score_thresh=0.0, box_nms_thresh=0.9, box_detections_per_img=DETECTIONS).eval().to(self.device)
        # Random moves would squeeze the boxes to slivers: they stay as the grid of anchors has them.
        for layer in (self.network.rpn.head.bbox_pred, self.network.roi_heads.box_predictor.bbox_pred):
            torch.nn.init.zeros_(layer.weight)

    def infer(self, batch):
        return [self.find(item["image"]) for item in batch]

    def find(self, image):
        if image.ndim == 1:
            image = decode(image)
        elif image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise BadInput(f"image: expected [height, width, 3] or the bytes of a file, got {list(image.shape)}")
        pixels = torch.from_numpy(image.astype(np.float32)).to(self.device).permute(2, 0, 1) / 255
        with torch.inference_mode():
            found = {name: value.cpu().numpy() for name, value in self.network([pixels])[0].items()}
        crops, masks = [], []
        for box, mask in zip(found["boxes"], found["masks"]):
            area = part(box, *image.shape[:2])
            crops.append(np.ascontiguousarray(image[area]))
            masks.append((mask[0][area] > 0.5).astype(np.uint8))
        return {"boxes": found["boxes"], "scores": found["scores"], "labels": found["labels"], "crops": crops, "masks": masks}


def part(box, height, width):
    """The box as rows and columns of the picture; one pixel at least."""
    left, top = min(int(box[0]), width - 1), min(int(box[1]), height - 1)
    right, bottom = min(int(np.ceil(box[2])), width), min(int(np.ceil(box[3])), height)
    return slice(top, max(bottom, top + 1)), slice(left, max(right, left + 1))
