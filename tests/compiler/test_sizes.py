"""Compiled functions whose arguments change their sizes do what plain ones do, from the same kernels and guards."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.calls import table
from tensocket_compiler.calls.function import CompiledFunction
from tensocket_compiler.calls.settings import SETTINGS
from tensocket_compiler.capture.forms import DYNAMIC, MAYBE_DYNAMIC, STATIC
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_core.device import open_device
from tensocket_plugins.contract.errors import CompileError

MOST = SETTINGS.variants
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
#: Batch sizes in the order of calls: a size comes back after another one was captured.
SIZES = (3, 3, 3, 3, 5, 5, 5, 1, 1, 1, 0, 0, 0, 7, 7, 7, 5, 3, 1, 0, 7)


def compiled(function, **options):
    return CompiledFunction(function, **options)


def hits(run):
    return sum(variant.hits for variant in run.variants)


def equal(x, y, exact=True):
    assert x.shape == y.shape
    assert x.dtype is y.dtype
    if exact:
        np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())
    else:
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), 2e-4, 2e-5)


def call(run, *sizes, make=lambda n: torch.arange(4.0 * n).reshape(n, 4)):
    """Call a compiled function for sizes and compare the results with the plain function's."""
    for n in sizes:
        x = make(n)
        equal(run(x), run.function(x))


POINTWISE = {
    "chain": lambda x: (x * 2.5 + 1).exp().relu() - x,
    "broadcast": lambda x: x + x[:1],
    "rows": lambda x: x.sum(-1, keepdim=True) * x,
    "softmax": lambda x: x.softmax(-1) + 1,
    "columns": lambda x: x.sum(0) + 1,
    "total": lambda x: (x * x).sum() / max(len(x), 1),
    "computed view": lambda x: x[x.shape[0] // 2:] * 3,
    "reshape": lambda x: x.reshape(-1, 2).t() + 1,
    "view with sizes": lambda x: x.view(x.size(0) * 2, x.size(1) // 2) * 0.3,
    "chunks": lambda x: torch.cat(x.chunk(2, 1), 0) - 1,
    "made with a size": lambda x: x + torch.arange(x.shape[0])[:, None] + torch.zeros(len(x), 4),
    "expanded": lambda x: x.mean(1, keepdim=True).expand(x.shape[0], 9) * 2,
    "loop": lambda x: sum(x * k for k in range(x.dim() + 1)),
    "gather": lambda x: x.gather(1, torch.zeros(len(x), 1, dtype=torch.int64)) + x,
    "size as a value": lambda x: x * x.shape[0] + len(x),
    "transposed": lambda x: x.t().contiguous() * 2 + 1,
}


@pytest.mark.parametrize("name", POINTWISE)
def test_sizes_of_one_argument(name):
    function = POINTWISE[name]
    # A mean of no rows and reductions over another order are compared by value.
    run = compiled(function)
    for n in SIZES:
        x = torch.randn(n, 4)
        equal(run(x), function(x), exact=name not in ("rows", "softmax", "columns", "total", "expanded"))
    assert not run.reasons
    assert hits(run) >= 8


def test_other_dimensions_change():
    run = compiled(lambda x: x.softmax(-1) @ x.t())
    for shape in [(3, 4)] * 4 + [(3, 9)] * 3 + [(8, 9)] * 3 + [(8, 1)] * 3 + [(3, 4)]:
        x = torch.randn(*shape)
        equal(run(x), run.function(x), exact=False)
    assert [len(run.variants), hits(run), run.reasons] == [4, 5, []]


def test_several_arguments_change_together_and_alone():
    run = compiled(lambda x, y, k: x * k + y)
    for n, m in [(3, 3)] * 4 + [(5, 5)] * 3 + [(5, 1)] * 3 + [(1, 5)] * 3 + [(3, 3), (5, 1)]:
        x, y = torch.randn(n, 4), torch.randn(m, 4)
        equal(run(x, y, 2), run.function(x, y, 2))
    assert hits(run) == 6


def test_containers_and_names():
    run = compiled(lambda pair, *, scale: {"y": pair[0] * pair[1]["w"] + scale})
    for n in SIZES:
        x, w = torch.randn(n, 4), torch.randn(n, 1)
        equal(run([x, {"w": w}], scale=0.5)["y"], x * w + 0.5)
    assert hits(run) >= 8


def test_layouts_change_with_sizes():
    run = compiled(lambda x: x * 2 + 1)
    for n in (3, 3, 3, 5, 5, 5, 8, 8, 8):
        call(run, n, make=lambda n: torch.randn(4, n).t())
        call(run, n, make=lambda n: torch.randn(n, 8)[:, ::2])
    assert not run.reasons


# ------------------------------------------------------------------------------------------------ models and steps


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
                                  nn.MaxPool2d(2))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24, bias=False), nn.Linear(8, 3)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 2, width // 2).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width)).mean(1)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)), (6,)),
    "convolutions": (Convolutions, (2, 4, 4)), "attention": (Attention, (5, 8)),
}


def train(name, optimizer_name, sizes, wrap_model=lambda x: x, wrap_step=lambda x: x):
    """Losses and parameters of steps with batches of the given sizes."""
    torch.manual_seed(0)
    make, sample = MODELS[name]
    model = make()
    optimizer = getattr(torch.optim, optimizer_name)(model.parameters(), lr=0.01)
    call_model = wrap_model(model)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call_model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run, found = wrap_step(step), []
    for k, n in enumerate(sizes):
        torch.manual_seed(k)
        x, y = torch.randn(n, *sample), torch.randint(0, 3, (n,))
        loss = run(x, y)
        found.append([loss.detach().numpy(), *[p.detach().numpy().copy() for p in model.parameters()]])
    return found


STEPS = (4, 4, 4, 4, 6, 6, 6, 9, 9, 9, 1, 1, 1, 4, 6, 9, 1, 6)


def compare(plain, found):
    for k, (x, y) in enumerate(zip(plain, found, strict=True)):
        for a, b in zip(x, y, strict=True):
            np.testing.assert_allclose(b, a, 2e-3, 2e-4, err_msg=f"step {k}")


@pytest.mark.parametrize("name", MODELS)
def test_models_with_backward_passes(name):
    made = []

    def wrap(model):
        made.append(torch.compile(model))
        return made[0]

    sizes = tuple(n for n in STEPS if n > 1 or name != "convolutions")
    plain = train(name, "SGD", sizes)
    compare(plain, train(name, "SGD", sizes, wrap_model=wrap))
    run = made[0].__dict__["_compiled"]
    assert not run.reasons
    assert hits(run) >= 5
    assert len({id(variant.guards) for variant in run.variants}) == 1


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", MODELS)
def test_whole_steps(name, optimizer):
    made = []

    def wrap(step):
        made.append(compiled(step))
        return made[0]

    compare(train(name, optimizer, STEPS), train(name, optimizer, STEPS, wrap_step=wrap))
    run = made[0]
    assert not run.reasons
    assert hits(run) >= 6
    assert len({id(variant.guards) for variant in run.variants}) == 1, "all sizes share their guards"


# ------------------------------------------------------------------------------------------------ code and guards


def test_code_that_branches_on_sizes():
    limits = [4]

    def small(x):
        return x * 2

    def large(x):
        return x - limits[0]

    run = compiled(lambda x: small(x) if x.shape[0] < limits[0] else large(x))
    call(run, *SIZES)
    assert hits(run) >= 8
    limits[0] = 6
    call(run, *SIZES)  # 5 is small now


def test_what_only_one_size_reads_is_guarded():
    bias = [1.0]

    def f(x):
        return x + bias[0] if x.shape[0] > 4 else x * 2

    run = compiled(f)
    call(run, 3, 3, 3, 3, 5, 5, 5, 5, 6, 6, 6)
    assert hits(run) == 4
    bias[0] = 2.0
    call(run, 3, 5, 6, 5, 6, 3, 6, 5, 3)
    assert hits(run) == 7


def test_functions_with_one_code_that_sizes_choose():
    def scaled(factor):
        return lambda x: x * factor[0]

    factors = {3: [1.5], 5: [2.5], 7: [3.5]}
    functions = {n: scaled(factor) for n, factor in factors.items()}
    run = compiled(lambda x: functions[len(x)](x))
    for _ in range(2):
        call(run, *[n for n in SIZES if n in factors])
        for factor in factors.values():
            factor[0] += 1


def test_arguments_of_the_captured_call_are_those_of_the_observed_one():
    first, second = [1.0], [10.0]

    def f(x, which):
        return x + first[0] if which else x + second[0]

    run = compiled(f)
    x = torch.ones(3)
    for which in (True, True, False, True, False, False, True, False):
        equal(run(x, which), f(x, which))
    second[0] = 20.0
    for which in (False, True, False):
        equal(run(x, which), f(x, which))
    assert len(run.variants) >= 2


def test_calls_that_share_memory_are_observed_for_themselves():
    known, first, second = torch.ones(4), [1.0], [10.0]

    def f(x, y):
        if x is y or x is known:
            return x + first[0]
        return x + y * second[0]

    run = compiled(f)
    x, y = torch.ones(4), torch.ones(4)
    for given in [(x, x), (x, x), (x, y), (known, y), (known, y), (x, y), *[(x, y)] * 9]:
        equal(run(*given), f(*given))
    second[0] = 20.0
    for given in [(x, y), (x, x), (known, x), (y, x)]:
        equal(run(*given), f(*given))
    assert "shares memory" in run.reasons[0]
    assert hits(run) >= 2


def test_guards_hold_for_all_sizes():
    scale = [2.0]
    run = compiled(lambda x: x * scale[0])
    call(run, *SIZES)
    before = hits(run)
    scale[0] = 3.0
    call(run, *SIZES)
    assert hits(run) > before


def test_a_size_for_which_calls_raise():
    def f(x):
        if len(x) == 5:
            raise ValueError("five")
        return x + 1

    run = compiled(f)
    call(run, 3, 3, 3, 3)
    for _ in range(4):
        with pytest.raises(ValueError, match="five"):
            run(torch.ones(5, 4))
    call(run, 3, 7, 7, 7)


def test_a_size_whose_result_is_no_graph():
    run = compiled(lambda x: x.sum() + (x[0, 0].item() if len(x) > 4 else 0))
    call(run, 3, 3, 3, 3, 6, 6, 6, 3)
    assert "elements of a tensor are read" in run.reasons[0]
    strict = compiled(run.function, fullgraph=True)
    with pytest.raises(CompileError, match="elements of a tensor are read"):
        call(strict, 3, 3, 3, 3, 6, 6, 6, 3)


# ------------------------------------------------------------------------------------------------ limits and marks


def test_no_limit_on_sizes():
    run = compiled(lambda x: x * 2 + 1)
    for n in range(2, 2 + 3 * MOST):
        call(run, n, n, n, n)
    assert len(run.variants) == 3 * MOST


def test_least_recently_used_graphs_go(monkeypatch):
    monkeypatch.setattr(table, "GRAPHS", 3)
    monkeypatch.setattr(table, "PATIENCE", 1)
    run = compiled(lambda x: x * 2 + 1)
    call(run, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 2, 5, 5, 5)
    assert [variant.arguments.items[1][1].shape[0] for variant in run.variants] == [5, 2, 4]
    call(run, 3, 3, 3, 2)
    assert len(run.variants) == 3


def test_memory_of_graphs_is_limited(monkeypatch):
    run = compiled(lambda x: (x * 2).sum(0) + (x @ x.t()).sum())
    monkeypatch.setattr(table, "MEMORY", 1)
    monkeypatch.setattr(table, "PATIENCE", 0)
    call(run, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4)
    assert [variant.arguments.items[1][1].shape[0] for variant in run.variants] == [4]


def test_graphs_in_use_stay(monkeypatch):
    monkeypatch.setattr(table, "GRAPHS", 3)
    monkeypatch.setattr(table, "PATIENCE", 20)
    run = compiled(lambda x: x * 2 + 1)
    call(run, 2, *[n for n in (2, 3, 4) for _ in range(3)])
    for _ in range(20):
        call(run, 5, 2, 6, 3, 7, 4)
    assert {variant.arguments.items[1][1].shape[0] for variant in run.variants} == {2, 3, 4}
    call(run, *[5] * 40)
    assert 5 in {variant.arguments.items[1][1].shape[0] for variant in run.variants}


def test_sizes_that_never_come_again_are_not_observed():
    run = compiled(lambda x: x * 2 + 1)
    call(run, 2, 2, 2, 2)
    call(run, *range(3, 3 + 3 * table.ONCE))
    assert len(run._waiting) == table.ONCE
    last = 2 + 3 * table.ONCE
    call(run, last, last, last)
    assert len(run.variants) == 2


def test_static_sizes_count():
    run = compiled(lambda x: x * 2 + 1, dynamic=False)
    for n in range(2, 2 + 2 * MOST):
        call(run, n, n, n, n)
    assert len(run.variants) == MOST


@pytest.mark.parametrize(("dynamic", "name", "dims", "graphs"), [
    (None, STATIC, {0}, MOST), (None, STATIC, {1}, 2 * MOST), (None, STATIC, {-2}, MOST),
    (False, DYNAMIC, {0}, 2 * MOST),
    (False, MAYBE_DYNAMIC, {0}, 2 * MOST), (False, DYNAMIC, {1}, MOST), (True, DYNAMIC, {0}, 2 * MOST)])
def test_marks(dynamic, name, dims, graphs):
    def make(n):
        x = torch.randn(n, 4)
        setattr(x, name, dims)
        return x

    run = compiled(lambda x: x * 2 + 1, dynamic=dynamic)
    for n in range(2, 2 + 2 * MOST):
        call(run, n, n, n, n, make=make)
    assert len(run.variants) == graphs


def test_options_of_compile():
    for dynamic in (None, True, False):
        f = torch.compile(lambda x: x * 2 + 1, dynamic=dynamic)
        assert f._compiled.dynamic is dynamic
        assert copy.copy(f._compiled).dynamic is dynamic
        for n in (3, 3, 3, 3, 5, 5, 5, 1, 1, 1, 0, 3):
            x = torch.randn(n)
            equal(f(x), x * 2 + 1)


# ------------------------------------------------------------------------------------------------ kernels


def built(function):
    """How many modules of machine code the CPU backend builds or loads in a block."""
    stats = open_device("cpu").runtime.build_stats
    before = stats.kernels
    function()
    return stats.kernels - before


@pytest.mark.parametrize("name", MODELS)
def test_new_sizes_build_no_modules(name):
    torch.manual_seed(0)
    make, sample = MODELS[name]
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = compiled(step)
    data = {n: (torch.randn(n, *sample), torch.randint(0, 3, (n,))) for n in (40, 41, 46, 49)}
    for _ in range(20):
        step(*data[40])  # until operators have the shortcuts of many calls
    for n in (40, 40, 40, 40, 41, 41, 41):
        run(*data[n])
    served = hits(run)
    assert built(lambda: [run(*data[n]) for n in (46, 46, 46, 49, 49, 49)]) == 0
    assert hits(run) == served + 2


def test_numbers_that_follow_from_sizes_build_no_modules():
    run = compiled(lambda x: x * (1.0 / x.shape[0]) + 1 / 3)
    call(run, 20, 20, 20, 20, 21, 21, 21)
    assert built(lambda: call(run, 23, 23, 23, 29, 29, 29)) == 0
    assert len(run.variants) == 4


@pytest.mark.parametrize("number", [0.1, -0.1, 1 / 3, 1e30, 1e-40, 3.0, -2.0, 0.0, -0.0, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
def test_numbers_keep_their_bits(number, dtype):
    if dtype == "float16" and abs(number) > 6e4:
        number = 6e4
    run = compiled(lambda x: (x * number + x / 7.0 - number).where(x > 0.3, x * number))
    for n in (5, 5, 5, 5, 6, 6, 6):
        x = torch.arange(n, dtype=getattr(torch, dtype))
        y, wanted = run(x), run.function(x)
        assert y.dtype is wanted.dtype
        np.testing.assert_array_equal(y.double().numpy(), wanted.double().numpy())
        np.testing.assert_array_equal(np.signbit(y.double().numpy()), np.signbit(wanted.double().numpy()))
    assert hits(run) == 2


@pytest.mark.parametrize("number", [(1 << 60) + 1, (1 << 24) + 1, 16777217.0, -(1 << 30) - 1])
def test_large_integers_are_rounded_as_in_eager_calls(number):
    run = compiled(lambda x: x * number + 1)
    call(run, 5, 5, 5, 5, make=lambda n: torch.arange(n, dtype=torch.float32))
    assert hits(run) == 1


@pytest.mark.parametrize("seed", range(6))
def test_random_sizes(seed):
    chosen = np.random.default_rng(seed)
    run = compiled(lambda x, y, z: ((x * y + z).softmax(-1) - x.mean()).t().reshape(-1, x.shape[-1]) * len(y))
    for _ in range(120):
        n, m = int(chosen.choice([0, 1, 4])), int(chosen.choice([1, 3]))
        x, y, z = torch.randn(n, m), torch.randn(chosen.choice([1, n]), m), torch.randn(n, chosen.choice([1, m]))
        equal(run(x, y, z), run.function(x, y, z), exact=False)
    assert not run.reasons
    assert hits(run) > 30


@pytest.mark.parametrize("device", ["opencl", "ref"])
@pytest.mark.parametrize("name", ["chain", "rows", "softmax", "total", "computed view", "gather", "made with a size"])
def test_other_devices(device, name):
    try:
        torch.ones(1, device=device)
    except Exception as error:
        pytest.skip(f"no such device here: {error}")
    functions = {**POINTWISE, "gather": lambda x: x.gather(
        1, torch.zeros(len(x), 1, dtype=torch.int64, device=device)) + x,
        "made with a size": lambda x: x + torch.arange(x.shape[0], device=device)[:, None]}
    run = compiled(functions[name])
    for n in (3, 3, 3, 3, 5, 5, 5, 1, 1, 1, 0, 0, 0, 3, 5, 1):
        x = torch.randn(n, 4).to(device)
        equal(run(x).cpu(), run.function(x).cpu(), exact=False)
    assert not run.reasons
    assert hits(run) >= 5
