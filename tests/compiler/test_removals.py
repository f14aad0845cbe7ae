"""Repeated operations, constants and identities: they go where nobody can tell, and results keep every bit."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.recorder import Recorder
from tensocket_compiler.passes.common import remove_common
from tensocket_compiler.passes.constants import fold_constants
from tensocket_compiler.passes.identities import remove_identities

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")

SPECIAL = [0.0, -0.0, 1.5, -2.0, torch.nan, torch.inf, -torch.inf, 1e-45]
F = torch.nn.functional


def special(dtype=torch.float32):
    return torch.tensor(SPECIAL).to(dtype)


def record(function, *args):
    """The operations of a call, and the regions of its results."""
    recorder = Recorder()
    for x in args:
        recorder.region(x)
    with recorder:
        results = function(*args)
    regions = [recorder.region(x) for x in (results if isinstance(results, tuple) else (results,))]
    for region in regions:
        recorder.make_writable(region)
    return recorder.recording.operations, regions


def remaining(change, function, *args):
    """Names of the operations that a pass leaves."""
    operations, results = record(function, *args)
    return [operation.name for operation in change(operations, results)]


def bits(tensor):
    """The bytes of elements, all NaNs alike."""
    array = tensor.detach().contiguous()
    array = torch.where(array.isnan(), torch.full_like(array, torch.nan), array) if array.is_floating_point() else array
    return array.view(torch.uint8).numpy() if array.dtype != torch.bool else array.numpy()


def assert_same(function, *args, seed=None):
    """Compare compiled with plain calls bit by bit."""
    compiled = torch.compile(function)
    for _ in range(5):
        if seed is not None:
            torch.manual_seed(seed)
        found = compiled(*args)
    assert sum(v.hits for v in compiled._compiled.variants)
    if seed is not None:
        torch.manual_seed(seed)
    expected = function(*args)
    for one, other in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(bits(one), bits(other))


# ------------------------------------------------------------------------------------------------ repeated operations

def _written(x):
    y = x.clone()
    first = y.exp()
    y.mul_(0.5)
    return first - y.exp()


def _part_written(x):
    y = x.clone()
    first = y.exp()
    y[2:4].mul_(0.5)
    return first - y.exp()


def _result_written(x):
    first, second = x.exp(), x.exp()
    first.add_(1)
    return first - second


def _repeated_result_written(x):
    first, second = x.exp(), x.exp()
    second.add_(1)
    return first - second


#: A function, and how many of its operations go.
REPEATED = {
    "twice": (lambda x: x.exp() - x.exp().neg(), 1),
    "chains": (lambda x: (x.exp() * 2).tanh() - (x.exp() * 2).sin(), 2),
    "views": (lambda x: x.view(2, 4).exp().t() - x.view(2, 4).exp().reshape(4, 2), 1),
    "other strides": (lambda x: x.view(2, 4).t().exp().reshape(8) - x.exp(), 0),
    "another part": (lambda x: x[:4].exp() - x[4:].exp(), 0),
    "sums": (lambda x: (x - x.mean()) * (x - x.mean()), 2),
    "tuples": (lambda x: torch.cat((x, x + 1)).sin() - torch.cat((x, x + 1)), 2),
    "constants": (lambda x: (x * torch.arange(8)).sin() - x * torch.arange(8), 1),
    "constants of other dtypes": (lambda x: (x > torch.zeros(8)) ^ (x > torch.zeros(8, dtype=torch.int32)), 0),
    "numbers of other types": (lambda x: x.to(torch.int32) * 2 + x.to(torch.int32) * 2.0, 1),
    "signed zeros": (lambda x: 1 / (x * 0.0) + 1 / (x * -0.0), 0),
    "NaNs": (lambda x: (x + torch.nan).isnan() & (x + torch.nan).isnan(), 2),
    "written": (_written, 0),
    "a part written": (_part_written, 0),
    "the result written": (_result_written, 0),
    "the repeated result written": (_repeated_result_written, 0),
    "both returned": (lambda x: (x.exp(), x.exp()), 0),
    "the first returned": (lambda x: (x.exp(), x.exp().neg()), 1),
    "the second returned": (lambda x: (x.exp().neg(), x.exp()), 0),
    "integer quotients": (lambda x: (x.to(torch.int32) | 1) // 3 + ((x.to(torch.int32) | 1) // 3).neg(), 3),
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_operations(name):
    function, count = REPEATED[name]
    x = special() if "dtype" not in name and "integer" not in name and "types" not in name else torch.arange(8.0)
    operations, results = record(function, x)
    assert len(operations) - len(remove_common(operations, results)) == count
    assert_same(function, x)


def test_results_of_repeated_operations_do_not_share_memory():
    x = torch.arange(4.0)
    compiled = torch.compile(lambda x: (x.exp(), x.exp()))
    for _ in range(5):
        first, second = compiled(x)
        first.zero_()
        np.testing.assert_allclose(second.numpy(), np.exp(np.arange(4.0)), 1e-6)


def test_draws_are_no_repeated_operations():
    x = torch.ones(64)
    draws = {"uniform": lambda x: torch.rand_like(x) - torch.rand_like(x),
             "dropout": lambda x: F.dropout(x, 0.5) - F.dropout(x, 0.5),
             "rounded": lambda x: torch.bernoulli(x * 0.5) - torch.bernoulli(x * 0.5)}
    for name, function in draws.items():
        assert_same(function, x, seed=3)
        assert function(x).abs().sum() > 0, name


def test_gradients_through_repeated_operations():
    w = torch.tensor(np.random.RandomState(0).randn(8), dtype=torch.float32, requires_grad=True)

    def step(x):
        w.grad = None
        y = x * w
        (((y - y.mean()) * (y - y.mean()).exp()) * y.tanh() + y.tanh()).sum().backward()
        return w.grad.clone()

    def loss(x):
        return (x * w).tanh() * (x * w).tanh() + (x * w).exp() * w.exp() - w.exp()

    x = torch.tensor(np.random.RandomState(1).randn(8), dtype=torch.float32)
    found = torch.compile(step)
    compiled = torch.compile(loss)
    for _ in range(5):
        np.testing.assert_allclose(found(x).numpy(), step(x).numpy(), 1e-5, 1e-6)
        w.grad = None
        compiled(x).sum().backward()
        gradient = w.grad
        w.grad = None
        loss(x).sum().backward()
        np.testing.assert_array_equal(gradient.numpy(), w.grad.numpy())


# ------------------------------------------------------------------------------------------------ constants

def _rotated(x):
    angles = torch.outer(torch.arange(4.0), 1.0 / 10 ** (torch.arange(0, 4, 2) / 4)).reshape(8)
    return x * angles.cos() - x.neg() * angles.sin()


def _table_written(x):
    table = torch.arange(8.0).cos()
    table[2:4] += 1
    return table * x


def _ones_written(x):
    ones = torch.ones(8) * 1
    ones.add_(1)
    return ones * x


#: A function, and the operations that are left.
CONSTANT = {
    "tables": (_rotated, ["mul", "neg", "mul", "sub"]),
    "masks": (lambda x: x.view(2, 4).masked_fill(torch.arange(2)[:, None] < torch.arange(4), -torch.inf), ["where"]),
    "ones": (lambda x: x * (torch.ones(8) + 1), ["mul"]),
    "halves": (lambda x: x.half() * (torch.ones(8, dtype=torch.float16) / 2), ["convert", "mul"]),
    "bfloat16": (lambda x: x.bfloat16() * (torch.ones(8, dtype=torch.bfloat16) * 2), ["convert", "mul"]),
    "small bfloat16": (lambda x: x.bfloat16() * (torch.ones(8, dtype=torch.bfloat16) * 2 ** -132), ["convert", "mul"]),
    "signed zeros": (lambda x: x / -torch.zeros(8), ["div"]),
    "NaNs": (lambda x: x.nan_to_num() + torch.zeros(8) / torch.zeros(8), ["replaced", "add"]),
    "infinities": (lambda x: torch.maximum(x, -(torch.ones(8) / torch.zeros(8))), ["maximum"]),
    "bools": (lambda x: torch.where(torch.zeros(8) > 1, x, x * 3), ["mul", "where"]),
    "integers": (lambda x: x + (torch.arange(8) // 3) % 2, ["add"]),
    "bits": (lambda x: x + (torch.ones(8) * 2).view(torch.int32), ["add"]),
    "complex": (lambda x: (x.nan_to_num() * (torch.ones(8) * 1j)).imag + x, None),
    "numbers": (lambda x: torch.where(x > torch.tensor(1.0), torch.full((8,), -2.0).exp(), x), ["gt", "where"]),
    "lists": (lambda x: x * torch.tensor([[0.5], [-0.0]]).expand(2, 4).reshape(8), ["mul"]),
    "full like others": (lambda x: x * torch.full_like(x.exp(), 3) + x.new_full((8,), -0.0), ["exp", "mul", "add"]),
    "sums": (lambda x: x / torch.arange(1.0, 9.0).sum(), ["div"]),
    "a written table": (_table_written, None),
    "a written number": (lambda x: torch.tensor([1.0, 2.0]).repeat(4) * x + torch.tensor(2.0).add_(x[2]), None),
    "written ones": (_ones_written, None),
    "a returned table": (lambda x: (torch.arange(8.0) * 2, x + torch.arange(8.0) * 2), ["mul", "add"]),
    "a number of a tensor": (lambda x: torch.tensor(x).exp() + torch.tensor(2.0, device="cpu").exp(), None),
    "draws": (lambda x: torch.bernoulli(torch.ones(8) * 0.5) * x, None),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_constants(name):
    function, left = CONSTANT[name]
    if left is not None:
        assert remaining(lambda operations, results: fold_constants(remove_common(operations, results), results),
                         function, special()) == left
    assert_same(function, special(), seed=2)


def test_constants_keep_their_values_when_results_are_written():
    compiled = torch.compile(lambda x: (torch.arange(4.0).cos(), x * torch.arange(4.0).cos()))
    for _ in range(6):
        table, product = compiled(torch.ones(4))
        np.testing.assert_allclose(table.numpy(), np.cos(np.arange(4.0)), 1e-6)
        np.testing.assert_allclose(product.numpy(), np.cos(np.arange(4.0)), 1e-6)
        table.zero_()
        product.zero_()


def test_large_constants_are_computed_unless_they_are_one_number():
    n = (1 << 20) + 1
    x = torch.zeros(1)
    assert remaining(fold_constants, lambda x: torch.arange(float(n)).cos() * x, x) == ["cos", "mul"]
    assert remaining(fold_constants, lambda x: torch.arange(float(n)).cos().sum() * x, x) == ["mul"]
    assert remaining(fold_constants, lambda x: (torch.ones(n) + 1) * x, x) == ["mul"]
    assert remaining(fold_constants, lambda x: (torch.ones(n) + 2) * x, x) == ["add", "mul"]
    assert_same(lambda x: (torch.arange(float(n)).cos() * x, (torch.ones(n) + 2) * x), torch.full((1,), 0.5))


def test_a_graph_saved_for_gradients_keeps_its_tables():
    w = torch.full((8,), 0.5, requires_grad=True)
    compiled = torch.compile(_rotated)
    for _ in range(6):
        w.grad = None
        compiled(w).sum().backward()
        gradient = w.grad
        w.grad = None
        _rotated(w).sum().backward()
        np.testing.assert_array_equal(gradient.numpy(), w.grad.numpy())


# ------------------------------------------------------------------------------------------------ identities

def _source_written(x):
    y = x.clone()
    same = y * 1
    y.add_(1)
    return same - y


def _shifted(x):
    y = x.clone()
    y[1:].add_((y * 1)[:-1])
    return y * 2


#: A function, and whether products with one and quotients by one go.
IDENTITIES = {
    "integers": (lambda x: (x * 1).neg(), True), "floats": (lambda x: (1.0 * x).neg(), True),
    "quotients": (lambda x: (x / 1).neg(), True), "ones": (lambda x: (torch.ones(8) * x).neg(), True),
    "expanded ones": (lambda x: (x * torch.ones(1).expand(8)).neg(), True),
    "chains": (lambda x: (x * 1 / 1 * 1).neg(), True), "views": (lambda x: (x * 1)[2:6].neg(), True),
    "halves": (lambda x: (x.half() * 1).neg(), True),
    "sums with zero": (lambda x: (x + 0).neg(), False), "inverses": (lambda x: (1 / x).neg(), False),
    "larger ones": (lambda x: (x[:1] * torch.ones(8)).neg(), False),
    "other strides": (lambda x: (x[::2] * 1).neg(), False), "returned": (lambda x: x * 1, False),
    "promotions": (lambda x: (x.nan_to_num(0, 0, 0).to(torch.int32) * 1.0).neg(), False),
    "bools": (lambda x: (x > 1) * 1 + 1, False),
    "complex numbers": (lambda x: torch.view_as_real((torch.complex(x, x) * 1).neg()) * 2, False),
    "a written source": (_source_written, False), "a shifted source": (_shifted, False),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities(name):
    function, goes = IDENTITIES[name]
    operations, results = record(function, special())
    left = remove_identities(operations, results)
    assert any(x.name in ("mul", "div") for x in operations) == (name not in ("sums with zero",))
    assert (len(left) < len(operations)) == goes
    assert_same(function, special())


def test_momentum_without_dampening_multiplies_by_nothing():
    w = torch.nn.Parameter(torch.arange(4.0))
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        return torch.zeros(1) + 1
    step()
    operations, results = record(step)
    left = remove_identities(operations, results)
    gone = [operation for operation in operations if operation not in left and operation.results[0] not in [
        x for one in left for x in one.results]]
    assert [operation.args[1:] for operation in gone] == [(1,)]
