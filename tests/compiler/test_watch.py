"""Observation of calls: code, names, C functions, and refusals with their places."""

from __future__ import annotations

import functools
import gc
import random
import sys
import time

import pytest

import tensocket as torch
from tensocket_compiler.capture.code_names import names_of
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.packages import is_inside, is_library
from tensocket_compiler.capture.pure import is_pure, name_of
from tensocket_compiler.capture.watch import Refusal, observe

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")
X = torch.ones(3)


def line_of(function, offset):
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def test_the_result_and_the_code_that_ran():
    def inner(x):
        return x + 1

    def f(x, k=1):
        return inner(x) * k
    seen = observe(f, (X,), {"k": 3})
    assert seen.result.tolist() == [6.0, 6.0, 6.0]
    assert set(seen.codes) == {f.__code__, inner.__code__}
    assert seen.functions == {f.__code__: f, inner.__code__: inner}
    assert not seen.refusals


def test_functions_made_in_the_call_are_no_roots():
    def f(x):
        def inner():
            return x
        return inner()
    seen = observe(f, (X,))
    assert len(seen.codes) == 2
    assert list(seen.functions.values()) == [f]


def test_refusals_say_where():
    def f(x):
        y = x + 1
        return y * time.time()
    (refusal,) = observe(f, (X,)).refusals
    assert refusal.where == line_of(f, 2)
    assert str(refusal) == f"{refusal.where}: {refusal.reason}"
    assert "it calls time.time()" in refusal.reason


def test_refusals_of_functions_that_the_runtime_calls():
    y = torch.ones(3, requires_grad=True)
    y.register_hook(lambda grad: grad * random.random())
    seen = observe(lambda x: (x * y).sum().backward(), (X,))
    assert any("random" in refusal.reason for refusal in seen.refusals)


def test_frames_of_the_runtime_are_not_looked_at():
    seen = observe(lambda x: torch.softmax(x, 0).exp().sum(), (X,))
    assert len(seen.codes) == 1


def test_frames_of_the_front_end_are():
    seen = observe(torch.nn.Linear(3, 3), (X,))
    assert any(code.co_qualname == "Linear.forward" for code in seen.codes)


def test_exceptions_are_kept():
    def f(x):
        raise ValueError("text")
    seen = observe(f, (X,))
    assert isinstance(seen.error, ValueError)
    assert seen.refusals[-1] == Refusal("it raised ValueError", f"{__file__}:{f.__code__.co_firstlineno + 1}")


def test_nothing_remains_of_an_observation():
    before = getattr, hasattr, setattr, delattr, sys.getprofile()
    observe(lambda x: getattr(x, "shape"), (X,))  # noqa: B009
    observe(lambda x: x.missing, (X,))
    assert (getattr, hasattr, setattr, delattr, sys.getprofile()) == before
    assert gc.isenabled()


def test_names_of_getattr_are_recorded():
    seen = observe(lambda x: (getattr(x, "sha" + "pe"), hasattr(x, "a" + "b")), (X,))
    assert {"shape", "ab"} <= seen.names
    assert not seen.whole


def test_a_profiler_or_tracer_is_left_alone():
    def profiler(*event):
        return None
    for get, put in ((sys.getprofile, sys.setprofile), (sys.gettrace, sys.settrace)):
        before = get()
        put(profiler)
        try:
            seen = observe(lambda x: x * 2, (X,))
            assert get() is profiler
        finally:
            put(before)
        assert "profiler or debugger" in seen.refusals[0].reason
        assert seen.result.tolist() == [2.0, 2.0, 2.0]


def test_an_observation_inside_of_another_is_refused():
    inside = []
    observe(lambda x: inside.append(observe(lambda y: y * 2, (x,))), (X,))
    assert inside[0].refusals


def test_generators_are_refused():
    def f(x):
        yield x
    assert "runs later" in observe(f, (X,)).refusals[0].reason


def test_only_calls_that_happen_make_numbers_of_identities():
    def number(x, called):
        if called:
            return functools.partial(id(x).__add__, 1)
        return x + 1

    assert not observe(number, (X, False)).numbered
    assert observe(number, (X, True)).numbered
    assert observe(lambda x: next(map(id, [x])), (X,)).numbered
    assert observe(lambda x: functools.partial(id)(x), (X,)).numbered


def test_names_of_code():
    def f(x):
        import os.path
        if x is X:
            return os.path.join("a.b", x.first.second)
        return len(x)
    names = names_of(f.__code__)
    assert names.globals == {"X", "len"}
    assert {"first", "second", "join", "a", "b", "path"} <= names.attributes
    assert names.imports == {"os.path"}
    assert names.compares_identity
    assert not names.reads_whole
    assert not names_of((lambda x: x is None or x is True).__code__).compares_identity
    assert names_of((lambda x: x is X.shape).__code__).compares_identity
    assert names_of((lambda x: x.__dict__).__code__).reads_whole


def test_names_beyond_the_first_256():
    space = {}
    exec("def f():\n" + "".join(f"    g{k}\n" for k in range(600)), space)
    assert names_of(space["f"].__code__).globals == {f"g{k}" for k in range(600)}


@pytest.mark.parametrize(("function", "pure"), [
    (len, True), ([].append, True), ({}.get, True), ("a".upper, True), (dict.fromkeys, True), (print, False),
    (time.time, False), (random.random, False), (open, False), (sys.getrefcount, False),
    (object().__reduce_ex__, False), (int.__subclasses__, False), (functools.reduce, True),
    (globals, False), (isinstance, True), (object.__new__, True),
])
def test_table_of_pure_functions(function, pure):
    assert is_pure(function) is pure
    assert name_of(function)


def test_packages():
    assert is_inside({"__name__": "tensocket_core.tensor"})
    assert is_inside({"__name__": "numpy.linalg"})
    assert not is_inside({"__name__": "tensocket.nn"})
    assert not is_inside({"__name__": "tensocketting"})
    assert is_library({"__name__": "tensocket.nn"})
    assert is_library({"__name__": "json.decoder"})
    assert not is_library({"__name__": "__main__"})
    assert not is_library({})


def test_errors_name_the_function_behind_a_partial():
    def reads(scale, x):
        return x * scale if x.sum().item() > 0 else x

    compiled = torch.compile(functools.partial(reads, 2.0), fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"\[compile\] a call of .*reads: "):
        [compiled(X) for _ in range(4)]
