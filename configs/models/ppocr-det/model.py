"""PP-OCRv4 text detection (differentiable binarisation) on ONNX Runtime.

The network gives each pixel a probability of being text; connected spots of likely pixels become rotated rectangles,
grown again by what training shrank them, and each is cut out of the picture and turned upright.
"""
import cv2
import numpy as np
import onnxruntime as ort

from gearbox_worker import BadInput, package_file
from picture import decode

SHORT_SIDE = 736         # smaller pictures are enlarged to this, as the network was trained
LONG_SIDE = 2000         # larger ones are reduced
PIXEL_THRESHOLD = 0.3
BOX_THRESHOLD = 0.5      # mean probability inside a box
GROW = 1.6               # training shrinks each line by area * ratio / perimeter; this undoes it
SMALLEST = 3             # pixels of the network's map
MOST_SPOTS = 1000        # looked at in one picture


class Model:
    def load(self, record, device):
        if device not in ("", "cpu"):
            raise ValueError(f"device {device!r}: this environment's onnxruntime runs on the CPU only")
        options = ort.SessionOptions()
        options.intra_op_num_threads = record.threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False     # pictures of all sizes would make the arena grow for ever
        options.log_severity_level = 3
        path = package_file("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx")
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.input_name = self.session.get_inputs()[0].name

    def infer(self, batch):
        return [self.detect(item["image"]) for item in batch]

    def detect(self, image):
        if image.ndim == 1:
            image = decode(image)
        elif image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise BadInput(f"image: expected [height, width, 3] or the bytes of a file, got {list(image.shape)}")
        height, width = image.shape[:2]
        reduce = min(1.0, LONG_SIDE / max(height, width))
        if reduce < 1.0:      # the network sees no more than this, and the lines cut out stay of bounded size
            size = (max(1, round(width * reduce)), max(1, round(height * reduce)))
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        boxes, scores = self.find_boxes(image)
        crops = [cut_out(image, box) for box in boxes]
        return {"boxes": boxes / np.float32(reduce), "scores": scores, "crops": crops}

    def find_boxes(self, image):
        height, width = image.shape[:2]
        scale = max(1.0, SHORT_SIDE / min(height, width))
        scale = min(scale, LONG_SIDE / max(height, width))
        map_width = max(32, round(width * scale / 32) * 32)
        map_height = max(32, round(height * scale / 32) * 32)
        small = cv2.resize(image, (map_width, map_height))
        blob = small[:, :, ::-1].astype(np.float32)          # the network was trained on BGR
        blob *= 2.0 / 255.0
        blob -= 1.0
        blob = np.ascontiguousarray(blob.transpose(2, 0, 1))[None]
        likely = self.session.run(None, {self.input_name: blob})[0][0, 0]

        mask = cv2.dilate((likely > PIXEL_THRESHOLD).astype(np.uint8), np.ones((2, 2), np.uint8))
        spots, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
        to_picture = np.array([width / map_width, height / map_height], np.float32)
        found = []
        for spot in spots[:MOST_SPOTS]:
            centre, (long, short), angle = cv2.minAreaRect(spot)
            if min(long, short) < SMALLEST:
                continue
            score = mean_inside(likely, cv2.boxPoints((centre, (long, short), angle)))
            if score < BOX_THRESHOLD:
                continue
            grow = 2 * (long * short) * GROW / (2 * (long + short))
            corners = cv2.boxPoints((centre, (long + grow, short + grow), angle)) * to_picture
            corners = from_upper_left(np.clip(np.round(corners), 0, [width - 1, height - 1]).astype(np.float32))
            if np.linalg.norm(corners[0] - corners[1]) > SMALLEST and np.linalg.norm(corners[0] - corners[3]) > SMALLEST:
                found.append((corners, score))
        found = in_reading_order(found)
        boxes = np.array([corners for corners, _ in found], np.float32).reshape(-1, 4, 2)
        return boxes, np.array([score for _, score in found], np.float32)


def mean_inside(likely, corners):
    left, top = np.clip(np.floor(corners.min(0)).astype(int), 0, [likely.shape[1] - 1, likely.shape[0] - 1])
    right, bottom = np.clip(np.ceil(corners.max(0)).astype(int), 0, [likely.shape[1] - 1, likely.shape[0] - 1])
    mask = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(mask, [(corners - [left, top]).astype(np.int32)], 1)
    return cv2.mean(likely[top:bottom + 1, left:right + 1], mask)[0]


def from_upper_left(corners):
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left = by_x[:2][np.argsort(by_x[:2, 1], kind="stable")]
    right = by_x[2:][np.argsort(by_x[2:, 1], kind="stable")]
    return np.array([left[0], right[0], right[1], left[1]], np.float32)


def in_reading_order(found):
    """From top to bottom; boxes whose upper edges differ by less than half a line's height stand in one line."""
    found = sorted(found, key=lambda entry: (entry[0][0][1], entry[0][0][0]))
    ordered, line = [], []
    for entry in found:
        if line:
            first = line[0][0]
            height = np.linalg.norm(first[3] - first[0])
            if entry[0][0][1] - first[0][1] > height / 2:
                ordered += sorted(line, key=lambda other: other[0][0][0])
                line = []
        line.append(entry)
    return ordered + sorted(line, key=lambda other: other[0][0][0])


def cut_out(image, box):
    width = max(1, int(max(np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[2] - box[3]))))
    height = max(1, int(max(np.linalg.norm(box[0] - box[3]), np.linalg.norm(box[1] - box[2]))))
    upright = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(box, upright)
    crop = cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    if height >= 1.5 * width:                                  # a line that runs downwards
        crop = np.rot90(crop)
    return np.ascontiguousarray(crop)
