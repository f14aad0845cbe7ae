"""Operators on a device with the schedules of a GPU, whose programs are interpreted, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.ir.nodes import Local, Program
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit import ref

NUMBERS = count()
RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((60, 85)).astype(np.float32)


def test_rows_and_columns_broadcast_into_vectors(place: str, arrays: Any, host: Any) -> None:
    t = tc.tensor(X, device=place)
    arrays.clear()
    np.testing.assert_array_equal(host(t + t[3]), X + X[3])
    np.testing.assert_array_equal(host(t * t[:, 7:8]), X * X[:, 7:8])
    np.testing.assert_array_equal(host(t[1:, 2:] - t[:-1, 1:-1]), X[1:, 2:] - X[:-1, 1:-1])
    assert all(array.private for array in arrays)
    assert {array.size for array in arrays} == {4}


def test_transposed_operands_pass_through_tiles(place: str, arrays: Any, host: Any) -> None:
    t = tc.tensor(X, device=place)
    arrays.clear()
    np.testing.assert_array_equal(host(t.t().contiguous()), X.T)
    np.testing.assert_array_equal(host(t[:, :60] + t[:, :60].t()), X[:, :60] + X[:, :60].T)
    assert len([array for array in arrays if not array.private]) == 2


def test_channels_move_to_the_end_and_back(place: str, host: Any) -> None:
    values = RANDOM.standard_normal((2, 17, 5, 19)).astype(np.float32)
    moved = tc.tensor(values, device=place).permute(0, 2, 3, 1).contiguous()
    np.testing.assert_array_equal(host(moved), values.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(host(moved.permute(0, 3, 1, 2).contiguous()), values)


@pytest.mark.parametrize("shape", [(5000, 70), (3, 700, 130), (70_000, 4)], ids=str)
def test_reductions_across_columns(place: str, arrays: Any, host: Any, shape: tuple[int, ...]) -> None:
    values = RANDOM.integers(-9, 9, shape).astype(np.float32)
    t, axis = tc.tensor(values, device=place), len(shape) - 2
    arrays.clear()
    np.testing.assert_array_equal(host(t.sum(axis)), values.sum(axis))
    assert any(array.private for array in arrays)
    np.testing.assert_array_equal(host(t.amax(axis)), values.max(axis))
    np.testing.assert_array_equal(host(t.argmin(axis)), values.argmin(axis))
    np.testing.assert_allclose(host(t.mean(axis)), values.mean(axis, dtype=np.float64), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(3, 5000), (40, 300), (30_000,)], ids=str)
def test_scans_of_rows(place: str, arrays: Any, host: Any, shape: tuple[int, ...]) -> None:
    values = RANDOM.integers(-9, 9, shape).astype(np.float32)
    t = tc.tensor(values, device=place)
    arrays.clear()
    np.testing.assert_array_equal(host(f.cumsum(t, -1)), np.cumsum(values, -1))
    assert any(array.private for array in arrays)
    np.testing.assert_array_equal(host(f.cummax(t, -1).values), np.maximum.accumulate(values, -1))
    np.testing.assert_array_equal(host(f.cumsum(t, 0)), np.cumsum(values, 0))


@pytest.fixture
def place(make_plain: Any) -> Iterator[str]:
    """A device that interprets what would run on a GPU, and has compiled nothing yet."""
    name = f"groups_of_lanes_{next(NUMBERS)}"
    registry().add(make_plain(name, target=Target("simt", group_size=64, parallelism=8)), name=name,
                   distribution="the tests of the operators")
    yield name
    registry().remove(name)


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> list[Local]:
    """The local arrays of all programs that a test compiles."""
    found: list[Local] = []
    compile_ir = ref.RefDevice.compile_ir

    def noted(self: ref.RefDevice, program: Program) -> Any:
        found.extend(local for kernel in program.kernels for local in kernel.locals)
        return compile_ir(self, program)

    monkeypatch.setattr(ref.RefDevice, "compile_ir", noted)
    return found
