"""Shortcuts of Fourier transforms: the bits of the composition, and the values of SciPy and NumPy."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensocket as ts
from tensocket import dispatch
from tensocket_operators.signal import pocketfft


def _beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fourier_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


rungs = _beside("rungs")
scipy_fft = pytest.importorskip("scipy.fft")
REAL = ("fft", "ifft", "rfft", "hfft", "irfft")
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "": [(), (6,), (3, 0), (9, 1, "ortho"), (None, -2, "forward")],
    "n": [(), ((4, 6),), ((3, 9), (1, 0), "ortho"), (None, (0, 2), "forward"), ((2, -1), (1, 2))],
    "2": [(), ((4, 6),), ((3, 9), (1, 0), "ortho")]}


def _input(dtype: Any) -> Any:
    ts.manual_seed(3)
    return ts.randn(4, 5, 7, dtype=dtype)


def _calls() -> list[Any]:
    found = []
    for stem in REAL:
        for ending, sets in ARGUMENTS.items():
            for args in sets:
                for dtype in (ts.float32, ts.float64, ts.complex64, ts.complex128):
                    if stem != "rfft" or not dtype.is_complex:
                        found.append(pytest.param(stem + ending, args, dtype, id=f"{stem}{ending}-{args}-{dtype}"))
    return found


@pytest.mark.parametrize(("name", "args", "dtype"), _calls())
def test_shortcuts_compute_the_bits_of_the_composition(name: str, args: tuple[Any, ...], dtype: Any) -> None:
    x, function = _input(dtype), getattr(ts.fft, name)
    report = rungs.Report()
    calls = [c for c in rungs.collected(report, lambda: function(x, *args)) if c.operator.name == f"fft_{name}"]
    rungs.compare_call(calls[0], report)
    assert report.compared["host kernel"]
    assert not report.differences
    assert dispatch.explain(function, x, *args)[0].path == "host kernel"
    if args and isinstance(args[0], tuple) and -1 in args[0]:
        return  # SciPy does not take -1 for the default size
    wanted = getattr(scipy_fft, name)(x.numpy().astype(complex if dtype.is_complex else float), *args)
    assert np.allclose(function(x, *args).numpy(), wanted, atol=1e-4 if dtype in (ts.float32, ts.complex64) else 1e-10)


@pytest.mark.parametrize("run", [lambda: ts.fft.fft(ts.ones(4), 0), lambda: ts.fft.fft2(ts.ones(4, 4), (2,)),
                                 lambda: ts.fft.rfft(ts.ones(4), norm="x")])
def test_arguments_are_refused_as_in_the_composition(run: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"^\[fft"):
        run()


def test_numpy_serves_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocketfft, "_routines", lambda: None)
    x = _input(ts.complex64)
    assert np.allclose(ts.fft.fftn(x, norm="ortho").numpy(), np.fft.fftn(x.numpy(), norm="ortho"), atol=1e-4)
    assert np.allclose(ts.fft.ifftn(x).numpy(), np.fft.ifftn(x.numpy()), atol=1e-4)
    assert np.allclose(ts.fft.rfft(x.real).numpy(), np.fft.rfft(x.numpy().real), atol=1e-4)
    assert np.allclose(ts.fft.irfft(x, 9).numpy(), np.fft.irfft(x.numpy(), 9), atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 0.5, 1 / 7, 7 ** -0.5])
def test_any_factor_multiplies_the_sums(scale: float) -> None:
    x = np.random.default_rng(0).standard_normal((3, 7)) + 0j
    assert np.allclose(pocketfft.complex_to_complex(x, (1,), scale, True), np.fft.fft(x) * scale)
    assert np.allclose(pocketfft.real_to_half(x.real, (1,), scale), np.fft.rfft(x.real) * scale)
    assert np.allclose(pocketfft.half_to_real(x[:, :4], (1,), scale, 7), np.fft.irfft(x[:, :4], 7) * scale * 7)
