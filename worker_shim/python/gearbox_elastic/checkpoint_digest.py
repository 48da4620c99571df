"""Have two hosts the same weights? A digest of the file's bytes, worked out once by each."""
import hashlib
import os


def checkpoint_digest(path):
    """Empty where there is no file. Errors: OSError."""
    if not path or not os.path.exists(path):
        return ""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
