"""Products of matrices against NumPy in double precision: layouts, batches, dtypes, values; which library is used."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_cpu.linear import blas
from tensocket_cpu.linear.gemm import Products, batch_steps, oriented
from tensocket_cpu.linear.products import (
    NumpyProducts,
    Parts,
    linear_floats,
    matmul_floats,
    matmul_halves,
    matmul_integers,
    register_products,
)
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.ir.scalar import bfloat16_to_float32, float32_to_bfloat16
from tensocket_plugins.kit import host_linalg

FLOATS = {"float32": 1e-5, "float64": 1e-13, "complex64": 1e-5, "complex128": 1e-13}
SIZES = [(3, 4, 5), (1, 7, 3), (4, 1, 6), (5, 3, 1), (1, 1, 1), (33, 20, 18)]
PRIVATE = importlib.util.find_spec("scipy_openblas64") is not None


def values(rng, shape, dtype):
    made = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.standard_normal(shape)
    return made.astype(dtype)


def layouts(rng, shape, dtype):
    """Arrays of one shape in many layouts."""
    *batch, rows, columns = shape

    def make(*sizes):
        return values(rng, sizes, dtype)

    yield make(*shape)
    yield np.swapaxes(make(*batch, columns, rows), -1, -2)
    yield make(*batch, rows, 2 * columns)[..., ::2]
    yield make(*batch, rows + 2, columns + 3)[..., 1:-1, 2:-1]
    yield make(*batch, rows, columns)[..., ::-1, :]
    yield np.broadcast_to(make(*batch, 1, columns), shape)
    if batch:
        yield np.broadcast_to(make(rows, columns), shape)
        yield np.moveaxis(make(rows, *batch, columns), 0, -2)
        yield np.moveaxis(make(rows, columns, *batch), (0, 1), (-2, -1))


def check(result, x, y, bound):
    """Against double precision, relative to the sum of the products' sizes."""
    exact = np.matmul(x.astype(np.complex128), y.astype(np.complex128))
    scale = np.matmul(np.abs(x).astype(np.float64), np.abs(y).astype(np.float64))
    assert result.shape == exact.shape
    assert result.dtype == x.dtype
    assert (np.abs(result - exact) <= bound * scale + 1e-300).all()


@pytest.fixture(scope="module")
def products(device):
    library = blas.best_library()
    if library is None:
        pytest.skip("no BLAS that is known")

    def unwritten(shape, dtype):
        return np.full(shape, np.nan, dtype)

    return Products(library, device.compiler, device.pool, unwritten)


@pytest.fixture(scope="module")
def parts(device, products):
    return Parts(lambda: products, device._make_halves, device._make_narrow, device.allocator.of)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 3, 2)])
def test_every_layout(products, rng, dtype, sizes, batch):
    m, k, n = sizes
    for x in layouts(rng, (*batch, m, k), dtype):
        for y in layouts(rng, (*batch, k, n), dtype):
            check(products(x, y), x, y, FLOATS[dtype])


@pytest.mark.parametrize(("left", "right"), [
    ((4, 1, 3, 5), (2, 5, 6)), ((2, 3, 5), (5, 6)), ((3, 5), (4, 5, 6)), ((1, 3, 5), (4, 5, 6)),
    ((3, 1, 2, 3, 5), (1, 4, 1, 5, 2)),
])
def test_batches_broadcast(products, rng, left, right):
    x, y = values(rng, left, np.float32), values(rng, right, np.float32)
    check(products(x, y), x, y, 1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(("left", "right"), [
    ((515, 300), (300, 70)), ((70, 300), (300, 515)), ((3, 300, 200), (3, 200, 100)), ((64, 60, 60), (64, 60, 60))])
def test_divided_over_threads(device, products, rng, threads, left, right):
    x, y = values(rng, left, np.float32), values(rng, right, np.float32)
    before = device.get_num_threads()
    device.set_num_threads(threads)
    z = np.swapaxes(values(rng, (*right[:-2], right[-1], right[-2]), np.float32), -1, -2)
    try:
        first, second = products(x, y), products(x, z)
    finally:
        device.set_num_threads(before)
    check(first, x, y, 1e-5)
    check(second, x, z, 1e-5)


@pytest.mark.parametrize(("left", "right"), [
    ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (0, 3, 4)), ((5, 2, 0), (5, 0, 4))])
def test_without_elements(products, left, right):
    result = products(np.ones(left, np.float32), np.ones(right, np.float32))
    assert result.shape == (*left[:-1], right[-1])
    assert (result == 0).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_not_a_number_stays_in_its_row_and_column(products, dtype):
    x, y = np.ones((40, 30), dtype), np.ones((30, 50), dtype)
    x[3, 4], y[5, 6] = np.nan, np.inf
    result = products(x, y)
    assert np.isnan(result[3]).all()
    rest = np.delete(result, 3, 0)
    assert np.isinf(rest[:, 6]).all() or np.isnan(rest[:, 6]).all()
    np.testing.assert_array_equal(np.delete(rest, 6, 1), np.full((39, 49), 30, dtype))


def test_into_memory(products, rng):
    x, y = values(rng, (20, 30), np.float64), values(rng, (30, 40), np.float64)
    out = np.full((20, 40), np.nan)
    assert products(x, y, out) is out
    np.testing.assert_allclose(out, x @ y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("left", "right"), [
    ((20, 30), (30, 40)), ((515, 300), (300, 70)), ((70, 300), (300, 515)), ((3, 300, 200), (3, 200, 100)),
    ((2, 40, 30), (30, 50)), ((400, 300), (300, 1)), ((1, 300), (300, 400)), ((20, 0), (0, 40)), ((0, 5), (5, 3)),
    ((3, 5), (5, 0))])
def test_rows_of_a_bias(device, products, rng, threads, left, right):
    x, y = values(rng, left, np.float64), values(rng, right, np.float64)
    turned = np.swapaxes(np.swapaxes(y, -1, -2).copy(), -1, -2)
    wide = values(rng, (3 * right[-1],), np.float64)
    before = device.get_num_threads()
    device.set_num_threads(threads)
    try:
        for bias in (wide[:right[-1]].copy(), wide[::3], np.broadcast_to(wide[:1], right[-1:])):
            kept, expected = bias.copy(), x @ y + bias
            for factor in (y, turned):
                np.testing.assert_allclose(products(x, factor, bias=bias), expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(bias, kept)
    finally:
        device.set_num_threads(before)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("left", "right"), [
    ((5,), (5,)), ((9000,), (9000,)), ((3, 5), (5,)), ((5,), (5, 3)), ((700, 300), (300,)), ((300,), (300, 700)),
    ((2, 3, 50), (50,)), ((50,), (2, 50, 3)), ((1, 300), (300, 700)), ((700, 300), (300, 1)), ((1, 9000), (9000, 1)),
    ((700, 1), (1,)), ((0, 5), (5,)), ((5, 0), (0,))])
def test_vectors(device, parts, rng, dtype, left, right):
    before = device.get_num_threads()
    for threads in (1, 3):
        device.set_num_threads(threads)
        try:
            for x in (values(rng, left, dtype), values(rng, left[::-1], dtype).T,
                      values(rng, (*left[:-1], 3 * left[-1]), dtype)[..., ::3], values(rng, left, dtype)[..., ::-1]):
                if x.shape != left:
                    continue
                for y in (values(rng, right, dtype), values(rng, right[::-1], dtype).T,
                          values(rng, (*right[:-1], 2 * right[-1]), dtype)[..., ::2]):
                    if y.shape == right:
                        check(matmul_floats(parts)(x, y), x, y, FLOATS[dtype])
        finally:
            device.set_num_threads(before)


@pytest.mark.parametrize(("left", "right"), [((3, 4), (5,)), ((5,), (4, 3)), ((900,), (800,))])
def test_vectors_that_do_not_fit(parts, left, right):
    with pytest.raises(ValueError):
        matmul_floats(parts)(np.ones(left), np.ones(right))


@pytest.mark.parametrize(("left", "right"), [((2, 3), (4, 5)), ((2, 2, 3), (3, 3, 4))])
def test_shapes_that_do_not_fit(products, left, right):
    with pytest.raises(ValueError):
        products(np.ones(left), np.ones(right))


def test_strided_operands_are_not_copied(rng):
    for x in (values(rng, (4, 5), np.float32), values(rng, (4, 5), np.float32).T,
              values(rng, (4, 9), np.float32)[:, 2:7], values(rng, (4, 2, 3, 5), np.float32).transpose(0, 2, 1, 3)):
        assert oriented(x)[0] is x
    heads = values(rng, (4, 6, 2, 5), np.float32).transpose(0, 2, 1, 3)
    rows = np.ones((4, 5, 6), np.float32)
    assert batch_steps((4,), (rows, rows[:1], rows[0], rows[::-2])) == [(1, 4), (0, 120), (0, 0), (0, 0), (0, -240)]
    assert batch_steps((1,), (rows[:1], rows[0])) == [(1, 1), (0, 0), (0, 0)]
    assert batch_steps((4, 2), (heads, np.ones((2, 5, 6), np.float32))) == [(4, 2), (240, 20), (0, 120)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lead", [(7,), (2, 7), (300,)])
def test_linear(parts, rng, bias, lead):
    x, weight = values(rng, (*lead, 50), np.float32), values(rng, (60, 50), np.float32)
    b = values(rng, (60,), np.float32) if bias else None
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + (0 if b is None else b)
    np.testing.assert_allclose(linear_floats(parts)(x, weight, b), exact, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError):
        linear_floats(parts)(x, weight, np.ones(50, np.float32))


@pytest.mark.parametrize(("left", "right"), [
    ((3, 4), (4, 5)), ((70, 300), (300, 40)), ((3, 70, 300), (300, 40)), ((3, 7, 30), (3, 30, 4)), ((900, 16), (16, 8)),
    ((2, 0), (0, 3))])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_sixteen_bits(parts, rng, left, right, dtype, transposed):
    x, y = values(rng, left, np.float32), values(rng, right, np.float32)
    narrow, wide, unit = ((float32_to_bfloat16, bfloat16_to_float32, 2.0**-8) if dtype == "bfloat16" else
                          (lambda a: a.astype(np.float16), lambda a: a.astype(np.float32), 2.0**-11))
    x, y = narrow(x), narrow(y)
    if transposed:
        y = np.swapaxes(np.swapaxes(y, -1, -2).copy(), -1, -2)
    result = matmul_halves(parts, dtype, x, y)
    exact = wide(x).astype(np.float64) @ wide(y).astype(np.float64)
    scale = np.abs(wide(x)) @ np.abs(wide(y))
    assert result.dtype == x.dtype
    assert (np.abs(wide(result) - exact) <= unit * np.abs(exact) + 1e-5 * scale).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_pattern_of_sixteen_bits(device, rng, dtype):
    halves = device._make_halves(dtype)
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = np.empty(bits.shape, np.float32)
    halves.widen(wide, bits)
    expected = bits.view(np.float16).astype(np.float32) if dtype == "float16" else bfloat16_to_float32(bits)
    np.testing.assert_array_equal(wide, expected)
    patterns = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        patterns = np.concatenate([patterns, wide, np.nextafter(wide, np.float32(0)), wide * np.float32(1.00390625)])
    narrowed = np.empty(patterns.shape, np.uint16)
    halves.narrow(narrowed, patterns)
    with np.errstate(all="ignore"):
        right = patterns.astype(np.float16).view(np.uint16) if dtype == "float16" else float32_to_bfloat16(patterns)
    nan = np.isnan(patterns)
    np.testing.assert_array_equal(narrowed[~nan], right[~nan])
    again = np.empty(patterns.shape, np.float32)
    halves.widen(again, narrowed)
    np.testing.assert_array_equal(np.isnan(again), nan)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize(("left", "right"), [((3, 4), (4, 5)), ((20, 300), (300, 30)), ((2, 9, 40), (2, 40, 20)),
                                             ((2, 1500), (1500, 3))])
@pytest.mark.parametrize("extreme", [False, True])
def test_integers_are_exact(parts, rng, dtype, left, right, extreme):
    info = np.iinfo(dtype)
    x, y = ((np.full(shape, info.min or info.max, dtype) if extreme else
             rng.integers(info.min, info.max, shape, dtype, endpoint=True)) for shape in (left, right))
    result = matmul_integers(parts, x, y)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, np.matmul(x, y))
    z = np.swapaxes(np.swapaxes(y, -1, -2).copy(), -1, -2)
    np.testing.assert_array_equal(matmul_integers(parts, x, z), np.matmul(x, y))


@pytest.mark.parametrize("sizes", [(5, 6, 7), (70, 80, 90)])
@pytest.mark.parametrize("installed", [False, True])
def test_products_of_host_operators(monkeypatch, device, parts, rng, sizes, installed):
    monkeypatch.setattr(host_linalg, "_INSTALLED", {})
    if installed:
        register_products(KernelTable(), parts)
    m, k, n = sizes
    x, y = values(rng, (m, k), np.float32), values(rng, (n, k), np.float32).T
    check(host_linalg.matmul(x, y), x, y, 1e-5)
    with pytest.raises(ValueError):
        host_linalg.matmul(x, x)


def test_many_threads_at_once(device, products, rng):
    x, y = values(rng, (200, 300), np.float32), values(rng, (300, 250), np.float32)
    exact, wrong = x.astype(np.float64) @ y.astype(np.float64), []

    def work():
        for _ in range(20):
            if not np.allclose(products(x, y), exact, rtol=1e-4, atol=1e-3):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


# ------------------------------------------------------------------------------------------------------ the library


@pytest.mark.parametrize(("processor", "features", "core"), [
    ("znver5", blas._WIDE, "SkylakeX"), ("znver3", (), None), ("znver4", blas._WIDE[:-1], None),
    ("sapphirerapids", blas._WIDE, None), ("apple-m1", (), None)])
def test_which_kernels_are_asked_for(monkeypatch, processor, features, core):
    monkeypatch.delenv("TENSOCKET_BLAS_CORETYPE", raising=False)
    assert blas.core_type(processor, dict.fromkeys(features, True)) == core
    monkeypatch.setenv("TENSOCKET_BLAS_CORETYPE", "Haswell")
    assert blas.core_type(processor, dict.fromkeys(features, True)) == "Haswell"


def test_the_environment_is_put_back(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_VERBOSE", "0")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    before = dict(os.environ)
    during = {}

    def look():
        during.update({name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")})
        raise KeyError

    with pytest.raises(KeyError), blas.environment({"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "SkylakeX"}):
        look()
    assert during == {"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "SkylakeX"}
    assert dict(os.environ) == before


LOAD = """
import os
{first}
before = dict(os.environ)
from tensocket_cpu.linear import blas
library = blas.best_library()
assert library.private, library
assert dict(os.environ) == before
import llvmlite.binding as llvm
features = llvm.get_host_cpu_features()
wide = llvm.get_host_cpu_name().startswith("znver") and all(features.get(name) for name in blas._WIDE)
print(library.core() == "SkylakeX" if wide else bool(library.core()))
{last}
"""


@pytest.mark.skipif(not PRIVATE, reason="the package scipy-openblas64 is not there")
@pytest.mark.parametrize("first", ["", "import numpy as np; np.ones((9, 9)) @ np.ones((9, 9))", "import scipy.linalg"])
@pytest.mark.parametrize("core", ["", "Haswell"])
def test_the_order_of_imports_does_not_matter(first, core):
    if "scipy" in first:
        pytest.importorskip("scipy")
    last = "import numpy as np; print(np.allclose(np.ones((9, 9)) @ np.ones((9, 9)), 9))"
    hidden = ("OPENBLAS_", "TENSOCKET_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    if core:
        environment["OPENBLAS_CORETYPE"] = core
    done = subprocess.run([sys.executable, "-c", LOAD.format(first=first, last=last)], check=True, timeout=60,
                          capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["True", "True"]


def test_without_the_package_numpys_library_serves(monkeypatch, device, rng):
    monkeypatch.setattr(blas.importlib.util, "find_spec", lambda name: None)
    assert blas.load_private("znver5", {}) is None
    library = blas.numpy_library()
    if library is None:
        pytest.skip("NumPy's BLAS is another one")
    assert not library.private
    other = Products(library, device.compiler, device.pool, device.allocator.of)
    x, y = values(rng, (70, 90), np.float32), values(rng, (90, 50), np.float32)
    check(other(x, y), x, y, 1e-5)


@pytest.mark.parametrize("found", [None, blas.Library(object(), "{}_", False)])
def test_without_a_library_numpy_multiplies(monkeypatch, rng, found):
    monkeypatch.setattr("tensocket_cpu.device.best_library", lambda: found)
    device = CpuDevice(0)
    products = device._make_products()
    assert isinstance(products, NumpyProducts)
    own = Parts(lambda: products, device._make_halves, device._make_narrow, device.allocator.of)
    x, y = values(rng, (70, 90), np.float32), values(rng, (90, 50), np.float32)
    check(matmul_floats(own)(x, y), x, y, 1e-5)
    bias = values(rng, (50,), np.float32)
    np.testing.assert_allclose(linear_floats(own)(x, y.T, bias), x @ y + bias, rtol=1e-4, atol=1e-4)


def test_a_file_that_is_no_library_is_passed_over(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libscipy_openblas64_.so").write_bytes(b"no library")
    (tmp_path / "lib" / "libscipy_openblas64_.a").write_bytes(b"of another kind")
    (tmp_path / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location("scipy_openblas64", tmp_path / "__init__.py")
    monkeypatch.setattr(blas.importlib.util, "find_spec", lambda name: spec)
    assert blas.load_private("znver5", {}) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_multiply(device, products, rng):
    code = """
import os
import numpy as np
from tensocket_cpu.device import CpuDevice
device = CpuDevice(0)
device.set_num_threads(2)
products = device._make_products()
x = np.ones((300, 300), np.float32)
def works():
    return np.array_equal(products(x, x), np.full((300, 300), 300, np.float32))
assert works()
child = os.fork()
if child == 0:
    os._exit(0 if works() else 1)
assert os.waitpid(child, 0)[1] == 0 and works()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("native", ["0", "1"])
def test_overflow_is_no_warning(native):
    program = """
import tensocket as torch
x, layer = torch.full((3, 5), 1e30), torch.nn.Linear(5, 3)
layer.weight.data.fill_(1e30)
assert torch.isinf(x @ x.T).all() and torch.isinf(x[0] @ x[0]) and torch.isinf(layer(x)).all()
assert torch.isinf(layer.requires_grad_(False)(x)).all()
"""
    environment = {**os.environ, "TENSOCKET_NATIVE": native, "TENSOCKET_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
