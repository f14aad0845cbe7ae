"""Small results that go to ``out=`` at once: values, versions and errors are those of ``copy_``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as ts
from tensocket_operators import call_forms

A, B = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Mode(ts.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """A mode that sees operators and runs them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call whether its result was stored at once."""
    answers: list[bool] = []
    write = call_forms._write_plain

    def noted(*args: Any) -> bool:
        answers.append(write(*args))
        return answers[-1]

    monkeypatch.setattr(call_forms, "_write_plain", noted)
    return answers


def test_results_are_stored_and_counted(stored: list[bool]) -> None:
    a, b, out = ts.tensor(A), ts.tensor(B), ts.empty(3, 4)
    view, version = out[1], out._version
    for k in range(3):
        assert ts.add(a, b * k, out=out) is out
        np.testing.assert_array_equal(out.numpy(), A + B * k)
        assert out._version == view._version == version + k + 1
    np.testing.assert_array_equal(view.numpy(), A[1] + 2 * B[1])
    assert stored == [True] * 3


def test_an_operand_may_be_out(stored: list[bool]) -> None:
    a = ts.tensor(A)
    ts.mul(a, a, out=a)
    np.testing.assert_array_equal(a.numpy(), A * A)
    assert stored == [True]


@pytest.mark.parametrize("case", ["strided", "other dtype", "other shape", "large", "a part of an operand", "observed"])
def test_other_results_take_the_long_way(case: str, stored: list[bool]) -> None:
    a, b = ts.tensor(A), ts.tensor(B)
    out = {"strided": ts.empty(4, 3).t(), "other dtype": ts.empty(3, 4, dtype=ts.float64), "other shape": ts.empty(0),
           "a part of an operand": a.view(3, 4)}.get(case, ts.empty(3, 4))
    expected = A + B
    if case == "large":
        a = b = ts.ones(1 << 15)
        out, expected = ts.empty(1 << 15), np.full(1 << 15, 2, np.float32)
    if case == "observed":
        with Mode():
            ts.add(a, b, out=out)
    else:
        ts.add(a, b, out=out)
    np.testing.assert_array_equal(out.numpy(), expected)
    assert stored in ([False], [])


def test_errors_are_those_of_copies(stored: list[bool]) -> None:
    a, b = ts.tensor(A), ts.tensor(B)
    with pytest.raises(ts.errors.ShapeError, match="share no elements, or all of them one by one"):
        ts.add(a[:2], b[:2], out=a[1:])
    with ts.inference_mode():
        inside = ts.empty(3, 4)
    with pytest.raises(ts.errors.AutogradError, match="an inference tensor outside of inference mode"):
        ts.add(a, b, out=inside)
    with pytest.raises(ts.errors.AutogradError, match="has no gradient"):
        ts.add(a.requires_grad_(), b, out=ts.empty(3, 4))
    array = np.zeros((3, 4), np.float32)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        fixed = ts.from_numpy(array)
    before = array.copy()
    try:
        ts.add(b, b, out=fixed)
    except ts.errors.ArgumentError:
        np.testing.assert_array_equal(array, before)
    assert not any(stored)
