"""Products of narrow numbers by code of our own: layouts, sizes, values, threads, and where it is not used."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tensocket_cpu.linear.blas import best_library, host_features
from tensocket_cpu.linear.gemm import Products
from tensocket_cpu.linear.products import Parts, linear_halves, matmul_halves, matmul_integers
from tensocket_cpu.lowp_gemm.arithmetic import PAIRED, WIDENED, arithmetic_of
from tensocket_cpu.lowp_gemm.products import LowPrecisionProducts
from tensocket_plugins.contract.launch_recorder import ReplayForbiddenError, record_launches
from tensocket_plugins.ir.scalar import bfloat16_to_float32, float32_to_bfloat16

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
HALVES = {"paired": "bfloat16", "bfloat16": "bfloat16", "float16": "float16"}
UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
WIDE_ENOUGH = arithmetic_of("float16", host_features()) is not None
needs_vectors = pytest.mark.skipif(not WIDE_ENOUGH, reason="the processor lacks vectors of 512 bits")
#: Rows of every height of the last strip, columns of one vector and two, odd sums, sums of several panels.
SIZES = [(1, 1, 1), (3, 4, 5), (4, 7, 17), (5, 2, 33), (8, 31, 16), (9, 33, 32), (14, 16, 40), (15, 5, 65),
         (30, 513, 3), (17, 1030, 34), (2, 3, 1), (600, 9, 2)]


def narrow(values, dtype):
    return float32_to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(dtype)


def wide(values, dtype):
    return bfloat16_to_float32(values) if dtype == "bfloat16" else values.astype(np.float32)


def layouts(x):
    """The same matrices in many places of memory."""
    yield x
    yield np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2)
    for columns in (slice(None, None, 2), slice(1, 1 + x.shape[-1])):
        places = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)[..., columns][..., :x.shape[-1]]
        places[...] = x
        yield places
    yield np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :]
    yield np.ascontiguousarray(np.moveaxis(x, -2, 0)).transpose(*range(1, x.ndim - 1), 0, x.ndim - 1)


def make(device, name):
    arithmetic = PAIRED if name == "paired" else WIDENED.get(name) or arithmetic_of(name, host_features())
    if arithmetic is None or (arithmetic is PAIRED and not host_features().get("avx512bf16")):
        pytest.skip("the processor lacks the instructions")

    def unwritten(shape, dtype):
        return np.full(shape, 0x7F, np.uint8 if dtype.itemsize == 1 else dtype).view(dtype)

    return LowPrecisionProducts(arithmetic, device.compiler, device.pool, unwritten)


@pytest.fixture(scope="module", params=HALVES)
def floats(request, device):
    if not WIDE_ENOUGH:
        pytest.skip("the processor lacks vectors of 512 bits")
    return make(device, request.param), HALVES[request.param]


def reference(x, y, dtype, start=0.0):
    """The product in double precision, and that of the numbers' sizes."""
    x, y = wide(x, dtype).astype(np.float64), wide(y, dtype).astype(np.float64)
    return np.matmul(x, y) + start, np.matmul(np.abs(x), np.abs(y)) + np.abs(start)


def close(result, exact, scale, dtype):
    """One rounding to the dtype, and sums in float32."""
    assert result.shape == exact.shape
    assert (np.abs(wide(result, dtype) - exact) <= UNITS[dtype] * np.abs(exact) + 1e-6 * scale).all()


def check(result, x, y, dtype, start=0.0):
    close(result, *reference(x, y, dtype, start), dtype)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_floats_of_every_layout(floats, rng, sizes, batch):
    products, dtype = floats
    m, k, n = sizes
    x, y = (narrow(rng.standard_normal((*batch, *shape)), dtype) for shape in ((m, k), (k, n)))
    exact, scale = reference(x, y, dtype)
    for left in layouts(x):
        for right in layouts(y):
            close(products(left, right), exact, scale, dtype)


@pytest.mark.parametrize(("left", "right"), [
    ((4, 1, 3, 5), (2, 5, 6)), ((2, 3, 5), (5, 6)), ((3, 5), (4, 5, 6)), ((1, 3, 5), (4, 5, 6)),
    ((3, 1, 2, 3, 5), (1, 4, 1, 5, 2)), ((4, 6, 5), (5, 1)), ((4, 6, 5), (4, 5, 1))])
def test_batches_broadcast(floats, rng, left, right):
    products, dtype = floats
    x, y = narrow(rng.standard_normal(left), dtype), narrow(rng.standard_normal(right), dtype)
    check(products(x, y), x, y, dtype)
    check(products(np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0), y), x, y, dtype)


@pytest.mark.parametrize(("left", "right"), [
    ((70, 1200), (1200, 130)), ((1500, 90), (90, 20)), ((3, 200, 300), (300, 70)), ((40, 50, 60), (40, 60, 50)),
    ((1, 700), (700, 900))])
def test_threads_change_nothing(device, floats, rng, left, right):
    products, dtype = floats
    x, y = narrow(rng.standard_normal(left), dtype), narrow(rng.standard_normal(right), dtype)
    before, results = device.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5):
            device.set_num_threads(threads)
            results.append(products(x, y))
    finally:
        device.set_num_threads(before)
    check(results[0], x, y, dtype)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_a_row_does_not_depend_on_others(floats, rng):
    products, dtype = floats
    x, y = narrow(rng.standard_normal((45, 700)), dtype), narrow(rng.standard_normal((700, 75)), dtype)
    all_of_it = products(x, y)
    for row in (0, 13, 14, 44):
        np.testing.assert_array_equal(products(x[row:row + 1], y[:, :40])[0], all_of_it[row, :40])


def test_sums_begin_with_a_bias(floats, rng):
    products, dtype = floats
    x, y = narrow(rng.standard_normal((20, 600)), dtype), narrow(rng.standard_normal((600, 50)), dtype)
    bias = (100 * rng.standard_normal(50)).astype(np.float32)
    check(products(x, y, bias), x, y, dtype, bias.astype(np.float64))
    check(products(x, y[:, :1], bias[:1]), x, y[:, :1], dtype, bias[:1].astype(np.float64))


def test_not_a_number_stays_in_its_row_and_column(floats):
    products, dtype = floats
    x, y = narrow(np.ones((40, 31)), dtype), narrow(np.ones((31, 50)), dtype)
    x[3, 30], y[30, 6] = narrow(np.array([np.nan, np.inf]), dtype)
    result = wide(products(x, y), dtype)
    assert np.isnan(result[3]).all()
    rest = np.delete(result, 3, 0)
    np.testing.assert_array_equal(rest[:, 6], np.full(39, np.inf))
    np.testing.assert_array_equal(np.delete(rest, 6, 1), np.full((39, 49), 31))
    y[0, 6] = narrow(np.array([-np.inf]), dtype)[0]
    assert np.isnan(wide(products(x, y), dtype)[:, 6]).all()


def test_large_sums_overflow_once(floats):
    products, dtype = floats
    large = {"bfloat16": 1e38, "float16": 255.0}[dtype]
    factor = {"bfloat16": 1.0, "float16": 255.0}[dtype]
    x = narrow(np.array([[large] * 3 + [-large] * 2, [large] * 5]), dtype)
    y = narrow(np.full((5, 1), factor), dtype)
    result = wide(products(x, y), dtype)[:, 0]
    assert result[0] == wide(narrow(np.array([large * factor]), dtype), dtype)[0]
    assert result[1] == np.inf


@pytest.mark.parametrize("name", HALVES)
def test_subnormal_numbers(device, name):
    products, dtype = make(device, name), HALVES[name]
    small = {"bfloat16": 2.0**-130, "float16": 2.0**-20}[dtype]
    x, y = narrow(np.full((3, 4), small), dtype), narrow(np.full((4, 5), 2.0), dtype)
    # The instruction for pairs takes them for zero; all else keeps them.
    np.testing.assert_array_equal(wide(products(x, y), dtype), np.full((3, 5), 0.0 if name == "paired" else 8 * small))


@needs_vectors
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("extreme", [False, True])
def test_integers_are_exact(device, rng, dtype, sizes, extreme):
    products, info = make(device, dtype), np.iinfo(dtype)
    m, k, n = sizes
    x, y = ((np.full(shape, info.min or info.max, dtype) if extreme else
             rng.integers(info.min, info.max, shape, dtype, endpoint=True)) for shape in ((m, k), (k, n)))
    exact = np.matmul(x, y)
    for left in layouts(x):
        for right in layouts(y):
            result = products(left, right)
            assert result.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(result, exact)


@pytest.mark.parametrize(("left", "right"), [
    ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (0, 3, 4)), ((5, 2, 0), (5, 0, 4)),
    ((5, 2, 0), (0, 1))])
def test_without_elements(floats, left, right):
    products, dtype = floats
    result = products(narrow(np.ones(left), dtype), narrow(np.ones(right), dtype))
    assert result.shape == (*left[:-1], right[-1])
    assert (result == 0).all()


def test_products_are_not_for_recordings(floats):
    products, dtype = floats
    with pytest.raises(ReplayForbiddenError):
        record_launches(lambda: products(narrow(np.ones((3, 4)), dtype), narrow(np.ones((4, 5)), dtype)))


@pytest.mark.parametrize(("left", "right"), [((2, 3), (4, 5)), ((2, 2, 3), (3, 3, 4))])
def test_shapes_that_do_not_fit(floats, left, right):
    products, dtype = floats
    with pytest.raises(ValueError):
        products(narrow(np.ones(left), dtype), narrow(np.ones(right), dtype))


EDGES = """
import ctypes, mmap
import numpy as np
from tensocket_cpu.device import CpuDevice
device, page = CpuDevice(0), mmap.PAGESIZE
libc = ctypes.CDLL(None)
def at_the_end(x):
    memory = mmap.mmap(-1, 3 * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert not libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(page), 0)
    assert not libc.mprotect(ctypes.c_void_p(first + 2 * page), ctypes.c_size_t(page), 0)
    for begin in (page, 2 * page - x.nbytes):
        made = np.frombuffer(memory, x.dtype, x.size, begin).reshape(x.shape)
        made[...] = x
        yield made
for dtype in ("bfloat16", "float16", "int8", "int32"):
    products = device._make_narrow(dtype)
    item = {"bfloat16": np.uint16}.get(dtype, dtype)
    for shape in ((1, 1), (3, 5), (17, 33), (15, 31)):
        x = np.ones(shape, item)
        for left in at_the_end(x):
            for a, b in ((left, left.T), (left.T, left)):
                assert products(a, b).shape == (len(a), len(a))
print("fine")
"""


@needs_vectors
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs pages that nobody may read")
def test_nothing_beside_the_matrices_is_read():
    done = subprocess.run([sys.executable, "-c", EDGES], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "fine\n"


# ------------------------------------------------------------------------------------------------- where it is used


VECTORS = ("avx512f", "avx512dq", "avx512bw", "avx512vl")


@pytest.mark.parametrize(("dtype", "features", "found"), [
    ("bfloat16", (*VECTORS, "avx512bf16"), "bfloat16_pairs"), ("bfloat16", VECTORS, "bfloat16"),
    ("float16", VECTORS, "float16"), ("uint8", VECTORS, "int8"), ("int16", VECTORS, "int16"),
    ("uint32", VECTORS, "int32"), ("int64", VECTORS, None),
    ("float32", VECTORS, None), ("bfloat16", (*VECTORS[:-1], "avx512bf16"), None), ("int8", (), None)])
def test_which_arithmetic_is_chosen(dtype, features, found):
    arithmetic = arithmetic_of(dtype, dict.fromkeys(features, True))
    assert (None if arithmetic is None else arithmetic.name) == found


@pytest.mark.parametrize("own", [True, False])
def test_with_and_without_own_code(device, rng, own):
    library = best_library()
    if library is None:
        pytest.skip("no BLAS that is known")
    asked = []

    def find(dtype):
        asked.append(dtype)
        return device._make_narrow(dtype) if own else None

    empty = device.allocator.of
    parts = Parts(lambda: Products(library, device.compiler, device.pool, empty), device._make_halves, find, empty)
    for dtype in ("bfloat16", "float16"):
        x, y = narrow(rng.standard_normal((3, 40, 70)), dtype), narrow(rng.standard_normal((70, 30)), dtype)
        for _ in range(2):
            check(matmul_halves(parts, dtype, x, y), x, y, dtype)
    for name in ("int8", "int32", "int64"):
        x, y = (rng.integers(-100, 100, shape).astype(name) for shape in ((40, 70), (70, 30)))
        np.testing.assert_array_equal(matmul_integers(parts, x, y), np.matmul(x, y))
    assert asked == ["bfloat16", "float16", "int8", "int32", "int64"]


@needs_vectors
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("left", "right"), [((5,), (5,)), ((700,), (700, 30)), ((30, 70), (70,)), ((3, 9, 7), (7,)),
                                             ((7,), (3, 7, 9)), ((0,), (0, 3))])
def test_vectors(device, rng, dtype, left, right):
    parts = Parts(dict, device._make_halves, device._make_narrow, device.allocator.of)
    x, y = narrow(rng.standard_normal(left), dtype), narrow(rng.standard_normal(right), dtype)
    check(matmul_halves(parts, dtype, x, y), x, y, dtype)


@needs_vectors
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("lead", [(1,), (7,), (2, 7), (300,)])
def test_linear_rounds_once(device, rng, dtype, lead):
    parts = Parts(dict, device._make_halves, device._make_narrow, device.allocator.of)
    x, weight = (narrow(rng.standard_normal(shape), dtype) for shape in ((*lead, 50), (60, 50)))
    bias = narrow(30 * rng.standard_normal(60), dtype)
    check(linear_halves(parts, dtype, x, weight, None), x, weight.T, dtype)
    check(linear_halves(parts, dtype, x, weight, bias), x, weight.T, dtype, wide(bias, dtype).astype(np.float64))
    for wrong in (bias[:-1], bias[:1]):
        with pytest.raises(ValueError):
            linear_halves(parts, dtype, x, weight, wrong)
    with pytest.raises(ValueError):
        linear_halves(parts, dtype, x[..., :0], weight[:, :0], bias)
    without = Parts(dict, device._make_halves, lambda name: None, device.allocator.of)
    with pytest.raises(ValueError):
        linear_halves(without, dtype, x, weight, bias)
