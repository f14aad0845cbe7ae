"""Warnings of compiled functions: each call gives them, under the filters and registries of its own time."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.capture.layout import LAYOUT

from .test_training import hits

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
X = torch.linspace(-1, 1, 6).reshape(2, 3)


def warm(compiled, calls=6):
    """Call a function until graphs serve it."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for _ in range(calls):
            compiled(X)
    assert hits(compiled), compiled._compiled.reasons


def tired(x):
    warnings.warn(f"tired of {x.ndim} dimensions", RuntimeWarning, stacklevel=1)
    return x * 2 + 1


LINE = tired.__code__.co_firstlineno + 1


def test_each_call_warns_at_the_same_place():
    compiled = torch.compile(tired)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(8):
            np.testing.assert_array_equal(compiled(X).numpy(), X.numpy() * 2 + 1)
    assert hits(compiled)
    assert [(str(x.message), x.category, x.filename, x.lineno) for x in shown] == [
        ("tired of 2 dimensions", RuntimeWarning, __file__, LINE)] * 8


@pytest.mark.parametrize(("action", "count"), [("default", 1), ("ignore", 0), ("once", 1), ("module", 1)])
def test_filters_decide_at_each_call(action, count):
    compiled = torch.compile(lambda x: tired(x) - 1)
    warm(compiled)
    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()
        warnings.simplefilter(action)
        vars(warnings)["onceregistry"].clear()
        for _ in range(12):
            compiled(X)
    assert len(shown) == count


def test_a_warning_that_is_an_error_stops_the_call():
    seen = torch.zeros(())

    def f(x):
        seen.add_(1)
        return tired(x)
    compiled = torch.compile(f)
    warm(compiled)
    before = seen.item()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="tired of 2 dimensions"):
            compiled(X)
    assert seen.item() == before + 1
    np.testing.assert_array_equal(torch.compile(lambda x: x)(X).numpy(), X.numpy())


def test_warnings_of_modules_and_operators():
    compiled = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.Softmax()))
    warm(compiled)
    for count in range(1, 4):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            compiled(X)
        assert len(shown) == 1, count
        assert str(shown[0].message) == "softmax without dim guesses one, which is deprecated; pass dim"


def test_places_outside_of_the_call_are_refused():
    def far(x):
        warnings.warn("far", UserWarning, stacklevel=2)
        return x + 1
    compiled = torch.compile(far)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            compiled(X)
    assert not hits(compiled)
    assert "it gives a warning that names a place outside of it" in compiled._compiled.reasons[0]


def test_the_function_under_another_name_is_refused():
    warn = warnings.warn

    def f(x):
        warn("hidden", UserWarning, stacklevel=1)
        return x + 1
    compiled = torch.compile(f)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(6):
            compiled(X)
    assert len(shown) == 6
    assert not hits(compiled)


def test_warnings_of_other_threads_are_theirs():
    done, asked = threading.Event(), threading.Event()

    def other():
        asked.wait(10)
        warnings.warn("from elsewhere", UserWarning, stacklevel=1)
        done.set()

    def f(x):
        return x * 3
    compiled = torch.compile(f)
    thread = threading.Thread(target=other)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        thread.start()
        compiled(X)
        asked.set()
        compiled(X)
        done.wait(10)
        thread.join()
        for _ in range(5):
            compiled(X)
    assert len(shown) == 1
    assert hits(compiled)


def test_backends_of_programs_refuse_functions_that_warn():
    compiled = torch.compile(tired, backend="eager")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(3):
            compiled(X)
    assert len(shown) == 3
    assert "it warns: tired" in compiled._compiled.reasons[0]


def test_the_stand_in_is_gone():
    assert warnings.warn.__module__ == "_warnings"
