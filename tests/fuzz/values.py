"""Contents, layouts and comparison: arrays of every dtype, the ways in which they lie in memory, and equal results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensocket as torch

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "uint8", "int8", "int16")
DTYPES = (*FLOATS, *INTEGERS, "bool", "complex64", "complex128")
#: How often each dtype is drawn.
WEIGHTS = np.array([8, 5, 2, 2, 4, 2, 1, 1, 1, 2, 1, 1], float)
#: NumPy's dtype of the values of a tensor; bfloat16 travels as float32.
HOST = {name: np.dtype(np.float32 if name == "bfloat16" else name)
        for name in (*DTYPES, "uint16", "uint32", "uint64")}
#: Kinds of contents: signed numbers, small whole numbers with many equal ones, everything that a dtype holds.
CONTENTS = ("tame", "few", "wild")
LAYOUTS = ("plain", "transposed", "permuted", "step", "offset", "part", "expanded")
#: Relative differences that are rounding in another order, by dtype.
ROUNDING = {"float32": 1e-5, "float64": 1e-13, "float16": 1e-2, "bfloat16": 8e-2, "complex64": 1e-5,
            "complex128": 1e-13}
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 1e-30, -1e30, 3.0, 88.0, -104.0, 1e-4)


@dataclass(frozen=True)
class Operand:
    """A tensor of a call: values, dtype, and how it lies in memory.

    Attributes:
        array: Values in a host dtype.
        dtype: Name of the tensor's dtype.
        layout: One of ``LAYOUTS``; ``expanded`` needs values that are equal along the first dimension.
    """

    array: np.ndarray[Any, Any]
    dtype: str
    layout: str = "plain"

    def tensor(self, rng: np.random.Generator, requires_grad: bool = False) -> Any:
        """A new tensor; what lies between its elements are other numbers."""
        made = _placed(self.array, self.dtype, self.layout, rng)
        return made.requires_grad_() if requires_grad and self.dtype in FLOATS else made


def contents(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, kind: str) -> np.ndarray[Any, Any]:
    """Values of a host dtype."""
    host = HOST[dtype]
    if host.kind == "b":
        return rng.random(shape) < 0.5
    if host.kind == "c":
        return (contents(rng, shape, "float64", kind) + 1j * contents(rng, shape, "float64", kind)).astype(host)
    if host.kind == "f":
        values = rng.integers(-3, 4, shape).astype(float) if kind == "few" else rng.standard_normal(shape) * 2
        if kind == "wild":
            values = np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), values * 2.0 ** rng.integers(
                -20, 20, shape))
        with np.errstate(over="ignore", under="ignore"):
            return rounded(values.astype(host), dtype)
    info = np.iinfo(host)
    if kind == "wild":
        return rng.integers(info.min, info.max, shape, host, endpoint=True)
    low, high = (-3, 4) if kind == "few" else (-40, 41)
    return rng.integers(max(low, info.min), high, shape).astype(host)


def rounded(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Values of a host dtype that the dtype holds."""
    if dtype != "bfloat16":
        return values
    bits = np.ascontiguousarray(values).view(np.uint32)
    cut = (bits + (0x7FFF + (bits >> 16 & 1)).astype(np.uint32)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), cut.view(np.float32)).reshape(values.shape)


def _tensor(array: np.ndarray[Any, Any], dtype: str) -> Any:
    made = torch.from_numpy(np.array(array, HOST[dtype], order="C"))
    return made.to(torch.bfloat16) if dtype == "bfloat16" else made


def _placed(array: np.ndarray[Any, Any], dtype: str, layout: str, rng: np.random.Generator) -> Any:
    rank = array.ndim
    if layout == "plain" or not rank:
        return _tensor(array, dtype)
    if layout == "expanded":
        return _tensor(array[:1], dtype).expand(*array.shape)
    if layout in ("transposed", "permuted"):
        order = list(range(rank))[::-1] if layout == "transposed" else [int(k) for k in rng.permutation(rank)]
        return _tensor(array.transpose(order), dtype).permute(*[int(k) for k in np.argsort(order)])
    # The rest of the memory holds other numbers, which nobody may read.
    if layout == "step":
        whole = contents(rng, (*array.shape[:-1], 2 * array.shape[-1] + 1), dtype, "wild")
        whole[..., 1::2] = array
        return _tensor(whole, dtype)[..., 1::2]
    if layout == "offset":
        front = int(rng.integers(1, 6))
        whole = contents(rng, (front + array.size + 2,), dtype, "wild")
        whole[front: front + array.size] = array.ravel()
        return _tensor(whole, dtype)[front: front + array.size].view(*array.shape)
    before, after = (int(n) for n in rng.integers(0, 4, 2))
    whole = contents(rng, (*array.shape[:-1], before + array.shape[-1] + after), dtype, "wild")
    whole[..., before: before + array.shape[-1]] = array
    return _tensor(whole, dtype)[..., before: before + array.shape[-1]]


def flattened(result: Any) -> list[Any]:
    """Tensors, as dtype, shape and values, and other objects of a result, in order."""
    if isinstance(result, torch.Tensor):
        if result.layout != torch.strided:
            result = result.to_dense()
        values = result.detach()
        name = str(values.dtype).rpartition(".")[2]
        if values.dtype == torch.bfloat16 or "float8" in name:
            values = values.to(torch.float32)
        return [(name, np.array(values.resolve_conj().numpy()))]
    if isinstance(result, np.ndarray):
        return [("numpy." + result.dtype.name, np.array(result))]
    if isinstance(result, (tuple, list)) and type(result) is not torch.Size:
        return [part for item in result for part in flattened(item)]
    return [result]


def difference(found: list[Any], wanted: list[Any], rough: float = 0.0, scale: float = 0.0) -> str:
    """How two flattened results differ, in a few words; empty if they don't.

    Args:
        found: One result.
        wanted: The other.
        rough: Multiple of the dtypes' ``ROUNDING`` that floats may differ by, relative to the largest one; with 0, all
            bits have to be equal except those of NaN.
        scale: The magnitude to which floats' differences are relative instead, if it is larger.
    """
    if len(found) != len(wanted):
        return f"{len(found)} results, not {len(wanted)}"
    for number, (x, y) in enumerate(zip(found, wanted, strict=True)):
        said = _different(x, y, rough, scale)
        if said:
            return said if len(found) == 1 else f"result {number}: {said}"
    return ""


def largest(outcome: list[Any]) -> float:
    """The largest finite magnitude among the floats of a flattened result."""
    arrays = [x[1] for x in outcome if type(x) is tuple and len(x) == 2 and isinstance(x[1], np.ndarray)]
    return max([float(np.abs(a[np.isfinite(a)]).max(initial=0)) for a in arrays if a.dtype.kind in "fc"], default=0.0)


def _same_number(x: Any, y: Any, rough: float) -> bool:
    if isinstance(x, complex) and isinstance(y, complex):
        return _same_number(x.real, y.real, rough) and _same_number(x.imag, y.imag, rough)
    if isinstance(x, float) and isinstance(y, float):
        return x == y or (math.isnan(x) and math.isnan(y)) or bool(rough and math.isclose(x, y, rel_tol=1e-3))
    return bool(x == y)


def _different(x: Any, y: Any, rough: float, scale: float) -> str:
    if not isinstance(x, tuple) or not isinstance(y, tuple) or len(x) != 2 or not isinstance(x[1], np.ndarray):
        return "" if type(x) is type(y) and _same_number(x, y, rough) else f"{x!r}, not {y!r}"
    (name, a), (other, b) = x, y
    if name != other or a.shape != b.shape:
        return f"{name}{list(a.shape)}, not {other}{list(b.shape)}"
    if a.dtype.kind == "c":
        parts = [(a.real, b.real), (a.imag, b.imag)]
    else:
        parts = [(a, b)]
    for p, q in parts:
        wrong = _wrong(p, q, rough * ROUNDING.get(name, 0.0), scale)
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            return f"{name}{list(a.shape)} at {list(at)}: {a[at]!r}, not {b[at]!r} ({int(wrong.sum())} of {a.size})"
    return ""


def _wrong(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], bound: float, scale: float) -> np.ndarray[Any, Any]:
    if x.dtype.kind != "f":
        return np.asarray(x != y)
    nan = np.isnan(x) | np.isnan(y)
    both = np.isnan(x) & np.isnan(y)
    if not bound:
        return np.asarray(np.where(nan, ~both, (x != y) | (np.signbit(x) != np.signbit(y))))
    with np.errstate(all="ignore"):
        a, b = x.astype(float), y.astype(float)
        finite = np.isfinite(a) & np.isfinite(b)
        scale = max(scale, *[np.abs(np.where(finite, c, 0)).max(initial=0) for c in (a, b)])
        far = np.where(finite, np.abs(a - b) > bound * scale, a != b)
    return np.asarray(np.where(nan, ~both, far))
