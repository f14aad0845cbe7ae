"""Scans of contiguous rows by groups of lanes, on the interpreter, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_operators.scans.nest import ScanForm
from tensocket_operators.scans.nest_groups import Chunk, chunk_of, groups_nest
from tensocket_operators.scans.scan import Scan
from tensocket_plugins.contract.dtypes import bfloat16, float32, float64, int8, int32, int64
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.target import Target

GPU = Target("simt", group_size=64)
LIMITED = Target("simt", group_size=64, max_groups=3)
SUM = Scan(element=lambda m, x, position: (x,), combine=lambda m, a, b: (a[0] + b[0],),
           finish=lambda m, values: values[0], identity=lambda dtype: (0,))
SIZES = [(1, 1), (3, 31), (2, 256), (4, 257), (2, 1100)]


def later(m, a, b):
    wins = (a[0] <= b[0]) | m.ne(b[0], b[0])
    return m.where(wins, b[0], a[0]), m.where(wins, b[1], a[1])


LAST_TOP = Scan(element=lambda m, x, position: (x, position), combine=later, positions=frozenset({1}),
                identity=lambda dtype: (float("-inf"), 0), finish=lambda m, values: m.cast(values[1], int64))


def form(source, accumulator, result, *, running=True, carried=False):
    return ScanForm(source, accumulator, result, 1, running, carried, int32, True)


@pytest.mark.parametrize("target", [GPU, LIMITED], ids=["gpu", "limited"])
@pytest.mark.parametrize(("rows", "length"), SIZES)
@pytest.mark.parametrize(("dtype", "accumulator"), [(float32, float32), (int32, int64), (float64, float64)], ids=str)
def test_running_sums(run, dtype, accumulator, rows, length, target):
    a = np.random.default_rng(length).integers(-9, 9, (rows, length)).astype(dtype.numpy)
    out = np.zeros((rows, length), accumulator.numpy)
    run(SUM, form(dtype, accumulator, accumulator), target, [out, a], [
        rows, 1, length, length, length, 1, length, 1])
    np.testing.assert_array_equal(out, np.cumsum(a, 1, accumulator.numpy))


def test_rows_with_gaps_between_them(run):
    a, out = np.ones((4, 300), np.float32), np.zeros((4, 500), np.float32)
    run(SUM, form(float32, float32, float32), GPU, [out, a], [4, 1, 290, 290, 500, 1, 300, 1])
    np.testing.assert_array_equal(out[:, :290], np.tile(np.arange(1, 291), (4, 1)))
    assert not out[:, 290:].any()


def test_positions_of_running_extremes_with_nan(run):
    a = np.random.default_rng(5).integers(-9, 9, (3, 700)).astype(np.float32)
    a[1, 300] = np.nan
    a[2, :] = -np.inf
    out = np.zeros((3, 700), np.int64)
    run(LAST_TOP, form(float32, float32, int64), GPU, [out, a], [3, 1, 700, 700, 700, 1, 700, 1])
    for row, places in zip(a, out, strict=True):
        best = 0
        for k, x in enumerate(row):
            best = k if row[best] <= x or np.isnan(x) else best
            assert places[k] == best


def test_blocks_of_a_row_continue_from_the_total_before_them(run):
    chunk = Chunk(lanes=8, width=4)
    a = np.random.default_rng(6).integers(-9, 9, (2, 150)).astype(np.float32)
    totals = np.zeros((2, 3), np.float32)
    sizes = [2, 3, 64, 150]
    run(SUM, form(float32, float32, None, running=False), GPU, [totals, a], [*sizes, 150, 1], chunk)
    expected = [[row[k * 64:(k + 1) * 64].sum() for k in range(2)] for row in a]
    np.testing.assert_array_equal(totals[:, :2], expected)  # nothing follows the last block
    carries, out = np.cumsum(totals, 1, np.float32), np.zeros((2, 150), np.float32)
    run(SUM, form(float32, float32, float32, carried=True), GPU, [out, a, carries], [
        *sizes, 150, 1, 150, 1], chunk)
    np.testing.assert_array_equal(out, np.cumsum(a, 1))


def test_results_are_the_same_every_time(run):
    a = np.random.default_rng(7).random((1, 2000), np.float32)
    seen = set()
    for _ in range(3):
        out = np.zeros((1, 2000), np.float32)
        run(SUM, form(float32, float32, float32), GPU, [out, a], [1, 1, 2000, 2000, 2000, 1, 2000, 1])
        seen.add(out.tobytes())
    assert len(seen) == 1
    np.testing.assert_allclose(out, np.cumsum(a, 1, np.float64), rtol=1e-5)


@pytest.mark.parametrize(("dtype", "length", "lanes", "width"), [
    (float32, 4096, 64, 8), (float32, 256, 32, 8), (float32, 300, 64, 8), (bfloat16, 10**6, 64, 16),
    (int8, 10**6, 64, 16), (float64, 10**6, 64, 4), (float32, 5, 32, 8)])
def test_a_lane_scans_32_bytes(dtype, length, lanes, width):
    assert chunk_of(GPU, dtype, length) == Chunk(lanes, width)


@pytest.fixture
def run():
    """``run(scan, form, target, arrays, scalars)`` interprets a scan by groups, scheduled for the target."""

    def interpreted(scan, form_, target, arrays, scalars, chunk=None):
        chunk = chunk or chunk_of(target, form_.source, scalars[3])
        program = scheduled(groups_nest("scan", scan, form_, chunk, target), target, None)
        interpret(program, [a.reshape(-1) for a in arrays], scalars)

    return interpreted
