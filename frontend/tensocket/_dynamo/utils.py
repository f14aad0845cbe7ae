"""Counters of compiled functions, and comparisons of results."""

from __future__ import annotations

import functools
import warnings
from collections import Counter, defaultdict
from typing import Any, Final

from tensocket_compiler.calls.events import COUNTERS
from tensocket_core.tensor import Tensor
from tensocket_operators import is_available

#: ``stats`` (``unique_graphs``, ``calls_captured``), ``graph_break`` by reason, ``recompiles`` by function.
counters: Final[defaultdict[str, Counter[str]]] = COUNTERS


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Give a warning the first time that it is asked for."""
    warnings.warn(msg, stacklevel=stacklevel + 2)


def is_compile_supported(device_type: Any) -> bool:
    """Whether programs for a type of devices can be compiled: for those that are installed and work."""
    return is_available(str(device_type).partition(":")[0])


def clone_input(x: Any) -> Any:
    """Return a copy of a tensor that is a leaf as ``x`` is."""
    return x.detach().clone().requires_grad_(x.requires_grad)


def clone_inputs(example_inputs: Any) -> Any:
    """Return copies of all tensors in a list, or in a dict."""
    if isinstance(example_inputs, dict):
        return {name: clone_input(x) if isinstance(x, Tensor) else x for name, x in example_inputs.items()}
    return [clone_input(x) if isinstance(x, Tensor) else x for x in example_inputs]


def same(ref: Any, res: Any, fp64_ref: Any = None, cos_similarity: bool = False, tol: float = 1e-4,
         equal_nan: bool = False, exact_dtype: bool = True) -> bool:
    """Whether two results are the same: containers with the same keys and lengths, and tensors that are close.

    Args:
        ref: The expected result.
        res: The other result.
        fp64_ref: Accepted as in PyTorch.
        cos_similarity: Whether tensors need only point in the same direction, with a cosine of at least 0.99.
        tol: Absolute and relative tolerance of tensors.
        equal_nan: Whether not-a-numbers are the same.
        exact_dtype: Whether dtypes must be equal.
    """
    if isinstance(ref, Tensor):
        return isinstance(res, Tensor) and _same_tensors(ref.detach(), res.detach(), cos_similarity, tol, equal_nan,
                                                         exact_dtype)
    if isinstance(ref, (list, tuple)):
        return isinstance(res, (list, tuple)) and len(ref) == len(res) and all(
            same(a, b, None, cos_similarity, tol, equal_nan, exact_dtype) for a, b in zip(ref, res, strict=True))
    if isinstance(ref, dict):
        return isinstance(res, dict) and ref.keys() == res.keys() and all(
            same(ref[key], res[key], None, cos_similarity, tol, equal_nan, exact_dtype) for key in ref)
    if isinstance(ref, float):
        return isinstance(res, float) and (ref == res or abs(ref - res) <= tol + tol * abs(ref)
                                           or (equal_nan and ref != ref and res != res))
    return type(ref) is type(res) and bool(ref == res)


def _same_tensors(ref: Any, res: Any, cosine: bool, tol: float, equal_nan: bool, exact_dtype: bool) -> bool:
    if exact_dtype and ref.dtype is not res.dtype:
        return False
    if ref.shape != res.shape:
        return False
    res = res.to(ref.dtype)
    if not ref.dtype.is_floating_point and not ref.dtype.is_complex:
        return bool(ref.equal(res))
    if cosine:
        a, b = ref.flatten().double(), res.flatten().double()
        return bool((a * b).sum() >= 0.99 * (a.norm() * b.norm())) or bool(ref.equal(res))
    return bool(ref.allclose(res, rtol=tol, atol=tol, equal_nan=equal_nan))


__all__ = ["clone_input", "clone_inputs", "counters", "is_compile_supported", "same", "warn_once"]
