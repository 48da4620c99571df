"""Decodes a whole JPEG or PNG file strictly: what is cut, altered, empty or too large is refused with its reason.

Decoders are lenient on their own: libjpeg fills what is missing with grey, PNG readers skip checksums. A picture that
lost its lower half would then give an answer that looks right, so the ends and checksums are looked at first.
"""
import io
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from gearbox_worker import BadPicture

MAX_PIXELS = 100_000_000  # checked against the header, before any pixel memory is used
Image.MAX_IMAGE_PIXELS = None  # Pillow's own limit only warns between one and two times its value


def decode(data):
    """`data`: the file's bytes as a UINT8 array. Returns [height, width, 3] RGB, turned as its EXIF entry says."""
    view = memoryview(data)
    if len(view) == 0:
        raise BadPicture("the picture is empty")
    if bytes(view[:8]) == b"\x89PNG\r\n\x1a\n":
        check_png(view)
    elif bytes(view[:3]) == b"\xff\xd8\xff":
        raw = bytes(view)
        # An embedded thumbnail has an end mark too: the last one must come after the last start of a scan.
        if raw.rfind(b"\xff\xd9") < raw.rfind(b"\xff\xda") or b"\xff\xda" not in raw:
            raise BadPicture("the JPEG is cut: its end mark is missing")
    else:
        raise BadPicture("the file is neither JPEG nor PNG")
    try:
        picture = Image.open(io.BytesIO(view), formats=["JPEG", "PNG"])
        width, height = picture.size
        if width < 1 or height < 1 or width * height > MAX_PIXELS:
            raise BadPicture(f"the picture has {width} x {height} pixels, allowed are {MAX_PIXELS}")
        picture.load()
        if picture.mode.startswith("I"):                     # 16-bit grey: convert() would clip, not scale
            grey = np.asarray(picture).astype(np.uint32) >> 8
            return np.repeat(np.clip(grey, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
    except BadPicture:
        raise
    except UnidentifiedImageError:
        raise BadPicture("the picture's header is not valid") from None
    except (OSError, SyntaxError, ValueError, struct.error, zlib.error, EOFError) as error:
        raise BadPicture(f"the picture cannot be decoded: {error}") from None


def check_png(view):
    """Walks the chunks: each whole, with its checksum, up to IEND."""
    at = 8
    while True:
        if at + 12 > len(view):
            raise BadPicture("the PNG is cut: its end chunk is missing")
        size, = struct.unpack(">I", view[at:at + 4])
        kind = bytes(view[at + 4:at + 8])
        end = at + 12 + size
        if end > len(view):
            raise BadPicture(f"the PNG is cut inside chunk {kind!r}")
        if zlib.crc32(view[at + 4:end - 4]) != struct.unpack(">I", view[end - 4:end])[0]:
            raise BadPicture(f"the PNG's chunk {kind!r} has a wrong checksum")
        if kind == b"IEND":
            return
        at = end
