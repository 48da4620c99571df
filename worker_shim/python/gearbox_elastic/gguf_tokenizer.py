"""The tokenizer that a GGUF file carries: byte-level BPE ("gpt2") or pieces with scores ("llama")."""
import functools
import re

from .gguf_checkpoint import head_of

CONTROL = 3  # token types of GGUF
BYTE = 6


@functools.lru_cache(maxsize=1)
def _byte_letters():
    """GPT-2's letters for bytes: printable ones stand for themselves, others for letters from 256 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, beyond = {}, 256
    for value in range(256):
        if value in plain:
            letters[value] = chr(value)
        else:
            letters[value] = chr(beyond)
            beyond += 1
    return letters


# Words as GPT-2 cuts them. \p{L} and \p{N} are what `re` knows as letters and digits.
_WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?[^\s\w]+| ?_+|\s+(?!\S)|\s+")
_DIGITS = re.compile(r"\d|\D+")


class GgufTokenizer:
    """Errors: ValueError, which names the file."""

    def __init__(self, path):
        head = head_of(path)
        self.kind = head.value("tokenizer.ggml.model")
        if self.kind not in ("gpt2", "llama"):
            raise ValueError(f"{path}: a tokenizer of kind {self.kind!r} cannot be run")
        self.tokens = head.value("tokenizer.ggml.tokens")
        types = head.value("tokenizer.ggml.token_type", [1] * len(self.tokens))
        self._ids = {token: number for number, token in enumerate(self.tokens)}
        self._control = {number for number, kind in enumerate(types) if kind == CONTROL}
        self.bos = head.shape.bos
        self.add_bos = bool(head.value("tokenizer.ggml.add_bos_token", self.kind == "llama"))
        marks = sorted((self.tokens[number] for number in self._control), key=len, reverse=True)
        self._marks = re.compile("(" + "|".join(map(re.escape, marks)) + ")") if marks else None
        if self.kind == "gpt2":
            self._ranks = {tuple(pair.split(" ", 1)): rank for rank, pair in enumerate(head.value("tokenizer.ggml.merges"))}
            self._single_digits = head.value("tokenizer.ggml.pre", "") in ("smollm", "starcoder", "refact", "command-r")
            self._bytes = {letter: value for value, letter in _byte_letters().items()}
        else:
            self._scores = head.value("tokenizer.ggml.scores")
            self._space = bool(head.value("tokenizer.ggml.add_space_prefix", True))

    def encode(self, text, bos=None):
        """Ids; marks like <|im_start|> are their own tokens, wherever they stand."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        ids = [self.bos] if self.add_bos else []
        for part in self._marks.split(text) if self._marks else [text]:
            if part in self._ids and self._ids[part] in self._control:
                ids.append(self._ids[part])
            elif part:
                ids += self._byte_level(part) if self.kind == "gpt2" else self._pieces(part)
        return ids

    def _byte_level(self, text):
        ids, letters = [], _byte_letters()
        for piece in _DIGITS.findall(text) if self._single_digits else [text]:
            for word in _WORDS.findall(piece):
                ids += self._word("".join(letters[value] for value in word.encode()))
        return ids

    @functools.lru_cache(maxsize=8192)
    def _word(self, word):
        parts = list(word)
        while len(parts) > 1:
            rank, place = min((self._ranks.get((parts[i], parts[i + 1]), 1 << 60), i) for i in range(len(parts) - 1))
            if rank == 1 << 60:
                break
            parts[place:place + 2] = [parts[place] + parts[place + 1]]
        return [self._ids[part] for part in parts if part in self._ids]

    def _pieces(self, text):
        text = text.replace(" ", "\u2581")
        parts = list("\u2581" + text if self._space else text)
        while len(parts) > 1:
            best, place = max((self._scores[self._ids[both]] if (both := parts[i] + parts[i + 1]) in self._ids else -1e30, -i)
                              for i in range(len(parts) - 1))
            if best == -1e30:
                break
            parts[-place:-place + 2] = [parts[-place] + parts[-place + 1]]
        ids = []
        for part in parts:
            ids += [self._ids[part]] if part in self._ids else [self._ids.get(f"<0x{value:02X}>", 0) for value in part.encode()]
        return ids

    def piece(self, token):
        if not 0 <= token < len(self.tokens) or token in self._control:
            return b""
        text = self.tokens[token]
        if self.kind == "gpt2":
            return bytes(self._bytes[letter] for letter in text if letter in self._bytes)
        if len(text) == 6 and text.startswith("<0x"):
            return bytes([int(text[3:5], 16)])
        return text.replace("\u2581", " ").encode()
