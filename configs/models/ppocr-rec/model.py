"""PP-OCRv4 text recognition (CTC) on ONNX Runtime: one line of text in, its characters out."""
import cv2
import numpy as np
import onnxruntime as ort

from gearbox_worker import BadInput, package_file

HEIGHT = 48              # the network's
NARROWEST = 320          # shorter lines are padded to this
WIDEST = 4096            # longer ones are squeezed
STEP = 32                # widths are rounded up to this, so that lines of about one length share a run


class Model:
    def load(self, record, device):
        if device not in ("", "cpu"):
            raise ValueError(f"device {device!r}: this environment's onnxruntime runs on the CPU only")
        options = ort.SessionOptions()
        options.intra_op_num_threads = record.threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        path = package_file("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.input_name = self.session.get_inputs()[0].name
        characters = self.session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self.characters = ["", *characters, " "]             # class 0 is CTC's blank

    def infer(self, batch):
        lines = [prepare(item["crop"]) for item in batch]
        results = [None] * len(lines)
        # Only lines of one padded width run together: padding then never depends on who else is in the batch.
        for width in sorted({line.shape[2] for line in lines}):
            places = [place for place, line in enumerate(lines) if line.shape[2] == width]
            likely = self.session.run(None, {self.input_name: np.stack([lines[place] for place in places])})[0]
            for place, one in zip(places, likely):
                results[place] = self.read(one)
        return results

    def read(self, likely):
        """CTC: the best class at each place; repeats and blanks fall away."""
        best = likely.argmax(1)
        kept = best != 0
        kept[1:] &= best[1:] != best[:-1]
        text = "".join(self.characters[index] for index in best[kept])
        score = float(likely.max(1)[kept].mean()) if text else 0.0
        return {"text": text, "score": np.array([score], np.float32)}


def prepare(crop):
    """[3, 48, width] in -1 to 1, BGR, padded on the right with 0."""
    if crop.ndim != 3 or crop.shape[2] != 3 or crop.size == 0:
        raise BadInput(f"crop: expected [height, width, 3], got {list(crop.shape)}")
    height, width = crop.shape[:2]
    scaled = min(WIDEST, max(1, int(np.ceil(HEIGHT * width / height))))
    padded = max(NARROWEST, -(-scaled // STEP) * STEP)
    line = cv2.resize(crop, (scaled, HEIGHT))[:, :, ::-1].astype(np.float32)
    blob = np.zeros((3, HEIGHT, padded), np.float32)
    blob[:, :, :scaled] = (line * (2.0 / 255.0) - 1.0).transpose(2, 0, 1)
    return blob
