"""Random numbers: reproducible by seed, of the right distribution, independent of other calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

import tensocket as ts

from ..case import Case
from ..numerics import Failure, HostArray
from ..subject import Subject, dtype_of, host_array

_COUNT: Final = 20011


def _drawn(subject: Subject, call: Callable[..., Any], seed: int = 7) -> HostArray:
    ts.manual_seed(seed)
    return subject.get(call(subject))


def _floats(name: str, short: str, size: int = _COUNT) -> Callable[[Subject], Any]:
    return lambda subject: getattr(ts, name)(size, dtype=dtype_of(short), device=subject.device)


def _repeatable(call: Callable[[Subject], Any]) -> Callable[[Subject], None]:
    def check(subject: Subject) -> None:
        first, again, other = (_drawn(subject, call, seed) for seed in (7, 7, 8))
        if not np.array_equal(first, again):
            raise Failure("the same seed gave different values")
        if np.array_equal(first, other):
            raise Failure("another seed gave the same values")
        if np.array_equal(_drawn(subject, call), subject.get(call(subject))):
            raise Failure("two calls in a row gave the same values")

    return check


def _distribution(call: Callable[[Subject], Any], cumulative: Callable[[HostArray], HostArray]
                  ) -> Callable[[Subject], None]:
    """Return Kolmogorov's test with a bound that a correct generator misses once in 10**6 seeds; the seed is fixed."""
    def check(subject: Subject) -> None:
        values = np.sort(_drawn(subject, call).astype(np.float64).ravel())
        expected = cumulative(values)
        steps = np.arange(1, values.size + 1) / values.size
        distance = float(np.max(np.maximum(np.abs(steps - expected), np.abs(steps - 1 / values.size - expected))))
        bound = 2.7 / math.sqrt(values.size)
        if not distance < bound:
            raise Failure(f"the distribution is off: Kolmogorov distance {distance:.4f}, allowed {bound:.4f}")
        serial = float(np.corrcoef(*_pairs(_drawn(subject, call)))[0, 1])
        if not abs(serial) < 6 / math.sqrt(values.size):
            raise Failure(f"neighbouring values are correlated: {serial:.4f}")

    return check


def _pairs(values: HostArray) -> tuple[HostArray, HostArray]:
    flat = values.astype(np.float64).ravel()
    return flat[:-1], flat[1:]


def _uniform(values: HostArray) -> HostArray:
    if not (values[0] >= 0.0 and values[-1] < 1.0):
        raise Failure(f"uniform values lie in [{values[0]}, {values[-1]}], expected [0, 1)")
    return values


def _normal(values: HostArray) -> HostArray:
    return np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in values.tolist()])


def _integers(subject: Subject) -> None:
    values = _drawn(subject, lambda s: ts.randint(-3, 5, (_COUNT,), device=s.device))
    if values.min() != -3 or values.max() != 4:
        raise Failure(f"randint(-3, 5) gave values in [{values.min()}, {values.max()}]")
    counts = np.bincount(values + 3, minlength=8)
    statistic = float(np.sum((counts - _COUNT / 8) ** 2) / (_COUNT / 8))
    if statistic > 45.0:  # 7 degrees of freedom: exceeded once in 10**7
        raise Failure(f"randint is uneven: chi-squared {statistic:.1f} with 7 degrees of freedom")


def _permutation(subject: Subject) -> None:
    values = _drawn(subject, lambda s: ts.randperm(1009, device=s.device))
    if not np.array_equal(np.sort(values), np.arange(1009)):
        raise Failure("randperm(1009) is not a permutation")
    if np.count_nonzero(values == np.arange(1009)) > 20:
        raise Failure("randperm(1009) leaves most elements in place")


def _same_everywhere(name: str) -> Callable[[Subject], None]:
    """Return a check that a seed gives the CPU's values: uniforms to the bit, normals except for the last places."""
    def check(subject: Subject) -> None:
        here = _drawn(subject, _floats(name, "f32", 1003))
        ts.manual_seed(7)
        there = host_array(getattr(ts, name)(1003, dtype=ts.float32, device="cpu"))
        limit = 0.0 if name == "rand" else 1e-5
        if not float(np.max(np.abs(here - there))) <= limit:
            raise Failure(f"{name} with one seed differs from the CPU's by {float(np.max(np.abs(here - there))):.3g}")

    return check


def _dropout(subject: Subject) -> None:
    ts.manual_seed(3)
    values = subject.get(ts.nn.functional.dropout(ts.ones(_COUNT, device=subject.device), 0.25, True))
    kept = values != 0
    if not np.allclose(values[kept], 4 / 3, rtol=1e-6):
        raise Failure("dropout does not scale what it keeps by 1 / (1 - p)")
    if abs(float(np.mean(kept)) - 0.75) > 6 * math.sqrt(0.25 * 0.75 / _COUNT):
        raise Failure(f"dropout with p = 0.25 kept {float(np.mean(kept)):.3f} of the elements")
    off = subject.get(ts.nn.functional.dropout(ts.ones(31, device=subject.device), 0.25, False))
    if not np.array_equal(off, np.ones(31)):
        raise Failure("dropout changed values outside of training")


def _filled(method: str, *args: float) -> Callable[[Subject], Any]:
    return lambda subject: getattr(ts.empty(_COUNT, device=subject.device), method)(*args)


def _exponential(values: HostArray) -> HostArray:
    return np.asarray(-np.expm1(-0.5 * values))


def _cauchy(values: HostArray) -> HostArray:
    return np.asarray(0.5 + np.arctan((values - 1.0) / 2.0) / math.pi)


def _log_normal(values: HostArray) -> HostArray:
    return _normal((np.log(values) - 0.5) / 0.25)


def _counted(label: str, call: Callable[[Subject], Any], probabilities: list[float]) -> Callable[[Subject], None]:
    """Return Pearson's test of whole numbers with a bound that a correct generator misses once in about 10**6 seeds."""
    def check(subject: Subject) -> None:
        values = _drawn(subject, call).astype(np.int64).ravel()
        likely = [k for k, p in enumerate(probabilities) if p * values.size > 20]
        counts, expected = np.bincount(values, minlength=len(probabilities)), np.array(probabilities) * values.size
        statistic = float(np.sum((counts[likely] - expected[likely]) ** 2 / expected[likely]))
        degrees = len(likely) - 1
        if statistic > degrees + 5 * math.sqrt(2 * degrees) + 20:
            raise Failure(f"{label} is off: chi-squared {statistic:.1f} with {degrees} degrees of freedom")

    return check


def _on(draw: Callable[[Any], Any]) -> Callable[[Subject], Any]:
    return lambda subject: draw(subject.device)


def _poisson(rate: float) -> list[float]:
    return [math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(64)]


def _binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


#: Name, call and probabilities of draws of whole numbers on a device.
_WHOLE: Final[tuple[tuple[str, Callable[[Any], Any], list[float]], ...]] = (
    ("poisson", lambda where: ts.poisson(ts.full((_COUNT,), 3.0, device=where)), _poisson(3.0)),
    ("poisson_large", lambda where: ts.poisson(ts.full((_COUNT,), 17.0, device=where)), _poisson(17.0)),
    ("binomial", lambda where: ts.binomial(ts.full((_COUNT,), 8.0, device=where), ts.full((1,), 0.7, device=where)),
     _binomial(8, 0.7)),
    ("binomial_large", lambda where: ts.binomial(ts.full((_COUNT,), 60.0, device=where),
                                                 ts.full((1,), 0.4, device=where)), _binomial(60, 0.4)),
    ("geometric_", lambda where: ts.empty(_COUNT, device=where).geometric_(0.3),
     [0.0, *(0.3 * 0.7**k for k in range(40))]),
    ("bernoulli", lambda where: ts.bernoulli(ts.full((_COUNT,), 0.3, device=where)), [0.7, 0.3]),
    ("multinomial", lambda where: ts.multinomial(ts.tensor([1.0, 0.0, 3.0], device=where), _COUNT, True),
     [0.25, 0.0, 0.75]),
    ("random_", lambda where: ts.empty(_COUNT, device=where).random_(2, 7), [0.0, 0.0, *[0.2] * 5]),
)


def _without_replacement(subject: Subject) -> None:
    weights = ts.tensor([[3.0, 1.0, 0.0, 2.0]], device=subject.device).expand(_COUNT, 4)
    rows = _drawn(subject, lambda s: ts.multinomial(weights, 3))
    if np.any(np.sort(rows, 1) != np.array([0, 1, 3])):
        raise Failure("multinomial without replacement drew a category twice, or one of weight 0")
    if abs(float(np.mean(rows[:, 0] == 0)) - 0.5) > 6 * 0.5 / math.sqrt(_COUNT):
        raise Failure("multinomial without replacement does not follow the weights")


def cases(declared: tuple[str, ...]) -> Iterator[Case]:
    """Yield the random cases for a device that declares the element types ``declared``."""
    def case(label: str, check: Callable[[Subject], None], short: str) -> Case:
        return Case(f"T2.op.{label}", check, requires=(f"T1.memory.roundtrip/{short}/values",), dtype=short)

    for short in (name for name in ("f32", "f64") if name in declared):
        for name, cumulative in (("rand", _uniform), ("randn", _normal)):
            yield case(f"{name}/{short}/seed", _repeatable(_floats(name, short)), short)
            yield case(f"{name}/{short}/distribution", _distribution(_floats(name, short), cumulative), short)
    if "f32" in declared:
        yield case("rand/f32/same_everywhere", _same_everywhere("rand"), "f32")
        yield case("randn/f32/same_everywhere", _same_everywhere("randn"), "f32")
        yield case("dropout/f32/values", _dropout, "f32")
        for name, args, cumulative in (("exponential_", (0.5,), _exponential), ("cauchy_", (1.0, 2.0), _cauchy),
                                       ("log_normal_", (0.5, 0.25), _log_normal)):
            yield case(f"{name}/f32/seed", _repeatable(_filled(name, *args)), "f32")
            yield case(f"{name}/f32/distribution", _distribution(_filled(name, *args), cumulative), "f32")
        for name, draw, probabilities in _WHOLE:
            yield case(f"{name}/f32/distribution", _counted(name, _on(draw), probabilities), "f32")
        yield case("multinomial/f32/without_replacement", _without_replacement, "f32")
    if "i64" in declared:
        yield case("randint/i64/values", _integers, "i64")
        yield case("randperm/i64/values", _permutation, "i64")
