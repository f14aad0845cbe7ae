"""Operators on lazily conjugated and negated tensors compute what they compute on others."""

from __future__ import annotations

from typing import Any

import pytest

import tensocket as ts
from tensocket_conformance import ops
from tensocket_conformance.numerics import FORMATS
from tensocket_conformance.subject import Subject
from tensocket_conformance.tiers import gradients


def lazy(x: Any) -> Any:
    """A view with the elements of ``x``, whose memory holds their conjugates or negatives."""
    if x.dtype.is_complex:
        return x.conj_physical().conj()
    return x if x.dtype is ts.bool else ts._neg_view(-x)


class Lazily(Subject):
    """The host, where all tensors are lazy."""

    def place(self, array: Any, short: str, layout: str = "plain") -> Any:
        """A lazy tensor."""
        return lazy(super().place(array, short, layout))

    def put(self, array: Any, short: str) -> Any:
        """A lazy tensor."""
        return lazy(super().put(array, short))

    def get(self, tensor: Any) -> Any:
        """Elements."""
        return super().get(tensor if tensor.is_sparse else tensor.resolve_conj().resolve_neg())


#: A view whose elements memory has to hold.
REFUSED = {"op.view_as_real", "op.view_as_complex"}
SUBJECT = Lazily("cpu", dtypes=tuple(FORMATS))


def _families() -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for case in (*ops.cases(tuple(FORMATS)), *gradients.cases(tuple(FORMATS))):
        if case.dtype in ("c64", "f32", "i64") and case.family not in REFUSED and not case.refusal:
            found.setdefault((case.family, case.dtype), []).append(case)
    return found


FAMILIES = _families()


@pytest.mark.parametrize("family", sorted(FAMILIES), ids="-".join)
def test_lazy_operands(family: tuple[str, str]) -> None:
    cases = FAMILIES[family]
    for case in cases[:3] if family[1] == "f32" else cases:
        case.run(SUBJECT)
