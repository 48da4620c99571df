"""ModelShape: the numbers that say how large a decoder is; every plan is checked against one."""
import dataclasses

BLOCK = 16  # positions in one unit of the cache: the same under every plan, so a shift moves units and never cuts them anew


@dataclasses.dataclass(frozen=True)
class ModelShape:
    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    positions: int              # the longest sequence
    rope_base: float = 10000.0
    norm_eps: float = 1e-5
    bos: int = 1
    ends: tuple = (1, 2)        # token ids that end an answer
    tied: bool = True           # the classifier is the embedding

    def __post_init__(self):
        for name in ("dim", "hidden", "layers", "heads", "kv_heads", "vocab", "positions"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= 1 << 24:
                raise ValueError(f"model shape: {name} = {value!r} is no sensible size")
        if self.dim % self.heads or self.dim // self.heads % 2:
            raise ValueError(f"model shape: dim {self.dim} is not heads {self.heads} times an even head size")
        if self.heads % self.kv_heads:
            raise ValueError(f"model shape: {self.heads} heads do not share {self.kv_heads} kv heads evenly")
        object.__setattr__(self, "ends", tuple(self.ends))

    @property
    def head_size(self):
        return self.dim // self.heads

    @property
    def group(self):
        """Query heads of one kv head."""
        return self.heads // self.kv_heads

    @property
    def blocks(self):
        """Blocks of the longest sequence."""
        return -(-self.positions // BLOCK)

    @property
    def unit_bytes(self):
        """One layer, one kv head, BLOCK positions, keys and values, FP32."""
        return 2 * BLOCK * self.head_size * 4

    @property
    def parameters(self):
        layer = self.dim * (2 * self.heads + 2 * self.kv_heads) * self.head_size + 3 * self.dim * self.hidden + 2 * self.dim
        return self.vocab * self.dim * (1 if self.tied else 2) + self.layers * layer + self.dim

    def as_dict(self):
        return dataclasses.asdict(self)

    @classmethod
    def of_dict(cls, values):
        return cls(**values)
