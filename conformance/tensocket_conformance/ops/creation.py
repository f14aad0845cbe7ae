"""Factories of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

import tensocket as ts

from ..case import Case
from ..numerics import FORMATS, Failure, HostArray, Metric, Tolerance, compare
from ..record import MINOR
from ..subject import Subject, dtype_of, format_of

#: Name, call, reference, and letters of the element types' kinds.
_Row = tuple[str, Callable[[dict[str, Any]], Any], Callable[[], HostArray], str]

_ROWS: Final[tuple[_Row, ...]] = (
    ("zeros/prime#0", lambda o: ts.zeros(7, 13, **o), lambda: np.zeros((7, 13)), "bifc"),
    ("zeros/scalar#0", lambda o: ts.zeros((), **o), lambda: np.zeros(()), "bifc"),
    ("zeros/empty#0", lambda o: ts.zeros((0, 3), **o), lambda: np.zeros((0, 3)), "bifc"),
    ("zeros/large#0", lambda o: ts.zeros(65536 + 19, **o), lambda: np.zeros(65536 + 19), "bifc"),
    ("ones/prime#0", lambda o: ts.ones((7, 13), **o), lambda: np.ones((7, 13)), "bifc"),
    ("full/prime#0", lambda o: ts.full((5, 3), 1, **o), lambda: np.ones((5, 3)), "bifc"),
    ("full/values#0", lambda o: ts.full((31,), 3, **o), lambda: np.full(31, 3.0), "if"),
    ("arange/prime#0", lambda o: ts.arange(31, **o), lambda: np.arange(31.0), "if"),
    ("arange/step#0", lambda o: ts.arange(2, 20, 3, **o), lambda: np.arange(2.0, 20.0, 3.0), "if"),
    ("arange/empty#0", lambda o: ts.arange(0, **o), lambda: np.zeros(0), "if"),
    ("eye/prime#0", lambda o: ts.eye(7, **o), lambda: np.eye(7), "bifc"),
    ("eye/wide#0", lambda o: ts.eye(3, 5, **o), lambda: np.eye(3, 5), "bifc"),
    ("tensor/values#0", lambda o: ts.tensor([[1, 0], [2, 3]], **o), lambda: np.array([[1.0, 0.0], [2.0, 3.0]]), "if"),
    ("tensor/scalar#0", lambda o: ts.tensor(1, **o), lambda: np.array(1.0), "bifc"),
    ("tensor/empty#0", lambda o: ts.tensor([], **o), lambda: np.zeros(0), "if"),
    ("zeros_like/prime#0", lambda o: ts.zeros_like(ts.ones((5, 3), **o)), lambda: np.zeros((5, 3)), "bifc"),
    ("ones_like/prime#0", lambda o: ts.ones_like(ts.zeros((5, 3), **o)), lambda: np.ones((5, 3)), "bifc"),
    ("full_like/prime#0", lambda o: ts.full_like(ts.zeros((5, 3), **o), 1), lambda: np.ones((5, 3)), "bifc"),
)


def cases(declared: tuple[str, ...]) -> Iterator[Case]:
    """Yield the creation cases for a device that declares the element types ``declared``."""
    for label, call, reference, letters in _ROWS:
        name, _, sample = label.partition("/")
        for short, form in FORMATS.items():
            if form.kind[0] not in letters or (short in MINOR and not sample.startswith(("prime", "values"))):
                continue
            if short in declared:
                yield _case(f"T2.op.{name}/{short}/{sample}", call, reference, short)
            elif sample == "prime#0":
                yield _case(f"T2.op.{name}/{short}/undeclared", call, reference, short, refusal=True)
    if "f32" in declared:
        yield Case("T2.op.tensor/f32/default", _default_dtypes, requires=("T0.load.open",), dtype="f32")


def _case(case_id: str, call: Callable[[dict[str, Any]], Any], reference: Callable[[], HostArray], short: str, *,
          refusal: bool = False) -> Case:
    def check(subject: Subject) -> Metric | None:
        tensor = call({"dtype": dtype_of(short), "device": subject.device})
        form = format_of(tensor)
        if form.short != short:
            raise Failure(f"the result has dtype {form.name}, expected {FORMATS[short].name}")
        expected = reference()
        if form.kind not in ("float", "complex"):
            expected = expected.astype(form.numpy)
        return compare(subject.get(tensor), expected, form, Tolerance())

    requires = ("T0.load.open",) if refusal else (f"T1.memory.roundtrip/{short}/values",)
    return Case(case_id, check, requires=requires, dtype=short, refusal=refusal)


def _default_dtypes(subject: Subject) -> None:
    """Check the default dtypes of Python values."""
    for value, short in (([1.5], "f32"), ([1], "i64"), ([True], "b8")):
        if short in subject.dtypes:
            tensor = ts.tensor(value, device=subject.device)
            if format_of(tensor).short != short:
                raise Failure(f"tensor({value}) has dtype {tensor.dtype}, expected {FORMATS[short].name}")
