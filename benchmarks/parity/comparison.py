"""Comparison of the results of two libraries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

#: Operators compared in shape and dtype only: their results are random numbers or uninitialised memory.
SHAPE_ONLY: Final = frozenset({
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "native_dropout", "new_empty", "new_empty_strided", "normal",
    "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.rrelu", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "uniform", "pca_lowrank", "svd_lowrank", "resize_", "resize_as_", "hash_tensor",
})
#: Decompositions whose vectors are unique up to a factor of modulus one, so that absolute values are compared.
UP_TO_PHASE: Final = frozenset({
    "svd", "linalg.svd", "linalg.eig", "linalg.eigh", "linalg.qr", "qr", "geqrf", "linalg.householder_product",
})
#: (relative, absolute) tolerance of values and of gradients in float32 (and complex64) and wider dtypes.
TOLERANCE: Final = {"values": (1e-4, 1e-5), "gradients": (1e-3, 1e-4)}
#: The tolerances of float16 and bfloat16. The absolute one is a part of the largest element: sums round their terms.
HALF_TOLERANCE: Final = (1.6e-2, 1e-2)
#: Operators that may return the index of any of several equal elements; maps to the position of ``dim`` in arguments.
OF_EQUALS: Final = {"kthvalue": 1, "topk": 1, "mode": 0, "sort": 0, "argsort": 0}



def leaves(value: Any) -> Iterator[Any]:
    """Yield the tensors and numbers in a result."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "numel"):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def dense(value: Any) -> Any:
    """Return a sparse tensor as a dense one, and any other result itself."""
    sparse = hasattr(value, "layout") and "strided" not in str(value.layout)
    return value.to_dense() if sparse else value


def host(value: Any) -> np.ndarray[Any, Any]:
    """Return the values of a tensor of either library."""
    value = dense(value.detach())
    name = str(value.dtype).rpartition(".")[2]
    if hasattr(value, "resolve_conj"):
        value = value.resolve_conj().resolve_neg()
    return np.asarray((value.float() if name == "bfloat16" else value).cpu().numpy(force=True))


def difference(theirs: Any, mine: Any, kind: str, name: str) -> str:
    """Return how two results differ; empty if they agree."""
    if name in ("svd", "linalg.svd") and len(theirs) == len(mine) == 3:
        theirs, mine = _determined(theirs, name), _determined(mine, name)
    a, b = list(leaves(theirs)), list(leaves(mine))
    if len(a) != len(b):
        return f"{len(b)} results instead of {len(a)}"
    for x, y in zip(a, b, strict=True):
        if hasattr(x, "dtype") and hasattr(x, "shape"):
            text = tensor_difference(x, y, kind, name)
        elif hasattr(y, "shape"):
            text = f"a tensor instead of {type(x).__name__}"
        else:
            same = str(x).replace("torch.", "") == str(y).replace("tensocket.", "") or name in SHAPE_ONLY
            text = "" if same or _near(np.asarray(x), np.asarray(y), kind) else f"{y} instead of {x}"
        if text:
            return text
    return ""


def _determined(factors: Any, name: str) -> tuple[Any, ...]:
    """Return the part of a full singular value decomposition that the matrix determines."""
    u, s, v = factors
    k = s.shape[-1]
    return u[..., :k], s, v[..., :k] if name == "svd" else v[..., :k, :]


def tensor_difference(x: Any, y: Any, kind: str, name: str) -> str:
    if not hasattr(y, "shape"):
        return f"{type(y).__name__} instead of a tensor"
    if tuple(x.shape) != tuple(y.shape):
        return f"shape {tuple(y.shape)} instead of {tuple(x.shape)}"
    kinds = [str(t.dtype).rpartition(".")[2] for t in (x, y)]
    if kinds[0] != kinds[1]:
        return f"dtype {kinds[1]} instead of {kinds[0]}"
    if name in SHAPE_ONLY:
        return ""
    p, q = host(x), host(y)
    if name in UP_TO_PHASE:
        p, q = np.abs(p), np.abs(q)
    if _near(p, q, kind, kinds[0] in ("float16", "bfloat16")):
        return ""
    with np.errstate(all="ignore"):
        worst = np.nanmax(np.abs(p.astype(np.complex128) - q.astype(np.complex128))) if p.size else math.nan
    return f"values differ by up to {worst:.3g}"


def _near(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any], kind: str, half: bool = False) -> bool:
    if p.dtype.kind not in "fc":
        return bool(np.array_equal(p, q)) if p.dtype.kind in "biu" else bool((p == q).all())
    relative, absolute = TOLERANCE[kind]
    if half:
        finite = np.abs(p[np.isfinite(p)])
        relative, absolute = HALF_TOLERANCE[0], HALF_TOLERANCE[1] * float(finite.max(initial=0))
    return bool(np.allclose(q, p, rtol=relative, atol=absolute, equal_nan=True))


def named_elements(sample: Any, name: str, results: Any) -> Any:
    """Return results with indices replaced by the elements at these indices."""
    values = host(sample.input)
    given = dict(sample.kwargs).get("dim", sample.args[OF_EQUALS[name]] if len(sample.args) > OF_EQUALS[name] else -1)
    dim = given if isinstance(given, int) and not isinstance(given, bool) else -1
    if not values.ndim:
        return results
    *others, positions = (results,) if name == "argsort" else tuple(results)
    places = host(positions)
    if places.ndim < values.ndim:
        places = np.expand_dims(places, dim)
    return (*others, *np.take_along_axis(values, places, dim).reshape(-1).tolist(), places.shape)
