"""Parts of compiled functions: calls inside of calls, threads, the life of parts, reports."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import re
import threading
import weakref

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.utils import checkpoint as checkpoints
from tensocket_compiler.calls.function import CompiledFunction, reset
from tensocket_compiler.calls.intercept import THREAD
from tensocket_compiler.calls.parts import DEPTH, IDLE, MOST
from tensocket_compiler.calls.report import explain, report
from tensocket_compiler.capture.layout import LAYOUT

from .test_parts import CALLS, Chatty, X, block, nothing_remains, parts_of, same  # noqa: F401  # the fixture is used by all

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")


# ------------------------------------------------------------------------------------------- calls inside of calls


def test_generators_inside_and_outside():
    model = block()

    def rows(x):
        for k in range(3):
            yield model(x + k)

    @torch.compile
    def inside(x):
        print(end="")
        return sum(y.sum() for y in rows(x))

    @torch.compile
    def outside(x):
        return rows(x)
    for _ in range(CALLS):
        same(inside(X), sum(model(X + k).sum() for k in range(3)))
        for k, y in enumerate(outside(X)):
            same(y, model(X + k))


def test_recursion_of_functions_and_modules():
    class Tree(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = block()

        def forward(self, x, depth):
            y = self.inner(x)
            return y if depth == 0 else self(y, depth - 1) + float(y.sum())
    tree = Tree()

    @torch.compile
    def f(x, depth):
        print(end="")
        return tree(x, 2) if depth == 0 else f(tree.inner(x), depth - 1)

    def plain(x, depth):
        return tree(x, 2) if depth == 0 else plain(tree.inner(x), depth - 1)
    for _ in range(CALLS):
        same(f(X, 2), plain(X, 2))


def test_deep_modules_do_not_run_out_of_stack():
    model = block()
    for _ in range(100):
        model = Chatty(model)
    f = torch.compile(model)
    for _ in range(2 * DEPTH):
        assert f(X).shape == (6, 4)


def test_compiled_functions_inside():
    scale = [1.0]
    model = block()

    @torch.compile
    def inner(x):
        return model(x) * scale[0] + 1

    @torch.compile
    def outer(x):
        print(end="")
        return inner(x) * 2

    @torch.compile
    def whole(x):
        return inner(x) * 2
    for k in range(CALLS):
        if k % 10 == 9:
            scale[0] += 1
        wanted = (model(X) * scale[0] + 1) * 2
        same(outer(X), wanted)
        same(whole(X), wanted)
    assert sum(variant.hits for variant in inner._compiled.variants)
    assert sum(variant.hits for variant in whole._compiled.variants)


def test_disabled_functions_are_no_parts():
    model, other = block(), block(seed=1)
    lines = []

    @torch.compiler.disable
    def quiet(x):
        lines.append(THREAD.take)
        return other(x)

    @torch.compile
    def f(x):
        return quiet(model(x))
    for _ in range(CALLS):
        same(f(X), other(model(X)))
    assert lines == [None] * CALLS
    assert list(parts_of(f)) == ["Sequential"]
    assert re.fullmatch(r".*\.py:\d+: it calls a function that torch.compiler.disable\(\) keeps out of graphs",
                        f._compiled.reasons[0])
    assert torch.compile(quiet)(X).equal(other(X))
    assert not hasattr(torch.compile(quiet)._compiled, "variants")


def test_disabled_modules_and_classes():
    model = block()
    disabled = torch._dynamo.disable(model)
    same(disabled(X), model(X))
    assert disabled.get_submodule("0") is model[0]
    f = torch.compile(disabled)
    same(f(X), model(X))
    assert torch.compiler.disable(Chatty) is Chatty
    assert "_torchdynamo_disable" not in vars(model)

    @torch.compiler.disable(recursive=False)
    def outer(x):
        return model(x)
    assert not hasattr(torch.compile(outer)._compiled, "variants")


def test_modes_that_see_calls_see_all_of_them():
    model = block()

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    @torch.compile
    def f(x):
        print(end="")
        with Count() as mode:
            y = model(x)
        return y, mode.calls
    counts = {f(X)[1] for _ in range(CALLS)}
    assert len(counts) == 1
    assert counts.pop() > 3


def test_transforms_inside():
    model = block()

    @torch.compile
    def f(x):
        print(end="")
        return torch.func.vmap(lambda row: model(row[None])[0])(x)
    for _ in range(CALLS):
        same(f(X), model(X))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_inside(reentrant):
    model = block()

    @torch.compile
    def f(x):
        print(end="")
        return checkpoints.checkpoint(model, x, use_reentrant=reentrant).square().sum()
    wanted = None
    for _ in range(CALLS):
        model.zero_grad()
        f(X.clone().requires_grad_()).backward()
        found = model[0].weight.grad
        wanted = found if wanted is None else wanted
        same(found, wanted)


def test_other_threads_are_left_alone():
    model = block()
    seen = []

    def work(x):
        seen.append((THREAD.take, model(x)))

    @torch.compile
    def f(x):
        y = model(x)
        thread = threading.Thread(target=work, args=(x,))
        thread.start()
        thread.join()
        return y
    for _ in range(CALLS):
        same(f(X), model(X))
    for take, y in seen:
        assert take is None
        same(y, model(X))


def test_two_threads_call_the_same_function():
    model = block()
    lines = []

    @torch.compile
    def f(x, k):
        y = model(x)
        lines.append((k, float(y.detach().sum())))
        return y
    errors = []

    def work(k):
        try:
            for step in range(CALLS):
                same(f(X + k + step % 2, k), model(X + k + step % 2))
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for k in range(3):
        wanted = [float(model(X + k + step % 2).sum()) for step in range(CALLS)]
        np.testing.assert_allclose([value for each, value in lines if each == k], wanted, 1e-5, 1e-5)


# ------------------------------------------------------------------------------------------- life of parts


def test_fullgraph_raises_at_the_first_refusal():
    model = block()

    @torch.compile(fullgraph=True)
    def f(x):
        print(end="")
        return model(x)
    f(X)
    for _ in range(2):
        with pytest.raises(torch.errors.CompileError, match="fullgraph=True allows no call that cannot be captured"):
            f(X)


def test_modules_that_calls_make_are_not_kept():
    made = []

    @torch.compile
    def f(x):
        print(end="")
        model = block()
        made.append(weakref.ref(model))
        return model(model(x))
    for _ in range(CALLS):
        f(X)
    gc.collect()
    assert [x() for x in made] == [None] * CALLS
    assert not f._compiled.parts.found()


def test_modules_that_are_idle_are_not_kept():
    current = [block()]
    first = weakref.ref(current[0])

    @torch.compile
    def f(x):
        print(end="")
        return current[0](x)
    for _ in range(8):
        f(X)
    current[0] = block()
    for _ in range(IDLE + 2):
        f(X)
    current[0] = block()
    f(X)
    gc.collect()
    assert first() is None


def test_reset_drops_parts():
    model = block()

    @torch.compile
    def f(x):
        print(end="")
        return model(x)
    for _ in range(8):
        f(X)
    part = weakref.ref(f._compiled.parts.found()[0][1].compiled)
    reset()
    gc.collect()
    assert part() is None
    assert not f._compiled.parts.found()
    for _ in range(8):
        same(f(X), model(X))


def test_copies_and_pickles_start_without_parts():
    f = torch.compile(Chatty())
    for _ in range(9):
        f(X)
    assert parts_of(f)
    for other in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert not parts_of(other)
        same(other(X), f(X))


def test_a_function_makes_a_limited_number_of_parts():
    models = [nn.Linear(4, 4) for _ in range(MOST + 8)]

    @torch.compile
    def f(x):
        print(end="")
        return sum(model(x).sum() for model in models)
    for _ in range(3):
        f(X)
    assert len(f._compiled.parts._table) == MOST


def test_a_value_that_changes_in_every_call_is_a_refusal_after_some_calls():
    model, count = block(), [0]

    @torch.compile
    def f(x):
        return model(x) * count[0]
    for k in range(CALLS):
        count[0] = k
        same(f(X), model(X) * k)
    assert f._compiled.reasons == ["count[0] changes from call to call"]
    assert parts_of(f)["Sequential"][1]


# ------------------------------------------------------------------------------------------- reports


def test_reports_list_parts():
    model = Chatty()

    def f(x):
        print(end="")
        return model.inner(x)
    found = explain(f, X)
    assert [(part.name, part.tier, part.hits, part.reasons) for part in found.parts] == [("Sequential", "graph", 2, [])]
    assert found.graph_count == 2  # forward and backward
    assert found.graph_break_count == 1
    line = f.__code__.co_firstlineno + 1
    assert found.break_reasons[0].startswith(f"{__file__}:{line}: it calls print()")
    assert "part Sequential: graph, 2 calls" in str(found)


def test_reasons_of_parts_name_places():
    model = nn.Sequential(Chatty())

    def f(x):
        print(end="")
        return model(x)
    compiled = CompiledFunction(f)
    for _ in range(8):
        compiled(X)
    part, *_ = report(compiled).parts
    assert part.tier == "parts"
    line = Chatty.forward.__code__.co_firstlineno + 1
    assert f"{Chatty.forward.__code__.co_filename}:{line}" in part.reasons[0]
    assert str(part).startswith("part Sequential: parts, 0 calls; ")


@pytest.mark.parametrize(("function", "reason"), [
    (lambda x: x * x.sum().item(), "elements of a tensor are read at {}"),
    (lambda x: x.missing, "{}: it raised AttributeError"),
    (lambda x: print(x, end="") or x, "{}: it calls print()"),
])
def test_refusals_name_file_and_line(function, reason):
    compiled = CompiledFunction(function)
    for _ in range(3):
        with contextlib.suppress(AttributeError):
            compiled(X)
    place = f"{__file__}:{function.__code__.co_firstlineno}"
    assert compiled.reasons[0].startswith(reason.format(place))
