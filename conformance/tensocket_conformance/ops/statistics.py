"""Order statistics, reductions that skip NaN, counts, histograms, spectrograms, masked operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, int64, kinds, same


def _sample(shape: tuple[int, ...], *args: Any, layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), *args))


def _along(*more: Any) -> dict[str, Maker]:
    """Return samples with a nonempty dimension as an argument, followed by further arguments."""
    return {"prime#0": _sample((7, 13), 1, *more), "dim#0": _sample((3, 5, 4), -2, *more),
            "transposed#0": _sample((17, 5), 0, *more, layout="transposed"),
            "step#0": _sample((5, 9), 1, *more, layout="step"), "one#0": _sample((4, 1), 1, *more),
            "large#0": _sample((3, 4099), 1, *more)}


def _gaps(shape: tuple[int, ...], *args: Any) -> Maker:
    """Return values of which about a quarter are NaN, but never the first of a row."""
    def make(draw: Draw) -> Sample:
        values = draw.values(shape)
        holes = draw.rng.uniform(size=shape) < 0.25
        holes[..., 0] = False
        values[holes] = np.nan
        return Sample((Given(values, draw.form.short), *args))

    return make


def _with_gaps(*args: Any) -> dict[str, Maker]:
    return {"prime#0": _gaps((7, 13), *args), "large#0": _gaps((3, 1031), *args)}


def _lower_median(x: HostArray, dim: int) -> HostArray:
    return np.asarray(np.take(np.sort(x, dim), (x.shape[dim] - 1) // 2, dim))


def _lower_nanmedian(x: HostArray, dim: int) -> HostArray:
    middle = (np.sum(~np.isnan(x), dim, keepdims=True) - 1) // 2
    return np.asarray(np.take_along_axis(np.sort(x, dim), middle, dim).squeeze(dim))


def _few(draw: Draw) -> Sample:
    """Draw few distinct values, so that some occur more than once."""
    return Sample((Given(draw.rng.integers(0, 5, (7, 31)).astype(draw.form.numpy), draw.form.short), 1))


def _mode(x: HostArray, dim: int) -> HostArray:
    counted = [np.unique(row, return_counts=True) for row in x]
    return np.array([values[np.argmax(counts)] for values, counts in counted])


def _kept(shape: tuple[int, ...], *args: Any) -> Maker:
    """Return values and a mask that selects at least the first of every row."""
    def make(draw: Draw) -> Sample:
        mask = draw.rng.uniform(size=shape) < 0.5
        mask[..., 0] = True
        return Sample((draw.given(shape), Given(mask, "b8"), *args))

    return make


_MASKS: dict[str, Maker] = {"prime#0": _kept((7, 13), 1), "large#0": _kept((3, 1031), 1)}


def _masked(name: str, reference: Callable[..., Any], tolerance: Tolerance, condition: Any = None) -> Operator:
    call = getattr(ts.masked, name)
    return Operator(f"masked_{name}", lambda x, mask, dim: call(x, dim, mask=mask), reference, _MASKS,
                    ("f32", "f64"), same, tolerance, condition, also=("b8",))


def _counts(draw: Draw) -> Sample:
    return Sample((Given(draw.rng.integers(0, 19, 4099).astype(draw.form.numpy), draw.form.short),))


def _weights(draw: Draw) -> Sample:
    return Sample((draw.index((997,), 19), draw.given((997,))))


def _weighted(x: HostArray, weights: HostArray) -> HostArray:
    return np.bincount(x, weights)


def _weight_sizes(x: HostArray, weights: HostArray) -> HostArray:
    return np.bincount(x, np.abs(weights))


def _spectra(x: HostArray, n_fft: int, hop: int) -> HostArray:
    wide = np.pad(x, [(0, 0), (n_fft // 2, n_fft // 2)], "reflect")
    frames = np.lib.stride_tricks.sliding_window_view(wide, n_fft, 1)[:, ::hop]
    return np.moveaxis(np.fft.rfft(frames), 1, 2)


def _total(x: HostArray, *args: Any) -> Any:
    return np.sum(np.abs(x))


def _row_sizes(x: HostArray, mask: HostArray, dim: int) -> HostArray:
    return np.asarray(np.sum(np.abs(x) * mask, dim))


def _filled(x: HostArray, mask: HostArray, dim: int) -> HostArray:
    kept = np.exp(np.where(mask, x, -np.inf))
    return np.asarray(kept / np.sum(kept, dim, keepdims=True))


_FLOATS = ("f32", "f64")
#: The records of this family.
OPERATORS = [
    Operator("median", lambda x, dim: ts.median(x, dim).values, _lower_median, _along(), kinds("if"), same),
    Operator("nanmedian", lambda x, dim: ts.nanmedian(x, dim).values, _lower_nanmedian, _with_gaps(1), kinds("f"),
             same),
    Operator("kthvalue", lambda x, dim, k: ts.kthvalue(x, k, dim).values,
             lambda x, dim, k: np.take(np.sort(x, dim), k - 1, dim), _along(1), kinds("if"), same),
    Operator("mode", lambda x, dim: ts.mode(x, dim).values, _mode, {"prime#0": _few}, kinds("if"), same),
    Operator("msort", ts.msort, lambda x: np.sort(x, 0), {"prime#0": _sample((13, 7))}, kinds("bif"), same),
    Operator("quantile", lambda x, dim: ts.quantile(x, 0.3, dim), lambda x, dim: np.quantile(x, 0.3, dim), _along(),
             _FLOATS, same, Tolerance(4.0, 16.0), lambda x, dim: np.max(np.abs(x), dim)),
    Operator("nanquantile", lambda x, dim: ts.nanquantile(x, 0.3, dim), lambda x, dim: np.nanquantile(x, 0.3, dim),
             _with_gaps(1), _FLOATS, same, Tolerance(4.0, 16.0), lambda x, dim: np.nanmax(np.abs(x), dim)),
    Operator("nansum", ts.nansum, lambda x, dim: np.nansum(x, dim), _with_gaps(1), kinds("f"), same,
             Tolerance(1.0, 24.0), lambda x, dim: np.nansum(np.abs(x), dim)),
    Operator("nanmean", ts.nanmean, lambda x, dim: np.nanmean(x, dim), _with_gaps(1), kinds("f"), same,
             Tolerance(4.0, 24.0), lambda x, dim: np.nanmean(np.abs(x), dim)),
    Operator("aminmax", lambda x, dim: ts.aminmax(x, dim=dim), lambda x, dim: (np.min(x, dim), np.max(x, dim)),
             _along(), kinds("bif"), lambda short: (short, short)),
    Operator("logcumsumexp", ts.logcumsumexp, lambda x, dim: np.logaddexp.accumulate(x, dim),
             {"prime#0": _sample((7, 13), 1), "dim#0": _sample((5, 3), 0)}, kinds("f"), same, Tolerance(4.0, 4.0),
             lambda x, dim: np.ones_like(x)),
    Operator("bincount", ts.bincount, np.bincount, {"prime#0": _counts}, kinds("i"), int64),
    Operator("bincount_weights", ts.bincount, _weighted, {"prime#0": _weights}, _FLOATS, same, Tolerance(1.0, 32.0),
             _weight_sizes, also=("i64",)),
    Operator("histc", lambda x: ts.histc(x, 17, -3, 3), lambda x: np.histogram(x, 17, (-3, 3))[0],
             {"prime#0": _sample((7, 131)), "large#0": _sample((3, 4099))}, _FLOATS, same),
    Operator("diag_embed", ts.diag_embed, lambda x: x[..., None] * np.eye(x.shape[-1], dtype=x.dtype),
             {"prime#0": _sample((3, 7)), "transposed#0": _sample((5, 3), layout="transposed")}, kinds("if"), same),
    Operator("rot90", ts.rot90, np.rot90, {"prime#0": _sample((3, 7)), "transposed#0": _sample((5, 3),
             layout="transposed")}, kinds("bifc"), same),
    Operator("block_diag", ts.block_diag, lambda x, y: np.block([[x, np.zeros((3, 2))], [np.zeros((4, 7)), y]]),
             {"prime#0": lambda draw: Sample((draw.given((3, 7)), draw.given((4, 2))))}, kinds("if"), same),
    Operator("gradient", lambda x: ts.gradient(x, spacing=0.5), lambda x: tuple(np.gradient(x, 0.5)),
             {"prime#0": _sample((7, 13))}, _FLOATS, lambda short: (short, short), Tolerance(4.0, 8.0),
             lambda x: 8.0),
    Operator("stft", lambda x, n, hop: ts.stft(x, n, hop, return_complex=True), _spectra,
             {"prime#0": _sample((3, 101), 16, 5)}, _FLOATS, lambda short: {"f32": "c64", "f64": "c128"}[short],
             Tolerance(4.0, 8.0), _total),
    Operator("istft", lambda x, n, hop: ts.istft(ts.stft(x, n, hop, return_complex=True), n, hop),
             lambda x, n, hop: x, {"prime#0": _sample((3, 100), 16, 5)}, _FLOATS, same, Tolerance(4.0, 16.0), _total,
             also=("c64", "c128")),
    _masked("sum", lambda x, mask, dim: np.sum(x * mask, dim), Tolerance(1.0, 24.0), _row_sizes),
    _masked("mean", lambda x, mask, dim: np.sum(x * mask, dim) / np.sum(mask, dim), Tolerance(4.0, 24.0), _row_sizes),
    _masked("amax", lambda x, mask, dim: np.max(np.where(mask, x, -np.inf), dim), Tolerance()),
    _masked("softmax", _filled, Tolerance(16.0, 0.0)),
]
