"""Generated kernels give the same bits for any number of threads, forward and backward, whatever their schedule."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F

THREADS = (1, 2, 3, 8)


def numbers(*shape, dtype=torch.float32):
    """Of many magnitudes, so that another order of additions shows."""
    rng = np.random.default_rng(abs(hash(shape)))
    values = rng.standard_normal(shape) * 4.0 ** rng.integers(-6, 4, shape)
    return torch.from_numpy(np.asarray(values)).to(dtype)


def both(function, *operands):
    """A function's result and all gradients."""
    leaves = [x.detach().requires_grad_() for x in operands]
    found = function(*leaves)
    return [found, *torch.autograd.grad(found, leaves, numbers(*found.shape, dtype=found.dtype))]


def bits(tensor):
    """The bytes of a tensor in row-major order."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def sums(dtype):
    x, long, wide = numbers(600, 700, dtype=dtype), numbers(1_000_003, dtype=dtype), numbers(3, 300_001, dtype=dtype)
    return [long.sum(), long.var(), long.norm(), wide.sum(1), wide.mean(0), x.sum(0), x.sum(1), x.t().sum(0), x.var(0),
            x[:, ::2].sum(0), x.reshape(6, 100, 7, 100).sum((0, 2)), x.logsumexp(0), x.logsumexp(1), x.prod(1),
            x.amax(), *both(lambda x: x.expand(50, -1, -1) * 2.0, x[:60, :70])[1:]]


def softmax(dtype):
    x, wide = numbers(600, 700, dtype=dtype), numbers(3, 200_001, dtype=dtype)
    return [t for a in (x, wide, numbers(30_000, 21, dtype=dtype)) for dim in (0, 1)
            for t in both(lambda x, dim=dim: x.softmax(dim), a)] + both(
                lambda x: F.cross_entropy(x, torch.arange(600)), x)


def norms(dtype):
    x, row = numbers(600, 700, dtype=dtype), numbers(700, dtype=dtype)
    images = x.reshape(6, 10, 70, 100)
    return [*both(lambda x, w, b: F.layer_norm(x, (700,), w, b), x, row, row), *both(
        lambda x, w: F.rms_norm(x, (700,), w), x, row), *both(
            lambda x: F.batch_norm(x, None, None, training=True), images), *both(
                lambda x: F.batch_norm(x, None, None, training=True), x), *both(lambda x: F.group_norm(x, 5), images)]


def scans(dtype):
    x, long = numbers(600, 700, dtype=dtype), numbers(1_000_003, dtype=dtype)
    return [x.cumsum(0), x.cumsum(1), *both(lambda x: x.cumsum(0), long), x.cummax(0).values, x.logcumsumexp(1),
            numbers(30_000, 21, dtype=dtype).cumsum(0)]


def sorting(dtype):
    x, long = numbers(600, 700, dtype=dtype), numbers(1_000_003, dtype=dtype)
    return [*x.sort(0), *x.sort(1, descending=True), *long.sort(), *long.topk(1000), *x.topk(10, 1),
            *both(lambda x: x.sort(1).values, x)]


def convolutions(dtype):
    tiled = (numbers(4, 64, 20, 20, dtype=dtype), numbers(64, 64, 3, 3, dtype=dtype), numbers(64, dtype=dtype))
    image = numbers(4, 16, 30, 30, dtype=dtype)
    return [*both(lambda x, w, b: F.conv2d(x, w, b, 1, 1), *tiled),
            *both(lambda x, w: F.conv2d(x, w, None, 2, 2), image, numbers(24, 16, 5, 5, dtype=dtype)),
            *both(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 16), image, numbers(16, 1, 3, 3, dtype=dtype)),
            *both(lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), image, numbers(16, 24, 3, 3, dtype=dtype)),
            *both(lambda x: F.max_pool2d(x, 3, 2, 1), image), *both(lambda x: F.avg_pool2d(x, 2), image)]


def attention(dtype):
    q, k, v = (numbers(2, 4, n, 64, dtype=dtype) / 64 for n in (201, 150, 150))
    mask = numbers(201, 150) > 0
    return [*both(F.scaled_dot_product_attention, q, k, v),
            *both(lambda *a: F.scaled_dot_product_attention(*a, is_causal=True), k, k, v),
            *both(lambda *a: F.scaled_dot_product_attention(*a, attn_mask=mask), q, k, v),
            *both(F.scaled_dot_product_attention, q[:1, :1], k[:1, :1], v[:1, :1])]


def indexed(dtype):
    x, ids = numbers(600, 700, dtype=dtype), torch.from_numpy(np.random.default_rng(1).integers(0, 600, 5000))
    return [*both(lambda x: F.embedding(ids, x), x), x.index_add(0, ids[:600], x), *both(lambda x: x[:, ids % 700], x),
            x.scatter_add(0, ids[:600, None].expand(600, 700), x)]


def steps(dtype):
    parameters = [numbers(n, 500, dtype=dtype).requires_grad_() for n in (3, 400, 700)]
    optimizer = torch.optim.AdamW(parameters, lr=0.1)
    norms = []
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = parameter.detach() * 0.3
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0))
        optimizer.step()
    return [*norms, *parameters]


def draws(dtype):
    torch.manual_seed(7)
    return [torch.randn(500_003, dtype=dtype), torch.rand(300_001, dtype=dtype), torch.empty(300_000).exponential_(),
            F.dropout(numbers(600, 700, dtype=dtype), 0.3), torch.randperm(200_001), torch.randint(0, 99, (300_001,)),
            torch.bernoulli(torch.full((300_000,), 0.3))]


FAMILIES = (sums, softmax, norms, scans, sorting, convolutions, attention, indexed, steps, draws)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_bits_do_not_depend_on_the_number_of_threads(threads, family, dtype):
    expected = None
    for number in THREADS:
        threads(number)
        assert torch.get_num_threads() == number
        found = [bits(t) for t in family(dtype)]
        expected = expected or found
        assert [k for k, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other] == []


ALONE = """
import numpy as np
import tensocket as torch
from tensocket_operators.explain import explain
torch.set_num_threads(1)
x = torch.linspace(0.125, 0.875, 1 << 16)
for _ in range(1200):
    y = torch.logit(x)
values = x.numpy().astype(float)
np.testing.assert_allclose(y.numpy(), np.log(values / (1 - values)), 1e-6, 1e-6)
print(explain(torch.logit, x)[-1].path)
"""


@pytest.mark.native
def test_machine_code_serves_larger_arrays_with_one_thread():
    """In a process that never had more threads: their code runs the kernels alone."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "replay"
