"""The list of primitives, and the kit's NumPy version of each, against independent references."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensocket_plugins.contract import DeviceArray, KernelTable, dtypes
from tensocket_plugins.contract.primitives import BY_FUNCTION, PRIMITIVES, missing_primitives
from tensocket_plugins.ir.functions import FUNCTIONS
from tensocket_plugins.kit import host_primitives
from tensocket_plugins.kit.host_primitives import compute, host_view, philox


def run(name, ins, scalars=(), dtype=np.float32, shape=None):
    ins = [np.asarray(x) for x in ins]
    out = np.empty(ins[0].shape if shape is None else shape, dtype)
    compute(name, out, ins, scalars)
    return out


def test_every_primitive_has_a_function():
    assert host_primitives.FUNCTIONS.keys() == PRIMITIVES.keys()


def test_every_scalar_function_has_a_primitive():
    assert {name for name, row in FUNCTIONS.items() if not row.processors_only} == BY_FUNCTION.keys()
    assert {name: PRIMITIVES[name].inputs for name in BY_FUNCTION.values()} == {
        name: FUNCTIONS[function].arity for function, name in BY_FUNCTION.items()}


def test_missing_primitives_are_named():
    table = KernelTable()
    for name in PRIMITIVES:
        if name not in ("sin", "add"):
            table.register(name, print)
    table.register("add", print, dtypes=["float32"])
    assert missing_primitives(table) == ["sin", "add/int64"]
    table.register("sin", print)
    table.register("add", print)
    assert missing_primitives(table) == []


def test_philox_known_answer():
    # Published with the algorithm: counter and key zero.
    assert philox(np.array([0], np.uint64), 0)[0].tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def philox_by_hand(block, seed):
    c = [block & 0xFFFFFFFF, block >> 32, 0, 0]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        high0, low0 = divmod(c[0] * 0xD2511F53, 1 << 32)
        high1, low1 = divmod(c[2] * 0xCD9E8D57, 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
    return c


def test_philox_bits_in_unlimited_integers():
    seed, offset = 0xDEADBEEF12345678, (1 << 32) - 1
    words = run("philox_bits", [], (seed, offset), np.uint32, (11,))
    expected = [word for block in range(3) for word in philox_by_hand(offset + block, seed)][:11]
    assert words.tolist() == expected


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8])
def test_integer_division_truncates(dtype):
    info = np.iinfo(dtype)
    xs = [value for value in (0, 1, 7, -7, 100, -100, info.max, info.min + 1) if info.min <= value <= info.max]
    ys = [value for value in (1, 2, 3, -2, -3, info.max) if info.min <= value <= info.max]
    x, y = (np.array(values, dtype) for values in zip(*[(x, y) for x in xs for y in ys], strict=True))
    expected = [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x, y, strict=True)]
    assert run("idiv", [x, y], dtype=dtype).tolist() == expected
    assert run("imod", [x, y], dtype=dtype).tolist() == [
        int(a) - int(b) * q for a, b, q in zip(x, y, expected, strict=True)]


def test_float16_is_computed_in_float32():
    x = np.full(4096, 1.0, np.float16)
    assert run("sum", [x], ((0,),), np.float16, ()) == 4096.0
    y = np.array([60000.0], np.float16)
    assert run("mul", [y, y], dtype=np.float16).tolist() == [math.inf]


def test_reductions_over_any_dimensions():
    x = np.arange(24).reshape(2, 3, 4)[:, ::-1]
    assert run("sum", [x], ((0, 2),), np.int64, (3,)).tolist() == x.sum(axis=(0, 2)).tolist()
    assert run("argmax", [x], ((0, 1),), np.int64, (4,)).tolist() == [
        int(np.argmax(x[:, :, k].ravel())) for k in range(4)]
    assert run("prod", [np.ones((3, 0))], ((1,),), np.float32, (3,)).tolist() == [1.0, 1.0, 1.0]


def test_nan_wins_extremes():
    x = np.array([[1.0, np.nan, 3.0]])
    assert np.isnan(run("amax", [x], ((1,),), np.float64, (1,)))
    assert run("argmin", [x], ((1,),), np.int64, (1,)) == 1
    assert np.isnan(run("maximum", [x, np.ones_like(x)], dtype=np.float64)[0, 1])


def test_scatter_add_counts_duplicates():
    x, index, source = np.zeros((2, 3)), np.array([[0, 0, 2, 0]] * 2), np.ones((2, 4))
    assert run("scatter_add", [x, index, source], (1,), np.float64, (2, 3)).tolist() == [[3.0, 0.0, 1.0]] * 2
    assert run("gather", [np.eye(3), np.array([[2, 0]])], (0,), np.float64, (1, 2)).tolist() == [[0.0, 0.0]]


def test_copy_converts_and_may_overlap():
    assert run("copy", [np.array([-1.9, 1.9, 0.5])], dtype=np.int64).tolist() == [-1, 1, 0]
    assert run("copy", [np.array([0.0, -0.0, 0.1, np.nan])], dtype=np.bool_).tolist() == [False, False, True, True]


def test_bits_are_moved_and_read_anew():
    assert run("shr", [np.array([-8, 9]), np.array([1, 3])], dtype=np.int64).tolist() == [-4, 1]
    assert run("shl", [np.array([3], np.uint8), np.array([7], np.uint8)], dtype=np.uint8).tolist() == [128]
    assert run("bitcast", [np.array([1.0, -0.0], np.float32)], dtype=np.uint32).tolist() == [0x3F800000, 0x80000000]
    assert run("bitcast", [np.array([0x3C00], np.uint16)], dtype=np.float16).tolist() == [1.0]


def test_arange_is_exact_for_large_integers():
    start = (1 << 60) + 1
    assert run("arange", [], (start, 3), np.int64, (3,)).tolist() == [start, start + 3, start + 6]


def test_unusual_values_do_not_warn():
    # Warnings are errors here.
    assert run("div", [np.array([1.0, 0.0]), np.array([0.0, 0.0])]).tolist()[0] == math.inf
    run("log", [np.array([-1.0], np.float32)])
    run("copy", [np.array([np.nan, 1e30])], dtype=np.int32)


def test_host_view_follows_offset_and_strides():
    class Holder:
        pass

    memory = np.arange(24, dtype=np.float32).view(np.uint8)
    array = DeviceArray(Holder(), dtypes.float32, (2, 3), (1, 4), 5)
    assert host_view(array, memory).tolist() == [[5.0, 9.0, 13.0], [6.0, 10.0, 14.0]]


def test_unknown_primitive():
    with pytest.raises(KeyError, match="frobnicate"):
        run("frobnicate", [np.zeros(1)])
