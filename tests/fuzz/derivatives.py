"""Derivatives of random compositions, in every way in which they are computed, against differences and each other.

A composition maps a vector of float64 to a number, through views, changes in place, indices, complex numbers,
functions with derivatives of their own and checkpoints. Its gradient is compared with central differences of its
values, products with its Hessian with differences of its gradient; forward derivatives, transforms, vectorized ones
and passes under hooks have to give the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import tensocket as torch
from fuzz.campaign import Campaign

F = torch.nn.functional
Rng = np.random.Generator
#: Distance of differences, and what is left of them by rounding and curvature, relative to the size of the terms.
STEP: Final = 1e-5
BOUND: Final = 2e-5
#: The same number in two ways.
SAME: Final = 1e-9


class Cube(torch.autograd.Function):  # type: ignore[misc]
    """x ** 3, with a derivative that can be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


@dataclass(frozen=True)
class Part:
    """A step of a composition.

    Attributes:
        name: Its name in reports.
        function: Of a matrix, to a matrix.
        transformed: Whether ``torch.func`` takes it.
    """

    name: str
    function: Callable[[Any], Any]
    transformed: bool = True


def _written(x: Any, row: int, k: float) -> Any:
    y = x.clone()
    y[row] = y[row - 1] * k
    y.t()[0].mul_(k)
    return y


def _columns(x: Any, low: int) -> Any:
    y = x * 1
    y[:, low:].add_(x[:, :1])
    y.diagonal().sin_()
    return y


def _put(x: Any, rows: Any, accumulate: bool) -> Any:
    return x.clone().index_put_((rows,), x[: len(rows)] * 2, accumulate)


def _strided(x: Any) -> Any:
    y = x.contiguous() * 1
    z = y.as_strided((y.numel() - 1, 2), (1, 1))
    return z * z[:, :1]


def _complex(x: Any, k: float) -> Any:
    z = torch.complex(x, x.flip(0) * k)
    z = z * z.conj() + z.mul(1j) * z
    return torch.cat([z.real, z.conj().imag, torch.view_as_real(z)[..., 1]], 1)


def _fourier(x: Any) -> Any:
    z = torch.fft.fft(x, dim=1)
    return torch.cat([z.real, z.imag], 1)


def _parts(rng: Rng, shape: tuple[int, int]) -> list[Part]:
    """Steps for a matrix of this shape."""
    n, m = shape
    k = round(float(rng.uniform(0.3, 1.2)), 2)
    rows, columns = (torch.from_numpy(rng.integers(0, s, 3)) for s in shape)
    spread = torch.from_numpy(rng.integers(0, n, shape))
    mask = torch.from_numpy(rng.random(shape) < 0.5)
    weight = torch.from_numpy(rng.standard_normal((3, m)))
    window = torch.from_numpy(rng.standard_normal((2, n, min(2, m))))
    again = torch.from_numpy(rng.permutation(n)[: max(1, n // 2)])
    found = [
        Part("sin", torch.sin), Part("tanh", torch.tanh), Part(f"* {k}", lambda x: x * k),
        Part("squares", lambda x: x * x.clamp(-1.5, 1.5)), Part("bell", lambda x: torch.exp(-x * x)),
        Part("sigmoid", torch.sigmoid), Part("gelu", F.gelu), Part("softplus", F.softplus),
        Part("atan2", lambda x: torch.atan2(x, x * x + 1)), Part("hypot", lambda x: torch.hypot(x, x * 0.5 + 3)),
        Part("softmax", lambda x: F.softmax(x, -1)), Part("log_softmax", lambda x: F.log_softmax(x, 0)),
        Part("layer_norm", lambda x: F.layer_norm(torch.cat([x, x * 2 + 1], 1), (2 * m,), eps=0.1)),
        Part("logsumexp", lambda x: x + x.logsumexp(1, True)), Part("cumsum", lambda x: x.cumsum(0)),
        Part("mean", lambda x: x - x.mean(0)), Part("var", lambda x: x * (x.var(1, False, True) + 1)),
        Part("norm", lambda x: x / (1 + (x * x).sum()).sqrt()), Part("@ weight", lambda x: x @ weight.t()),
        Part("linear", lambda x: F.linear(x, weight, weight[:, 0])), Part("x @ x.T", lambda x: (x @ x.t()) / m),
        Part("einsum", lambda x: torch.einsum("ij,kj->ki", x, weight)), Part("t", lambda x: x.t()),
        Part("reshape", lambda x: x.reshape(m, n)), Part("flip", lambda x: x.flip(0, 1)),
        Part("roll", lambda x: x.roll(1, 1)), Part(f"rows {rows.tolist()}", lambda x: x[rows]),
        Part(f"columns {columns.tolist()}", lambda x: x[:, columns] * x[:, :1]),
        Part("gather", lambda x: x.gather(0, spread)), Part("scatter_add", lambda x: x.scatter_add(0, spread, x)),
        Part("index_add", lambda x: x.index_add(0, rows, x[rows], alpha=k)),
        Part("where", lambda x: torch.where(mask, x, x * x)), Part("masked_fill", lambda x: x.masked_fill(mask, k)),
        Part("expand", lambda x: (x[:1].expand(n, m) * x).unsqueeze(0)[0]),
        Part("unfold", lambda x: x.unfold(0, min(2, n), 1).reshape(-1, m)), Part("tril", lambda x: x.tril() + x),
        Part("stack", lambda x: torch.stack([x, x.sin()], 1).flatten(0, 1)),
        Part("conv1d", lambda x: F.conv1d(x[None], window)[0]),
        Part("pad", lambda x: F.pad(x, (1, 0, 0, 1), value=k)), Part("outer", lambda x: torch.outer(x[0], x[:, 0])),
        Part("prod", lambda x: x + x[:, :2].prod(1, True)), Part("complex", lambda x: _complex(x, k)),
        Part("fft", _fourier), Part("solve", lambda x: torch.linalg.solve(
            torch.eye(n, dtype=x.dtype) * (n + 2) + x[:, :1].tanh(), x)),
        Part("vmap", lambda x: torch.vmap(lambda r: r * r.sum().sin())(x)),
        Part(f"written {k}", lambda x: _written(x, n - 1, k)), Part("columns written", lambda x: _columns(x, m // 2)),
        Part("put", lambda x: _put(x, again, False)), Part("put, added", lambda x: _put(x, rows[:n], True)),
        Part("zeros, written", lambda x: torch.zeros_like(x).copy_(x).mul_(x)),
        Part("channels", lambda x: x[None, :, :, None].clone(memory_format=torch.channels_last)[0, :, :, 0]),
        Part("single and back", lambda x: x + x.detach().float().double() * 0),
        Part("Cube", Cube.apply, False), Part("detach", lambda x: x + x.detach().sin() * 0),
        Part("checkpoint", lambda x: torch.utils.checkpoint.checkpoint(lambda y: y.sin() * y, x, use_reentrant=False),
             False),
    ]
    return found + ([Part("strided", _strided, False)] if n * m > 2 else [])


class Composition:
    """A number from a vector."""

    def __init__(self, rng: Rng) -> None:
        n, m = (int(k) for k in rng.integers(1, 4, 2))
        self.at = torch.from_numpy(rng.uniform(-1, 1, n * m))
        self.shape = (n, m)
        self.parts: list[Part] = []
        y = self.at.reshape(n, m)
        for _ in range(int(rng.integers(1, 7))):
            choice = _parts(rng, (y.shape[0], y.shape[1]))
            part = choice[int(rng.integers(len(choice)))]
            y = part.function(y)
            self.parts.append(part)
            if y.numel() > 60 or not y.numel():
                break
        self.weight = torch.from_numpy(rng.standard_normal(tuple(y.shape)))
        self.transformed = all(part.transformed for part in self.parts)

    def vector(self, x: Any) -> Any:
        """Return the result of the steps on a vector."""
        y = x.reshape(self.shape)
        for part in self.parts:
            y = part.function(y)
        return y.reshape(-1)

    def __call__(self, x: Any) -> Any:
        return (self.vector(x) * self.weight.reshape(-1)).sum()

    def __str__(self) -> str:
        return f"{list(self.shape)}: " + " | ".join(part.name for part in self.parts)


class Case:
    """One composition, differentiated."""

    def __init__(self, campaign: Campaign, rng: Rng) -> None:
        self.campaign, self.f = campaign, Composition(rng)
        self.x = self.f.at
        self.v = torch.from_numpy(rng.standard_normal(len(self.x)))

    def gradient(self, x: Any, create_graph: bool = False) -> tuple[Any, Any]:
        """A leaf and the gradient for it."""
        self.campaign.called(len(self.f.parts) + 2)
        leaf = x.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(self.f(leaf), leaf, create_graph=create_graph)
        return leaf, found

    def same(self, way: str, found: Any, wanted: Any, bound: float = SAME, scale: float = 1.0) -> None:
        """Report what differs."""
        a, b = (np.asarray(x.detach().numpy(), float) for x in (found, wanted))
        if a.shape != b.shape or not np.allclose(a, b, rtol=bound, atol=bound * max(scale, 1)):
            self.campaign.differ(f"{self.f}\n    {way}: {a.tolist()}, not {b.tolist()}")

    def check(self) -> None:
        """All derivatives."""
        f, x, v = self.f, self.x, self.v
        leaf, g = self.gradient(x, True)
        near, far = ([f(x + step * k * v).detach() for k in (1, -1)] for step in (STEP, 2 * STEP))
        slope = (near[0] - near[1]) / (2 * STEP)
        size = float(g.detach().abs().max()) + float(near[0].abs())
        # The change by a step of twice the length exceeds the slope's error.
        off = float((slope - (far[0] - far[1]) / (4 * STEP)).abs())
        self.same("gradient", (g.detach() * v).sum(), slope, BOUND, size + off / BOUND)
        curve = torch.autograd.grad((g * v).sum(), leaf, allow_unused=True)[0] if g.requires_grad else None
        curve = torch.zeros_like(x) if curve is None else curve
        sides = [self.gradient(x + STEP * k * v)[1] for k in (1, -1)]
        # Large third derivatives, as of large products, make differences worthless.
        self.same("derivative of the gradient", curve, (sides[0] - sides[1]) / (2 * STEP), 1e-4,
                  float(curve.abs().max()) + 10 * size)
        self.accumulated(g.detach())
        self.forward(g.detach())
        if f.transformed:
            self.transforms(g.detach(), curve.detach())

    def accumulated(self, g: Any) -> None:
        """Hooks, kept gradients, and two passes into one leaf."""
        leaf = self.x.detach().clone().requires_grad_()
        seen: list[Any] = []
        y = leaf * 1
        y.retain_grad()
        y.register_hook(lambda grad: seen.append(grad.clone()))
        out = self.f(y)
        out.backward(retain_graph=True)
        self.same("retained gradient", y.grad, g)
        out.backward()
        self.same("gradients of two passes", leaf.grad, 2 * g)
        self.campaign.called(2 * len(self.f.parts) + 4)
        if len(seen) != 2:
            self.campaign.differ(f"{self.f}\n    {len(seen)} calls of a hook, not 2")
        with torch.no_grad():
            self.same("value without gradients", self.f(self.x), out)

    def forward(self, g: Any) -> None:
        """Derivatives along the composition."""
        if not self.f.transformed:
            return
        self.campaign.called(len(self.f.parts))
        with torch.autograd.forward_ad.dual_level():
            out = self.f(torch.autograd.forward_ad.make_dual(self.x, self.v))
            tangent = torch.autograd.forward_ad.unpack_dual(out).tangent
        self.same("forward", torch.zeros_like(out) if tangent is None else tangent, (g * self.v).sum(), SAME,
                  float(g.abs().max()))

    def transforms(self, g: Any, curve: Any) -> None:
        """The transforms of ``torch.func``."""
        f, x, v = self.f, self.x, self.v
        func = torch.func
        self.campaign.called(8 * len(f.parts))
        scale = float(g.abs().max()) + float(curve.abs().max())
        self.same("func.grad", func.grad(f)(x), g, SAME, scale)
        self.same("func.jvp of func.grad", func.jvp(func.grad(f), (x,), (v,))[1], curve, SAME, scale)
        batch = torch.stack([x, v, x * 0.5])
        self.same("vmap", torch.vmap(f.vector)(batch), torch.stack([f.vector(row) for row in batch]), SAME, scale)
        rows = torch.stack([self.gradient(row)[1] for row in batch])
        self.same("vmap of func.grad", torch.vmap(func.grad(f))(batch), rows, SAME, float(rows.abs().max()))
        back, along = func.jacrev(f.vector)(x), func.jacfwd(f.vector)(x)
        self.same("jacfwd", along, back, SAME, scale)


def fuzz(campaign: Campaign) -> None:
    """Random compositions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, rng in campaign.each():
            case = None
            try:
                case = Case(campaign, rng)
                case.check()
            except torch.errors.TensocketError as error:
                campaign.differ(f"{case.f if case else 'a composition'}\n    {type(error).__name__}: {error}")
