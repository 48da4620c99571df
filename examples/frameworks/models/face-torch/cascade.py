"""MTCNN's cascade around its three networks, which run in any framework: from a picture to faces, with numpy and Pillow alone.

A small network (12 x 12 pixels) slides over the picture at many scales and proposes squares; a second one (24 x 24) drops most
of them and moves the others; a third one (48 x 48) decides, and finds eyes, nose and the corners of the mouth. Whoever runs the
networks gives three functions from float32 [n, height, width, 3] in -1 to 1 to numpy arrays, channels last:

    propose(pixels) -> moves [n, h, w, 4], likely [n, h, w, 2]      (n is 1, any size)
    refine(pixels)  -> moves [n, 4], likely [n, 2]                  (24 x 24)
    decide(pixels)  -> moves [n, 4], landmarks [n, 10], likely [n, 2]      (48 x 48; five times x, then five times y)

All frameworks share this file, so two of them that disagree on a face disagree in the networks.
"""
import numpy as np
from PIL import Image

LONGEST_SIDE = 2000           # larger pictures are reduced to this: bounds time and memory
SMALLEST_FACE = 20            # pixels, of the picture so reduced
SCALE_STEP = 0.709            # from one scale to the next: half the area
LIKELY = (0.6, 0.7, 0.7)      # of being a face, after each network
CELL, STRIDE = 12, 2          # what one output of the first network sees, and how far apart two are
MOST_AT_ONCE = 256            # squares in one run: bounds the memory


def find_faces(image, propose, refine, decide):
    """`image`: uint8 [height, width, 3] RGB. Returns boxes [n, 4] (left, top, right, bottom), scores [n], landmarks [n, 5, 2], the
    likeliest face first; in pixels of the picture, not cut at its edges."""
    picture = Image.fromarray(image)
    reduced = min(1.0, LONGEST_SIDE / max(picture.size))
    if reduced < 1.0:
        picture = picture.resize([max(1, round(side * reduced)) for side in picture.size], Image.BOX)
    boxes = proposals(picture, propose)
    boxes = boxes[keep(boxes, 0.7)]
    boxes = squares(moved(boxes[:, :5], boxes[:, 5:], 0))
    if len(boxes) == 0:
        return nobody()

    moves, likely = in_parts(refine, cut_out(picture, boxes, 24))
    good = likely[:, 1] > LIKELY[1]
    boxes = np.column_stack([boxes[good, :4], likely[good, 1], moves[good]])
    boxes = boxes[keep(boxes, 0.7)]
    boxes = squares(moved(boxes[:, :5], boxes[:, 5:], 1))
    if len(boxes) == 0:
        return nobody()

    moves, points, likely = in_parts(decide, cut_out(picture, boxes, 48))
    good = likely[:, 1] > LIKELY[2]
    boxes, moves, points = np.column_stack([boxes[good, :4], likely[good, 1]]), moves[good], points[good]
    size = boxes[:, 2:4] - boxes[:, :2] + 1
    landmarks = boxes[:, None, :2] - 1 + size[:, None] * points.reshape(-1, 2, 5).transpose(0, 2, 1)
    boxes = moved(boxes, moves, 1)
    best = keep(boxes, 0.7, of_smaller=True)
    return ((boxes[best, :4] / reduced).astype(np.float32), boxes[best, 4].astype(np.float32),
            (landmarks[best] / reduced).astype(np.float32))


def nobody():
    return np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros((0, 5, 2), np.float32)


def proposals(picture, propose):
    """[n, 9]: left, top, right, bottom, likely, and how the network would move each of the four."""
    found = [np.zeros((0, 9))]
    scale = CELL / SMALLEST_FACE
    while min(picture.size) * scale >= CELL:
        size = (int(picture.width * scale + 1), int(picture.height * scale + 1))
        moves, likely = propose(to_network(np.asarray(picture.resize(size, Image.BOX)))[None])
        row, column = np.nonzero(likely[0, :, :, 1] >= LIKELY[0])
        corner = np.stack([column, row], 1) * STRIDE + 1
        boxes = np.column_stack([corner // scale, (corner + CELL - 1) // scale, likely[0, row, column, 1], moves[0, row, column]])
        found.append(boxes[keep(boxes, 0.5)])
        scale *= SCALE_STEP
    return np.concatenate(found)


def keep(boxes, overlap, of_smaller=False):
    """Indexes of the boxes that no likelier one covers by more than `overlap` (intersection over union, or over the smaller of the
    two), the likeliest first."""
    left, top, right, bottom, likely = boxes[:, :5].T
    area = (right - left + 1) * (bottom - top + 1)
    order = np.argsort(-likely, kind="stable")
    kept = []
    while order.size:
        first, others = order[0], order[1:]
        kept.append(first)
        width = np.minimum(right[first], right[others]) - np.maximum(left[first], left[others]) + 1
        height = np.minimum(bottom[first], bottom[others]) - np.maximum(top[first], top[others]) + 1
        common = np.maximum(0, width) * np.maximum(0, height)
        whole = np.minimum(area[first], area[others]) if of_smaller else area[first] + area[others] - common
        order = others[common <= overlap * whole]
    return np.array(kept, np.intp)


def moved(boxes, moves, pixel):
    """`moves` are shares of the box's sides. `pixel`: 1 where right and bottom belong to the box, as training had it."""
    size = boxes[:, 2:4] - boxes[:, :2] + pixel
    return np.column_stack([boxes[:, :4] + moves * np.tile(size, 2), boxes[:, 4]])


def squares(boxes):
    """The same centres; the longer side for both."""
    size = boxes[:, 2:4] - boxes[:, :2]
    side = size.max(1, keepdims=True)
    corner = boxes[:, :2] + size / 2 - side / 2
    return np.column_stack([corner, corner + side, boxes[:, 4]])


def cut_out(picture, boxes, side):
    """float32 [n, side, side, 3]; what lies outside the picture is black."""
    pixels = np.empty((len(boxes), side, side, 3), np.uint8)
    for index, box in enumerate(boxes[:, :4].astype(int).tolist()):
        left, top, right, bottom = box[0] - 1, box[1] - 1, max(box[2], box[0]), max(box[3], box[1])
        pixels[index] = picture.crop((left, top, right, bottom)).resize((side, side), Image.BOX)
    return to_network(pixels)


def to_network(pixels):
    return (pixels.astype(np.float32) - 127.5) * np.float32(1 / 128)


def in_parts(network, pixels):
    """Runs `network` on at most MOST_AT_ONCE at a time; neither framework takes a batch of none."""
    parts = [network(pixels[at:at + MOST_AT_ONCE]) for at in range(0, len(pixels), MOST_AT_ONCE)]
    return [np.concatenate(each) for each in zip(*parts)]
