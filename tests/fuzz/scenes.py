"""Random arguments of one call: numbers, sizes, and tensors whose shapes and dtypes fit more often than not."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

import tensocket as torch
from fuzz.values import CONTENTS, DTYPES, HOST, LAYOUTS, WEIGHTS, Operand, contents

#: Numbers among the arguments; the same value comes as int, float and bool.
NUMBERS: tuple[Any, ...] = (0, 1, 2, -1, 3, 0.0, -0.0, 1.0, 2.0, 0.5, -1.5, 1e-3, True, False, 7.25, 100)
ODD: tuple[Any, ...] = (float("inf"), float("nan"), -float("inf"), 1e40, -(1 << 40), 300, 1 + 0j, complex(0, -0.0),
                        1e-320)


class Scene:
    """Shapes and dtypes that the arguments of one call share."""

    def __init__(self, rng: np.random.Generator, broad: bool) -> None:
        self.rng = rng
        self.dtype = str(rng.choice(DTYPES, p=WEIGHTS / WEIGHTS.sum()))
        self.kind = str(rng.choice(CONTENTS, p=[0.5, 0.2, 0.3]))
        self.broad = broad
        self.shape = self._shape()

    def _shape(self) -> tuple[int, ...]:
        rng, draw = self.rng, self.rng.random()
        if draw < 0.08:
            return ()
        if draw < 0.12:
            return tuple(int(n) for n in rng.choice([0, 1, 3], int(rng.integers(1, 4))))
        if draw < 0.18:
            long = int(rng.choice([2500, 17000, 70000])) if self.broad else 2500
            return ((long,), (50, 60), (130, 140))[int(rng.integers(3))]
        if draw < 0.4:
            n = int(rng.integers(1, 6))
            return (n, n) if draw < 0.34 else (2, n, n)
        return tuple(int(n) for n in rng.integers(1, 8, int(rng.integers(1, 5))))

    def argument(self, p: Any) -> Any:
        """A value for a parameter."""
        rng = self.rng
        if p.optional and rng.random() < 0.4:
            return None
        if p.type == "Tensor" or (p.type == "Operand" and rng.random() < 0.6):
            return self.operand(p.name)
        if p.type in ("Tensor[]", "Tensor?[]"):
            return [self.operand(p.name) for _ in range(int(rng.integers(1, 4)))]
        if p.type in ("Scalar", "Operand"):
            return self.number()
        if p.type == "float":
            return float(rng.choice([0.0, -0.0, 0.5, 1.0, 1e-5, 2.0])) if rng.random() < 0.8 else self.number()
        if p.type == "bool":
            return bool(rng.random() < 0.5)
        if p.type == "int":
            return self.whole(p.name)
        if p.type == "int[]":
            return self.wholes(p.name)
        if p.type == "dtype":
            return getattr(torch, str(rng.choice(DTYPES)))
        if p.type == "str":
            return str(rng.choice(["mean", "sum", "none"])) if p.name == "reduction" else default_of(p)
        return self.anything(p)

    def number(self) -> Any:
        """A Python number."""
        rng = self.rng
        return ODD[int(rng.integers(len(ODD)))] if rng.random() < 0.1 else NUMBERS[int(rng.integers(len(NUMBERS)))]

    def whole(self, name: str) -> int:
        """A whole number."""
        rank, rng = len(self.shape), self.rng
        if name.startswith(("dim", "axis", "start_dim", "end_dim", "source", "destination")):
            return int(rng.integers(-rank, max(rank, 1))) if rng.random() < 0.95 else rank + 1
        return int(rng.choice([0, 1, 2, 3, 4, -1, 7], p=[0.15, 0.25, 0.25, 0.15, 0.08, 0.08, 0.04]))

    def wholes(self, name: str) -> Any:
        """A tuple of whole numbers."""
        rng = self.rng
        if name in ("size", "shape", "sizes", "normalized_shape"):
            return self.shape[-int(rng.integers(1, 3)):] if name == "normalized_shape" else self.shape[::-1]
        if name.startswith(("dim", "axes", "axis")):
            count = int(rng.integers(0, len(self.shape) + 1))
            return tuple(int(k) for k in rng.permutation(max(len(self.shape), 1))[:count])
        return tuple(int(n) for n in rng.integers(0, 3, int(rng.integers(1, 4))))

    def anything(self, p: Any) -> Any:
        """A value for a parameter whose type only its name tells."""
        rng, name = self.rng, p.name
        if name.startswith(("dim", "axis", "dims")):
            return [None, self.whole("dim"), self.wholes("dim")][int(rng.integers(3))]
        if name in ("kernel_size", "stride", "padding", "dilation", "output_size", "output_padding"):
            one = int(rng.integers(0 if "padding" in name else 1, 4))
            return one if rng.random() < 0.6 else (one, int(rng.integers(1, 3)))
        if name in ("size", "shape", "repeats", "tile_dims"):
            return self.wholes("size")
        if name == "reduction":
            return str(rng.choice(["mean", "sum", "none"]))
        if rng.random() < 0.5 and p.default is not None:
            return default_of(p)
        return [None, 1, 0.5, "mean", (1, 2), True, self.operand("x"), 2][int(rng.integers(8))]

    def operand(self, name: str) -> Operand:
        """A tensor."""
        rng = self.rng
        shape, dtype = self.shape, self.dtype
        if rng.random() < 0.1:
            dtype = str(rng.choice(DTYPES, p=WEIGHTS / WEIGHTS.sum()))
        if self.broad and rng.random() < 0.25:
            shape = tuple([1 if rng.random() < 0.4 else n for n in shape])[int(rng.integers(0, len(shape) + 1)):]
        if name in ("mask", "condition", "attn_mask") or name.endswith("mask"):
            return self.laid(contents(rng, shape, "bool", "tame"), "bool")
        if name in ("index", "indices", "target", "labels", "positions"):
            if rng.random() < 0.85:
                high = max(min(shape, default=1), 1) if rng.random() < 0.9 else 9
                cut = shape if name != "target" or rng.random() < 0.5 else (shape[:1])
                return self.laid(rng.integers(0, high, cut), "int64")
        if name in ("weight", "bias", "running_mean", "running_var") and shape and rng.random() < 0.6:
            return self.laid(np.abs(contents(rng, shape[-1:] if rng.random() < 0.5 else shape[1:2], dtype, self.kind))
                             if dtype not in ("bool",) else contents(rng, shape[-1:], dtype, self.kind), dtype)
        return self.laid(contents(rng, shape, dtype, self.kind), dtype)

    def laid(self, array: np.ndarray[Any, Any], dtype: str) -> Operand:
        """A tensor in a random layout."""
        layout = str(self.rng.choice(LAYOUTS)) if self.rng.random() < 0.3 else "plain"
        if HOST[dtype].kind != "c" and array.dtype.kind == "c":
            array = array.real
        return laid_out(np.asarray(array, HOST[dtype]), dtype, layout)


def laid_out(array: np.ndarray[Any, Any], dtype: str, layout: str) -> Operand:
    """An operand in a layout that its values allow, else a plain one."""
    if layout == "expanded" and (array.ndim == 0 or not array.shape[0] or (array != array[:1]).any()):
        layout = "plain"
    return Operand(array, dtype, layout)


def default_of(p: Any) -> Any:
    """A parameter's default."""
    return None if p.default is None else ast.literal_eval(p.default)
