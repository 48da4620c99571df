"""The slices of the weights that one role holds, as tensors of their own memory."""
import numpy as np
import torch


class Layer:
    """One layer's slices. `qkv` are the rows of the rank's query, key and value heads, one below the other."""
    __slots__ = ("att_norm", "qkv", "wo", "ffn_norm", "w13", "w2")


class Weights:
    def __init__(self, checkpoint, role):
        shape, size = role.shape, role.shape.head_size
        q = (role.heads[0] * size, role.heads[1] * size)
        kv = (role.kv_heads[0] * size, role.kv_heads[1] * size)
        columns = (q[0] + role.columns[0], q[0] + role.columns[1])
        self.layers = []
        for number in range(*role.layers):
            layer = Layer()
            layer.att_norm = self._tensor(checkpoint.vector("att_norm", number))
            layer.qkv = self._tensor(np.concatenate([checkpoint.rows("wq", number, *q), checkpoint.rows("wk", number, *kv),
                                                     checkpoint.rows("wv", number, *kv)]))
            layer.wo = self._tensor(checkpoint.columns("wo", number, *columns))
            layer.ffn_norm = self._tensor(checkpoint.vector("ffn_norm", number))
            layer.w13 = self._tensor(np.concatenate([checkpoint.rows("w1", number, *role.hidden),
                                                     checkpoint.rows("w3", number, *role.hidden)]))
            layer.w2 = self._tensor(checkpoint.columns("w2", number, *role.hidden))
            self.layers.append(layer)
        self.embedding = self.classifier = self.final_norm = None
        if role.first:
            self.embedding = self._tensor(checkpoint.rows("embedding", 0, *role.vocab))
        if role.last:
            self.final_norm = self._tensor(checkpoint.vector("final_norm"))
            shared = role.first and shape.tied
            self.classifier = self.embedding if shared else self._tensor(checkpoint.rows("classifier", 0, *role.vocab))

    @staticmethod
    def _tensor(array):
        return torch.from_numpy(np.ascontiguousarray(array, np.float32))

    def bytes(self):
        """What the tensors' own memory takes: a view into something larger counts whole."""
        tensors = [self.embedding, self.classifier, self.final_norm]
        for layer in self.layers:
            tensors += [getattr(layer, name) for name in Layer.__slots__]
        storages = {}
        for tensor in tensors:
            if tensor is not None:
                storages[tensor.storage().data_ptr()] = tensor.storage().nbytes()
        return sum(storages.values())
