"""Operators that move values without changing them: views, concatenation, splits, copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..record import Maker, Operator, Sample, kinds, same

_LAYOUTS = ("plain", "transposed", "offset", "step")


def _sample(shape: tuple[int, ...], *args: Any, layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), *args))


def _several(*shapes: tuple[int, ...], layout: str = "plain", dim: int = 0) -> Maker:
    return lambda draw: Sample((dim, *(draw.given(shape, layout) for shape in shapes)))


def _layouts(shape: tuple[int, ...], *args: Any) -> dict[str, Maker]:
    """Return one sample per memory layout."""
    names = {"plain": "prime#0", "transposed": "transposed#0", "offset": "offset#0", "step": "step#0"}
    return {names[layout]: _sample(shape, *args, layout=layout) for layout in _LAYOUTS}


def _view(name: str, call: Callable[..., Any], reference: Callable[..., Any], samples: dict[str, Maker],
          result: Callable[[str], str | tuple[str, ...]] = same) -> Operator:
    return Operator(name, call, reference, samples, kinds("bifuc"), result)


def _many(short: str) -> tuple[str, ...]:
    return (short,)


_VIEWS = [
    _view("reshape", lambda x, *shape: x.reshape(*shape), lambda x, *shape: x.reshape(*shape),
          _layouts((6, 10), 4, -1) | {"empty#0": _sample((0, 3), 3, 0), "scalar#0": _sample((), 1, 1),
                                      "large#0": _sample((257, 256), 256, 257, layout="transposed")}),
    _view("view", lambda x, *shape: x.view(*shape), lambda x, *shape: x.reshape(*shape),
          {"prime#0": _sample((6, 10), 3, 20), "offset#0": _sample((6, 4), 24, layout="offset")}),
    _view("transpose", lambda x, a, b: x.transpose(a, b), np.swapaxes,
          _layouts((3, 5, 7), 0, 2) | {"dim#0": _sample((3, 5, 7), -1, 1)}),
    _view("permute", lambda x, *dims: x.permute(*dims), lambda x, *dims: x.transpose(dims),
          _layouts((3, 5, 7), 2, 0, 1)),
    _view("t", lambda x: x.t(), np.transpose, _layouts((7, 5))),
    _view("expand", lambda x: x.expand(4, 5, 3), lambda x: np.broadcast_to(x, (4, 5, 3)),
          _layouts((5, 1)) | {"dim#0": _sample((1, 5, 3))}),
    _view("unsqueeze", lambda x, dim: x.unsqueeze(dim), np.expand_dims,
          _layouts((7, 5), 1) | {"scalar#0": _sample((), 0), "dim#0": _sample((7, 5), -1)}),
    _view("squeeze", lambda x, *dim: x.squeeze(*dim), lambda x, *dim: np.squeeze(x, *dim),
          {"prime#0": _sample((7, 1, 5), 1), "prime#1": _sample((1, 7, 1)), "step#0": _sample((7, 1, 5), 1,
                                                                                            layout="step")}),
    _view("select", lambda x, dim, index: x.select(dim, index), lambda x, dim, index: np.take(x, index, dim),
          _layouts((7, 5), 1, 2) | {"dim#0": _sample((7, 5), 0, -1)}),
    _view("slice", lambda x: x[1:6:2, ..., -3:], lambda x: x[1:6:2, ..., -3:],
          _layouts((7, 5)) | {"empty#0": _sample((0, 5)), "large#0": _sample((260, 256))}),
    _view("basic_index", lambda x: x[2, None, :, 1], lambda x: x[2, None, :, 1], _layouts((4, 5, 3))),
    _view("split", lambda x, size, dim: x.split(size, dim), lambda x, size, dim: tuple(
        np.take(x, range(i, min(i + size, x.shape[dim])), dim) for i in range(0, x.shape[dim], size)),
        _layouts((7, 5), 3, 0) | {"dim#0": _sample((5, 7), 2, -1)}, _many),
    _view("chunk", lambda x, count, dim: x.chunk(count, dim), lambda x, count, dim: tuple(
        np.take(x, range(i, min(i + -(-x.shape[dim] // count), x.shape[dim])), dim)
        for i in range(0, x.shape[dim], -(-x.shape[dim] // count))),
        _layouts((7, 5), 3, 0), _many),
]
_COPIES = [
    _view("flip", lambda x, *dims: x.flip(dims), lambda x, *dims: np.flip(x, dims),
          _layouts((7, 5), 0, 1) | {"dim#0": _sample((3, 4, 5), 1)}),
    _view("clone", lambda x: x.clone(), np.copy,
          _layouts((17, 5)) | {"scalar#0": _sample(()), "empty#0": _sample((0, 3)), "large#0": _sample((65536 + 19,)),
                               "expanded#0": _sample((6, 5), layout="expanded"),
                               "large#1": _sample((300, 301), layout="transposed")}),
    _view("contiguous", lambda x: x.contiguous(), np.copy,
          _layouts((17, 5)) | {"expanded#0": _sample((6, 5), layout="expanded")}),
    _view("cat", lambda dim, *xs: ts.cat(xs, dim), lambda dim, *xs: np.concatenate(xs, dim), {
        "prime#0": _several((3, 5), (7, 5), (1, 5)), "dim#0": _several((5, 3), (5, 4), dim=-1),
        "transposed#0": _several((3, 5), (7, 5), layout="transposed"),
        "step#0": _several((3, 5), (2, 5), layout="step"),
        "empty#0": _several((0, 5), (3, 5)), "one#0": _several((3, 5)), "large#0": _several((200, 300), (31, 300)),
        "dim#1": _several((2, 3, 4), (2, 5, 4), dim=1)}),
    _view("stack", lambda dim, *xs: ts.stack(xs, dim), lambda dim, *xs: np.stack(xs, dim), {
        "prime#0": _several((3, 5), (3, 5), (3, 5)), "dim#0": _several((3, 5), (3, 5), dim=-1),
        "scalar#0": _several((), ()), "transposed#0": _several((3, 5), (3, 5), layout="transposed", dim=1)}),
]


#: The records of this family.
OPERATORS = [*_VIEWS, *_COPIES]
