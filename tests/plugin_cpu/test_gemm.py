"""The backend's own ``gemm`` against NumPy in double precision: sizes, layouts, factors, and memory around operands."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import threading

import numpy as np
import pytest

from tensocket_cpu.float_gemm.addresses import gemm_address
from tensocket_cpu.float_gemm.routine import LIBRARY, NAME, routine_text
from tensocket_cpu.float_gemm.shapes import shape_of
from tensocket_cpu.linear import blas
from tensocket_cpu.linear.gemm import Products

pytestmark = pytest.mark.skipif(shape_of("float32", blas.host_features()) is None,
                                reason="the processor lacks the instructions")

BOUND = {"float32": 2.0**-23, "float64": 2.0**-52}
LAYOUTS = ["NN", "NT", "TN", "TT"]
#: Sizes around those of tiles, strips and panels in both dtypes.
EDGES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33, 65)
_ROUTINE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13, ctypes.c_size_t, ctypes.c_size_t)


class Routine:
    """A routine, called on row-major matrices: their product is the transpose of a product of transposes."""

    def __init__(self, dtype, address):
        self.dtype, self._call = np.dtype(dtype), _ROUTINE(address)

    def __call__(self, layout, x, y, c, alpha=1.0, beta=0.0, depth=None):
        """Write ``alpha`` op(x) op(y) + ``beta`` c to ``c``; the leading dimensions are those of the strides."""
        m, n = c.shape
        k = depth if depth is not None else x.shape[1 if layout[0] == "N" else 0]
        numbers = np.array([n, m, k, *(max(a.strides[0] // a.itemsize, 1) for a in (y, x, c))], np.int64)
        factors = np.array([alpha, beta], self.dtype)
        places = [numbers.ctypes.data + 8 * place for place in range(6)]
        letters = [ctypes.c_char_p(letter.encode()) for letter in (layout[1], layout[0])]
        self._call(*[ctypes.cast(letter, ctypes.c_void_p) for letter in letters], *places[:3], factors.ctypes.data,
                   y.ctypes.data, places[3], x.ctypes.data, places[4], factors.ctypes.data + factors.itemsize,
                   c.ctypes.data, places[5], 1, 1)


def compiled(device, dtype, **changes):
    """The routine, which never calls the library."""
    text = routine_text(shape_of(dtype, blas.host_features()), small=-1)
    for old, new in changes.items():
        assert f"declare ptr @{old}(i64)\n" in text
        text = text.replace(f"declare ptr @{old}(i64)\n", new)
    (address, _), library = device.compiler.compile_text("gemm", text, [NAME, LIBRARY], vectors=True)
    routine = Routine(dtype, address)
    routine.library = library
    return routine


@pytest.fixture(scope="module", params=BOUND)
def routine(device, request):
    return compiled(device, request.param)


def operands(rng, layout, sizes, dtype, wider=0):
    """Row-major matrices as the letters say, parts of ones whose rows are longer by ``wider``."""
    m, k, n = sizes
    made = []
    for shape, turned in (((m, k), layout[0] == "T"), ((k, n), layout[1] == "T"), ((m, n), False)):
        rows, columns = shape[::-1] if turned else shape
        made.append(rng.standard_normal((rows, columns + wider)).astype(dtype)[:, :columns])
    return made


def check(result, layout, x, y, c, alpha=1.0, beta=0.0):
    left, right = (a.T if letter == "T" else a for a, letter in zip((x, y), layout, strict=True))
    exact = alpha * (left.astype(np.float64) @ right) + (beta * c.astype(np.float64) if beta else 0)
    scale = np.abs(alpha) * (np.abs(left).astype(np.float64) @ np.abs(right)) + (np.abs(beta * c) if beta else 0)
    assert (np.abs(result - exact) <= BOUND[result.dtype.name] * (8 + left.shape[1]) * scale + 1e-300).all()


def run(routine, rng, layout, sizes, alpha=1.0, beta=0.0, wider=0):
    x, y, c = operands(rng, layout, sizes, routine.dtype, wider)
    if not beta:
        c[...] = np.nan
    result = c.copy() if not wider else c
    before = c.copy()
    routine(layout, x, y, result, alpha, beta)
    check(result, layout, x, y, before, alpha, beta)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_all_small_sizes(routine, rng, layout, axis):
    for size in range(1, 71):
        sizes = [19, 21, 37]
        sizes[axis] = size
        run(routine, rng, layout, sizes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_edges_of_tiles_together(routine, rng, layout):
    for m, n in itertools.product(EDGES, EDGES):
        run(routine, rng, layout, (m, int(rng.integers(1, 40)), n), beta=float(rng.integers(0, 2)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [
    (100, 300, 70), (97, 1030, 40), (40, 513, 550), (130, 260, 515), (256, 64, 1024), (7, 2000, 9), (150, 1100, 300),
    (50, 600, 384), (47, 600, 256)])
def test_blocks_and_packed_operands(routine, rng, layout, sizes):
    for alpha, beta in ((1, 0), (1, 1), (-0.5, 3)):
        run(routine, rng, layout, sizes, alpha, beta)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_are_whole_pages_apart(routine, rng, layout):
    x, y, c = operands(rng, layout, (100, 40, 50), routine.dtype)
    for a in (x, y):
        wide = np.zeros((a.shape[0], 1024), routine.dtype)
        wide[:, :a.shape[1]] = a
        x, y = (wide[:, :a.shape[1]] if b is a else b for b in (x, y))
    routine(layout, x, y, c)
    check(c, layout, x, y, c)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (2.5, 0), (-1, 0.5), (0, 2), (0, 0), (1, -1)])
def test_factors_and_parts_of_matrices(routine, rng, layout, alpha, beta):
    for sizes in ((33, 20, 45), (8, 9, 32), (64, 33, 64), (3, 5, 7)):
        run(routine, rng, layout, sizes, alpha, beta)
        run(routine, rng, layout, sizes, alpha, beta, wider=13)


def test_no_element_beside_the_result_changes(routine, rng):
    for m, n in itertools.product((1, 8, 13, 32), (1, 8, 16, 20, 31, 32, 40)):
        for beta in (0.0, 1.0, 2.0):
            whole = rng.standard_normal((m + 2, n + 3)).astype(routine.dtype)
            before = whole.copy()
            x, y, _ = operands(rng, "NN", (m, 6, n), routine.dtype)
            routine("NN", x, y, whole[1:-1, 1:-2], 1.0, beta)
            check(whole[1:-1, 1:-2], "NN", x, y, before[1:-1, 1:-2], 1.0, beta)
            whole[1:-1, 1:-2] = before[1:-1, 1:-2]
            np.testing.assert_array_equal(whole, before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_terms_the_result_is_scaled(routine, rng, layout):
    c = rng.standard_normal((9, 40)).astype(routine.dtype)
    for beta in (0.0, 1.0, 0.5):
        result = np.full_like(c, np.nan) if not beta else c.copy()
        empty = np.empty((40, 40), routine.dtype)
        routine(layout, empty, empty, result, 1.0, beta, depth=0)
        np.testing.assert_array_equal(result, c * c.dtype.type(beta))


def test_without_rows_or_columns_nothing_is_touched(routine):
    ones = np.ones((5, 5), routine.dtype)
    for m, n in ((0, 5), (5, 0), (0, 0)):
        result = np.full((5, 5), 7, routine.dtype)
        routine("NN", ones, ones, result[:m, :n], 1.0, 0.0)
        assert (result == 7).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_not_finite_stays_in_its_row_and_column(routine, layout):
    left, right = np.ones((40, 30), routine.dtype), np.ones((30, 50), routine.dtype)
    left[3, 4], right[5, 6], right[7, 49] = np.nan, np.inf, -np.inf
    x, y = (np.ascontiguousarray(a.T if letter == "T" else a) for a, letter in zip((left, right), layout, strict=True))
    c = np.full((40, 50), np.nan, routine.dtype)
    routine(layout, x, y, c)
    assert np.isnan(c[3]).all()
    rest = np.delete(c, 3, 0)
    assert (rest[:, 6] == np.inf).all()
    assert (rest[:, 49] == -np.inf).all()
    assert (np.delete(rest, [6, 49], 1) == 30).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_factor_of_zero_reads_no_operand(routine, layout):
    nan, c = np.full((40, 40), np.nan, routine.dtype), np.ones((40, 40), routine.dtype)
    routine(layout, nan, nan, c, 0.0, 3.0)
    assert (c == 3).all()


class Guarded:
    """Pages between two that nothing may touch."""

    def __init__(self, size):
        page = mmap.PAGESIZE
        self.size = -(-size // page) * page
        self.memory = mmap.mmap(-1, self.size + 2 * page)
        self.begin = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + page
        libc = ctypes.CDLL(None, use_errno=True)
        for place in (self.begin - page, self.begin + self.size):
            if libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(page), 0):
                pytest.skip("memory cannot be protected")

    def array(self, a, at_end):
        """A contiguous copy at the first or the last place."""
        offset = mmap.PAGESIZE + (self.size - a.nbytes if at_end else 0)
        made = np.frombuffer(self.memory, a.dtype, a.size, offset).reshape(a.shape)
        made[...] = a
        return made


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_beside_the_matrices_is_read_or_written(routine, rng, layout, at_end):
    regions = [Guarded(110 * 600 * 8) for _ in range(3)]
    cases = [*itertools.product((1, 5, 8, 35), (1, 3, 16, 33), (1, 8, 16, 20, 31, 32, 33, 64)), (100, 40, 600),
             (20, 600, 50), (110, 50, 50)]
    for sizes in cases:
        x, y, c = (region.array(a, at_end) for region, a in zip(
            regions, operands(rng, layout, sizes, routine.dtype), strict=True))
        before = c.copy()
        routine(layout, x, y, c, 1.0, 1.0)
        check(c, layout, x, y, before, 1.0, 1.0)
        routine(layout, x, y, c)
        check(c, layout, x, y, before)


@pytest.mark.parametrize("dtype", BOUND)
def test_without_memory_the_stack_holds_fewer_panels(device, rng, dtype):
    routine = compiled(device, dtype, malloc="define internal ptr @malloc(i64 %size) {\n  ret ptr null\n}\n")
    for layout in LAYOUTS:
        run(routine, rng, layout, (100, 600, 300))


def test_threads_at_once(routine, rng):
    x, y, c = operands(rng, "NT", (120, 700, 300), routine.dtype)
    routine("NT", x, y, c)
    check(c, "NT", x, y, c)
    results = [np.empty_like(c) for _ in range(6)]

    def work(result):
        for _ in range(10):
            result[...] = np.nan
            routine("NT", x, y, result)

    threads = [threading.Thread(target=work, args=(result,)) for result in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, c)


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize(("layout", "sizes", "own"), [
    ("NN", (100, 100, 100), False), ("NN", (101, 100, 100), True), ("TN", (64, 64, 64), False),
    ("TT", (64, 64, 64), False), ("NT", (64, 64, 64), True), ("NT", (11, 64, 64), False), ("NT", (64, 64, 31), False),
    ("NT", (65, 64, 31), True), ("NT", (128, 128, 7), False), ("NT", (4, 512, 512), True)])
def test_which_products_go_to_the_library(device, rng, dtype, layout, sizes, own):
    calls = []
    library = _ROUTINE(lambda *args: calls.append(args))
    text = routine_text(shape_of(dtype, blas.host_features()))
    (address, place), code = device.compiler.compile_text("gemm", text, [NAME, LIBRARY], vectors=True)
    ctypes.c_void_p.from_address(place).value = ctypes.cast(library, ctypes.c_void_p).value
    x, y, c = operands(rng, layout, sizes, dtype)
    Routine(dtype, address)(layout, x, y, c)
    assert len(calls) == (not own)
    if own:
        check(c, layout, x, y, c)
    else:
        assert calls[0][6] == y.ctypes.data
        assert calls[0][8] == x.ctypes.data
        assert calls[0][11] == c.ctypes.data
    assert code is not None


@pytest.mark.parametrize(("dtype", "features", "own"), [
    ("float32", True, True), ("float64", True, True), ("complex64", True, False), ("float32", False, False)])
def test_which_processors_have_the_routine(device, monkeypatch, dtype, features, own):
    library = blas.best_library()
    if library is None:
        pytest.skip("no BLAS that is known")
    if not features:
        monkeypatch.setattr("tensocket_cpu.float_gemm.addresses.host_features", dict)
    monkeypatch.delenv(blas.CORE_SETTING, raising=False)
    letter = {"float32": "s", "float64": "d", "complex64": "c"}[dtype]
    foreign = library.address(f"{letter}gemm")
    found = gemm_address(device.compiler, library, dtype)
    assert (found != foreign) == own
    assert gemm_address(device.compiler, library, dtype) == found
    monkeypatch.setenv(blas.CORE_SETTING, "Haswell")
    assert gemm_address(device.compiler, library, dtype) == foreign


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shapes", [((300, 200), (200, 150)), ((4, 60, 150), (4, 150, 90)), ((150, 200), (200, 700))])
def test_products_divide_it_over_threads(device, rng, threads, shapes):
    library = blas.best_library()
    if library is None:
        pytest.skip("no BLAS that is known")
    products = Products(library, device.compiler, device.pool, np.empty)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    turned = np.swapaxes(np.swapaxes(y, -1, -2).copy(), -1, -2)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    before = device.get_num_threads()
    device.set_num_threads(threads)
    try:
        results = [products(x, y), products(x, turned)]
    finally:
        device.set_num_threads(before)
    for result in results:
        np.testing.assert_allclose(result, exact, rtol=0, atol=1e-3)
