"""Text to token ids and back: llama2.c's tokenizer file (scores, byte-pair merges, byte fallback)."""
import struct

FIRST_BYTE = 3  # ids 3..258 are the 256 bytes


class Llama2Tokenizer:
    """Errors: ValueError, which names the file."""

    def __init__(self, path, vocab):
        with open(path, "rb") as file:
            data = file.read()
        at = 4
        self.pieces, self.scores = [], []
        try:
            for _ in range(vocab):
                score, size = struct.unpack_from("<fi", data, at)
                at += 8
                if size < 0 or at + size > len(data):
                    raise struct.error
                self.pieces.append(data[at:at + size])
                self.scores.append(score)
                at += size
        except struct.error:
            raise ValueError(f"{path}: it ends before the {vocab} tokens that the model has") from None
        self._ids = {}
        for token, piece in enumerate(self.pieces):
            self._ids.setdefault(piece, token)
        self._bytes = {b"<0x%02X>" % value: bytes([value]) for value in range(256)}

    def encode(self, text, bos=1):
        """Ids of `text` (str or bytes), after `bos` unless it is None. Characters without a token become their bytes."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        ids = [] if bos is None else [bos]
        if not text:
            return ids
        parts = []
        if b" " in self._ids:
            parts.append(self._ids[b" "])  # a word at the front is one as those within
        for character in text:
            raw = character.encode("utf-8", "surrogateescape")
            token = self._ids.get(raw)
            parts += [token] if token is not None else [value + FIRST_BYTE for value in raw]
        return ids + self._merged(parts)

    def _merged(self, parts):
        while True:
            best, place, merged = -1e10, -1, -1
            for i in range(len(parts) - 1):
                token = self._ids.get(self.pieces[parts[i]] + self.pieces[parts[i + 1]])
                if token is not None and self.scores[token] > best:
                    best, place, merged = self.scores[token], i, token
            if place < 0:
                return parts
            parts[place:place + 2] = [merged]

    def piece(self, token):
        """The bytes that `token` adds to a text; they may end inside a character."""
        raw = self.pieces[token] if 0 <= token < len(self.pieces) else b""
        if token in (1, 2):
            return b""
        return self._bytes.get(raw, raw)


class ByteTokenizer:
    """For models without a tokenizer: each byte is a token, numbered as llama2.c numbers them."""

    def __init__(self, vocab):
        if vocab < FIRST_BYTE + 256:
            raise ValueError(f"a vocabulary of {vocab} has no room for the 256 bytes: name a tokenizer")

    def encode(self, text, bos=1):
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        return ([] if bos is None else [bos]) + [value + FIRST_BYTE for value in raw]

    def piece(self, token):
        return bytes([token - FIRST_BYTE]) if FIRST_BYTE <= token < FIRST_BYTE + 256 else b""


def open_tokenizer(path, checkpoint, shape):
    """`path`: llama2.c's file; empty: what the checkpoint carries, or bytes."""
    if path:
        return Llama2Tokenizer(path, shape.vocab)
    with open(checkpoint, "rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        from .gguf_tokenizer import GgufTokenizer
        return GgufTokenizer(checkpoint)
    return ByteTokenizer(shape.vocab)
