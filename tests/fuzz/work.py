"""Small pieces of work with known results, which scenarios do in processes and threads of all kinds."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensocket as torch

F = torch.nn.functional
Rng = np.random.Generator
#: Sizes of vectors: one direct call, one kernel, several threads.
SIZES: Final = (1, 4, 33, 2500, 70000)


def close(got: Any, wanted: Any, bound: float = 1e-4) -> None:
    """Fail where a tensor is not what NumPy gives."""
    found = np.asarray(got.detach().numpy())
    assert found.shape == np.shape(wanted), (found.shape, np.shape(wanted))
    assert np.allclose(found, wanted, rtol=bound, atol=bound), (found, wanted)


def numbers(rng: Rng, *shape: int) -> tuple[Any, Any]:
    """The same float32 numbers as an array and as a tensor."""
    array = rng.standard_normal(shape).astype(np.float32)
    return array, torch.from_numpy(array.copy())


def pointwise(rng: Rng) -> int:
    """Functions of elements."""
    a, x = numbers(rng, int(rng.choice(SIZES)))
    for _ in range(6):
        close(torch.exp(x) + x * 2, np.exp(a) + a * 2)
        close(torch.tanh(x) - x.abs(), np.tanh(a) - np.abs(a))
    return 36


def rows(rng: Rng) -> int:
    """Functions of rows, which are kept after a few calls."""
    a, x = numbers(rng, int(rng.integers(1, 30)), int(rng.integers(2, 30)))
    shifted = np.exp(a - a.max(-1, keepdims=True))
    normal = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    for _ in range(8):
        close(F.softmax(x, -1), shifted / shifted.sum(-1, keepdims=True))
        close(F.layer_norm(x, x.shape[-1:]), normal, 1e-3)
        close(x.cumsum(0), a.cumsum(0))
    return 24


def products(rng: Rng) -> int:
    """Products of matrices, and a convolution with a window of one element."""
    n, m = (int(k) for k in rng.integers(1, 40, 2))
    (a, x), (b, y) = numbers(rng, n, m), numbers(rng, m, n)
    close(x @ y, a @ b, 1e-3)
    close(F.linear(x, y.t()), a @ b, 1e-3)
    close(F.conv2d(x[None, None], torch.full((1, 1, 1, 1), 2.0)), 2 * a[None, None])
    return 4


def moves(rng: Rng) -> int:
    """Elements in other places."""
    a, x = numbers(rng, int(rng.integers(2, 40)), int(rng.integers(2, 40)))
    index = rng.integers(0, len(a), 5)
    close(x[torch.from_numpy(index)], a[index])
    close(torch.sort(x, 0)[0], np.sort(a, 0))
    close(torch.cat([x, x.flip(1)], 1), np.concatenate([a, a[:, ::-1]], 1))
    close(x.t().contiguous(), a.T)
    x[1:] += x[0]
    close(x[1:], a[1:] + a[0])
    return 9


def gradients(rng: Rng) -> int:
    """A backward pass through views and a hook."""
    a, x = numbers(rng, int(rng.integers(2, 50)), 3)
    x.requires_grad_()
    y = (x * x).t().reshape(-1)
    y.register_hook(lambda grad: grad * 2)
    (y * 3).sum().backward()
    close(x.grad, 12 * a)
    return 7


def training(rng: Rng) -> int:
    """Steps of Adam on a small layer, twice: both give the same bits."""
    found = []
    _, x = numbers(rng, 8, 5)
    seed = int(rng.integers(1 << 30))
    for _ in range(2):
        weight = torch.from_numpy(np.random.default_rng(seed).standard_normal((3, 5)).astype(np.float32))
        weight.requires_grad_()
        optimizer = torch.optim.Adam([weight], lr=0.1)
        for _ in range(6):
            optimizer.zero_grad()
            F.linear(x, weight).square().mean().backward()
            optimizer.step()
        found.append(weight.detach().numpy().copy())
    assert np.array_equal(*found), found
    return 60


def draws(rng: Rng) -> int:
    """Draws of a generator of one's own, twice."""
    seed = int(rng.integers(1 << 30))
    found = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(seed)
        found.append([torch.rand(7, generator=generator), torch.randn(700, generator=generator),
                      torch.randperm(9, generator=generator), torch.rand(3, generator=generator)])
    for x, y in zip(*found, strict=True):
        assert torch.equal(x, y), (x, y)
    return 12


def copies(rng: Rng) -> int:
    """Copies of tensors, and files."""
    a, x = numbers(rng, 5, 4)
    file = io.BytesIO()
    torch.save({"x": x, "part": x[1:]}, file)
    file.seek(0)
    close(torch.load(file)["part"], a[1:])
    close(copy.deepcopy(x), a)
    close(x.double().half().float(), a, 1e-2)
    return 8


def transforms(rng: Rng) -> int:
    """Derivatives forwards, and functions over examples."""
    a, x = numbers(rng, 6)
    value, slope = torch.func.jvp(torch.sin, (x,), (torch.ones(6),))
    close(value, np.sin(a))
    close(slope, np.cos(a))
    close(torch.func.vmap(torch.func.grad(lambda v: v * v * v))(x), 3 * a * a, 1e-3)
    return 12


def modes(rng: Rng) -> int:
    """Blocks of modes end, and mean what they say."""
    a, x = numbers(rng, 3)
    x.requires_grad_()
    with torch.no_grad():
        assert not (x + 1).requires_grad
        with torch.enable_grad():
            assert (x + 1).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()
    with torch.autocast("cpu", torch.bfloat16):
        assert (x[None] @ x[:, None]).dtype is torch.bfloat16
    assert torch.is_grad_enabled()
    assert (x + 1).requires_grad
    close(x, a)
    return 8


WORK: Final[dict[str, Callable[[Rng], int]]] = {
    f.__name__: f for f in (pointwise, rows, products, moves, gradients, training, draws, copies, transforms, modes)}


def do(rng: Rng, count: int = 1) -> int:
    """Some pieces of work; the number of calls."""
    names = list(WORK)
    return sum(WORK[names[int(rng.integers(len(names)))]](rng) for _ in range(count))
