"""Passes over operations: what they remove and move, and that results stay those of the plain function."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.recorder import Recorder
from tensocket_compiler.passes.numbers_first import numbers_first
from tensocket_compiler.passes.unused import remove_unused

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")


def record(function):
    """The operations of a call, and the regions of its results."""
    recorder = Recorder()
    with recorder:
        results = function()
    return recorder.recording.operations, [recorder.region(x) for x in results]


def names(operations):
    return [operation.name for operation in operations]


def test_unused_operations_go():
    x = torch.arange(6.0)

    def f():
        (x.exp() + 1).sum()  # needed by nothing
        return [x.sin().neg()]
    operations, results = record(f)
    assert names(operations) == ["exp", "add", "sum", "sin", "neg"]
    assert names(remove_unused(operations, results)) == ["sin", "neg"]


def test_writes_to_memory_from_outside_and_draws_stay():
    x = torch.arange(6.0)

    def f():
        x.mul_(2)
        torch.rand(3)
        torch.zeros(2).add_(1)
        return []
    operations, results = record(f)
    kept = names(remove_unused(operations, results))
    assert "mul_" in kept
    assert any("uniform" in name or "rand" in name for name in kept)
    assert "add_" not in kept


def test_integer_divisions_stay_because_they_may_raise():
    x, y = torch.arange(1, 4), torch.arange(1, 4)
    operations, results = record(lambda: [x + (0 * (x // y)).sum() * 0])
    assert "floor_divide" in names(remove_unused(operations, results))
    operations, results = record(lambda: [x // y, x][1:])
    assert "floor_divide" in names(remove_unused(operations, results))


def test_step_counts_come_first():
    model = torch.nn.Linear(40, 40)
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        model(torch.ones(2, 40)).sum().backward()
        optimizer.step()
        return []
    step()
    operations, _ = record(step)
    before, after = names(operations), names(numbers_first(operations))
    assert sorted(before) == sorted(after)
    assert before[0] != "add"
    assert after[0] == "add"  # of the step count
    assert after[1] != "matmul"


def test_large_ancestors_of_numbers_stay_in_place():
    model = torch.nn.Linear(40, 40, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    (model(torch.ones(2, 40))).sum().backward()
    optimizer.step()
    count = optimizer.state[model.weight]["step"]

    def step():
        count.copy_(torch.ones(40, 40).mul_(2).mean())
        optimizer.step()
        return []
    operations, _ = record(step)
    assert names(numbers_first(operations))[:3] == names(operations)[:3]


WRITTEN = {
    "a part of zeros": lambda x: torch.zeros(4, 4).index_fill(0, torch.tensor([1]), 2) + x,
    "zeros": lambda x: _written(torch.zeros(4, 4), x) * 2 + x,
    "new zeros": lambda x: _written(x.new_zeros(4, 4), x) * 2 + x,
    "ones like": lambda x: _written(torch.ones_like(x.expand(4, 4)), x).sum(0),
    "an element": lambda x: _element(x.new_ones(4), x) * x,
    "integers": lambda x: _element(torch.zeros(4, dtype=torch.int64), 3) + x,
    "written after a read": lambda x: _read_first(x.new_ones(4, 4), x),
    "written although nothing reads it again": lambda x: _read_last(torch.linspace(0, 3, 4).floor()) + x,
}


def _written(made, x):
    made[1:3] += x
    return made


def _element(made, x):
    made[2:3] = x[:1] if hasattr(x, "shape") else x
    return made


def _read_first(made, x):
    doubled = made + 1
    made[1:3].mul_(x)
    return (made * 2 + doubled).sum(0)


def _read_last(made):
    product = made * made + made
    made += product
    return product


def test_constants_that_are_viewed_with_another_dtype():
    views = {"integers": lambda x: torch.ones(4).view(torch.int32) + x,
             "an imaginary part": lambda x: torch.ones(4, dtype=torch.complex64).imag + x}
    for name, function in views.items():
        x = torch.zeros(4, dtype=torch.int32 if name == "integers" else torch.float32)
        compiled = torch.compile(function)
        for _ in range(5):
            found = compiled(x)
        assert sum(v.hits for v in compiled._compiled.variants), name
        np.testing.assert_array_equal(found.numpy(), [0x3F800000 if name == "integers" else 0] * 4)


@pytest.mark.parametrize("name", WRITTEN)
def test_constants_that_are_written_in_part(name):
    compiled = torch.compile(WRITTEN[name])
    for k in range(7):
        x = torch.tensor(np.random.RandomState(k).randn(4), dtype=torch.float32)
        np.testing.assert_allclose(compiled(x).numpy(), WRITTEN[name](x).numpy(), 1e-6)


@pytest.mark.parametrize("adds", [False, True])
def test_constants_that_are_made_like_others_are_returned(adds):
    """The one that is made first is written or returned first, and only the second has readers."""
    def f(x):
        ones = torch.ones_like(x)
        twos = torch.full_like(ones, 2)
        squares = twos ** 2
        if adds:
            ones += x
        return ones, twos, squares
    compiled = torch.compile(f)
    for k in range(6):
        x = torch.full((4, 4), float(k))
        found = compiled(x)
        assert [(y == y[0, 0]).all() and y[0, 0].item() for y in found] == [1 + k * adds, 2, 4]
    assert sum(v.hits for v in compiled._compiled.variants)


def test_softmax_keeps_powers_in_its_result():
    x = torch.tensor(np.random.RandomState(0).randn(6, 70), dtype=torch.float32)
    mask = torch.arange(70) > 40
    rows = {"plain": lambda x: x.softmax(-1), "masked": lambda x: x.masked_fill(mask, -torch.inf).softmax(-1),
            "twice": lambda x: x.softmax(-1).exp().softmax(-1), "halved": lambda x: x.softmax(-1) * 0.5,
            "unused": lambda x: x.softmax(-1).sum(-1), "in place": lambda x: x.exp().copy_(x.softmax(-1))}
    for name, f in rows.items():
        compiled = torch.compile(f)
        for _ in range(5):
            found = compiled(x)
        assert sum(v.hits for v in compiled._compiled.variants), name
        np.testing.assert_allclose(found.numpy(), f(x.double()).numpy(), 2e-6, 1e-9, err_msg=name)


def test_gradients_of_a_layer_norm_are_one_operation():
    x = torch.randn(4, 8, 16)
    norm = torch.nn.LayerNorm(16)
    layers = {"normalize_sums": norm, "normalize_backward_columns": torch.nn.Sequential(torch.nn.Linear(16, 16), norm)}
    for name, layer in layers.items():
        def step(layer=layer):
            layer.zero_grad()
            layer(x).square().sum().backward()
        report = str(torch._dynamo.explain(step)())
        assert name in report
        assert "0 steps in Python" in report


def test_attention_with_many_scores_stays_whole():
    few, many = (torch.randn(1, 2, n, 8) for n in (16, 1024))
    attend = torch.nn.functional.scaled_dot_product_attention
    reports = ["".join(torch._dynamo.explain(lambda q: attend(q, q, q))(q).graphs) for q in (few, many)]
    assert ["attend" in report for report in reports] == [False, True]
    compiled = torch.compile(lambda q: attend(q, q, q, is_causal=True))
    for _ in range(5):
        found = compiled(many)
    q = many.double().numpy()
    scores = np.where(np.tri(1024, dtype=bool), q @ q.swapaxes(-1, -2) / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found.numpy(), weights / weights.sum(-1, keepdims=True) @ q, 1e-4, 1e-5)
