"""Shortcuts to host kernels for small matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.keys import DIM0
from tensocket_core.launch.host_kernels import REFUSED, Closure
from tensocket_core.tensor import Tensor, wrap
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.kit.host_kernels_quiet import quiet

_new = object.__new__


def product(kernel: Kernel, key: int, fits: Callable[[Any, Any], bool], next_path: Closure) -> Closure:
    """Return a closure that runs ``kernel(x, y)`` if ``fits(x, y)`` allows the shapes, else ``next_path``."""
    run = quiet(kernel.run, 2)

    def direct_product(a: Any, b: Any) -> Any:
        x, y = a._array, b._array
        if not fits(x, y):
            return next_path(a, b)
        try:
            r = run(x, y)
        except REFUSED:
            return next_path(a, b)
        t = _new(Tensor)
        t._array = r
        t._key = key if r.shape else key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_product


def affine(kernel: Kernel, key: int, next_path: Closure) -> Closure:
    """Return a closure for ``input @ weight.T + bias`` with ``kernel(x, weight, bias)``; the input is at least 2-D."""
    run = quiet(kernel.run, 3)

    def direct_affine(a: Any, weight: Any, bias: Any = None) -> Any:
        x, w = a._array, weight._array
        if x.ndim < 2 or w.ndim != 2:
            return next_path(a, weight, bias)
        try:
            r = run(x, w, None if bias is None else bias._array)
        except REFUSED:
            return next_path(a, weight, bias)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_affine


def added(kernel: Kernel, key: int, next_path: Closure) -> Closure:
    """Return a closure for ``input + mat1 @ mat2`` with ``kernel(mat1, mat2.T, input)``; the input is a vector."""
    run = quiet(kernel.run, 3)

    def direct_sum(a: Any, b: Any, c: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        bias, x, y = a._array, b._array, c._array
        if not (bias.ndim == 1 and x.ndim == 2 == y.ndim and type(beta) is int is type(alpha) and beta == 1 == alpha):
            return next_path(a, b, c, beta=beta, alpha=alpha)
        try:
            return wrap(run(x, y.T, bias), key)
        except REFUSED:
            return next_path(a, b, c, beta=beta, alpha=alpha)

    return direct_sum
