"""Faces with five landmarks each: MTCNN in TensorFlow. The networks and their weights: package mtcnn."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import: its notes on the processor would fill the log
import tensorflow as tf  # noqa: E402
from mtcnn.network.onet import ONet  # noqa: E402
from mtcnn.network.pnet import PNet  # noqa: E402
from mtcnn.network.rnet import RNet  # noqa: E402
from mtcnn.utils.tensorflow import load_weights  # noqa: E402

from cascade import find_faces  # noqa: E402
from gearbox_worker import BadInput  # noqa: E402
from picture import decode  # noqa: E402


class Model:
    def load(self, record, device):
        if device not in ("", "cpu"):
            raise ValueError(f"device {device!r}: this environment's TensorFlow runs on the CPU only")
        tf.config.threading.set_intra_op_parallelism_threads(record.threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.networks = [loaded(*each) for each in ((PNet, "pnet.lz4", None), (RNet, "rnet.lz4", 24), (ONet, "onet.lz4", 48))]

    def infer(self, batch):
        return [self.find(item["image"]) for item in batch]

    def find(self, image):
        if image.ndim == 1:
            image = decode(image)
        elif image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise BadInput(f"image: expected [height, width, 3] or the bytes of a file, got {list(image.shape)}")
        boxes, scores, landmarks = find_faces(image, *self.networks)
        return {"boxes": boxes, "scores": scores, "landmarks": landmarks}


def loaded(kind, weights, side):
    network = kind()
    network.build()
    network.set_weights(load_weights(weights))
    # One graph for all sizes: else each scale of each new picture would be traced anew, which takes longer than running it.
    graph = tf.function(network, input_signature=[tf.TensorSpec([None, side, side, 3], tf.float32)])
    graph.get_concrete_function()
    return lambda pixels: [output.numpy() for output in graph(tf.constant(pixels))]
