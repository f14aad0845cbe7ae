"""Operators that write into their first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics import HostArray, Tolerance
from ..record import Draw, Maker, Operator, Sample, kinds, same


def _samples(arity: int) -> dict[str, Maker]:
    def make(shape: tuple[int, ...], layout: str, other: tuple[int, ...] | None = None) -> Maker:
        def build(draw: Draw) -> Sample:
            rest = [draw.given(shape if other is None else other, low=0.5) for _ in range(arity - 1)]
            return Sample((draw.given(shape, layout, low=0.5), *rest))

        return build

    samples = {"prime#0": make((7, 13), "plain"), "scalar#0": make((), "plain"), "empty#0": make((0, 2), "plain"),
               "transposed#0": make((17, 5), "transposed"), "offset#0": make((9, 7), "offset"),
               "step#0": make((5, 3, 7), "step"), "large#0": make((65536 + 19,), "plain")}
    if arity > 1:
        samples["broadcast#0"] = make((6, 4), "plain", (4,))
    return samples


def _record(name: str, reference: Callable[..., HostArray], arity: int, call: Callable[..., Any],
            letters: str = "if", ulp: float = 0.0) -> Operator:
    return Operator(name, call, reference, _samples(arity), kinds(letters), same, Tolerance(ulp), mutates=True)


def _setitem(x: Any) -> Any:
    x[..., :1] = 3
    return x


def _setitem_reference(x: HostArray) -> HostArray:
    result = x.copy()
    result[..., :1] = 3
    return result


def _set_samples() -> dict[str, Maker]:
    samples = _samples(1)
    del samples["scalar#0"]
    return samples


#: The records of this family.
OPERATORS = [
    _record("add_", np.add, 2, lambda x, y: x.add_(y)),
    _record("sub_", np.subtract, 2, lambda x, y: x.sub_(y)),
    _record("mul_", np.multiply, 2, lambda x, y: x.mul_(y)),
    _record("div_", np.true_divide, 2, lambda x, y: x.div_(y), "f", 1.0),
    _record("neg_", np.negative, 1, lambda x: x.neg_()),
    _record("relu_", lambda x: np.maximum(x, 0), 1, lambda x: x.relu_()),
    _record("exp_", np.exp, 1, lambda x: x.exp_(), "f", 4.0),
    _record("clamp_", lambda x: np.clip(x, 1, 2), 1, lambda x: x.clamp_(1, 2)),
    _record("fill_", lambda x: np.full_like(x, 3), 1, lambda x: x.fill_(3)),
    _record("zero_", np.zeros_like, 1, lambda x: x.zero_()),
    _record("copy_", lambda x, y: np.broadcast_to(y, x.shape), 2, lambda x, y: x.copy_(y), "bif"),
    Operator("setitem", _setitem, _setitem_reference, _set_samples(), kinds("if"), same, mutates=True),
]
