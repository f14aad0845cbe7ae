"""cuBLAS on a double: what is passed multiplies right, for every layout, without copies where none are needed."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from tensocket_cuda import library as module
from tensocket_cuda.library import TYPES, Cublas, Operand, copy_program, find_library, merge_batch, operand
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import BY_NAME, float32
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.launch_recorder import record_launches
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.verify import verify

DATA_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: np.uint16}


class Function:
    """A function of a fake library, which takes argtypes."""

    def __init__(self, run):
        self.run = run
        self.argtypes = None

    def __call__(self, *args):
        return self.run(*args)


class FakeCublas:
    """Multiplies column-major matrices in the fake driver's memory, as cuBLAS documents it."""

    def __init__(self, driver):
        self.driver = driver
        self.gemms = []
        self.status = 0
        self.streams = []
        self.modes = []
        self.destroyed = 0
        self.cublasCreate_v2 = Function(self.create)
        self.cublasSetStream_v2 = Function(lambda handle, stream: self.streams.append(stream) or 0)
        self.cublasSetMathMode = Function(lambda handle, mode: self.modes.append(mode) or 0)
        self.cublasDestroy_v2 = Function(self.destroy)
        self.cublasGemmStridedBatchedEx_64 = Function(self.gemm)

    def create(self, pointer):
        pointer._obj.value = 77
        return 0

    def destroy(self, handle):
        self.destroyed += 1
        return 0

    def matrix(self, address, kind, rows, columns, lead, transpose):
        """The matrix after its operation, of ``rows`` by ``columns``."""
        if transpose:
            rows, columns = columns, rows
        assert lead >= max(1, rows), "illegal leading dimension"
        dtype = np.dtype(DATA_TYPES[kind])
        span = ((columns - 1) * lead + rows) * dtype.itemsize
        flat = self.driver.bytes_at(address, span).view(dtype)
        view = np.lib.stride_tricks.as_strided(flat, (rows, columns), (dtype.itemsize, lead * dtype.itemsize))
        return view.T if transpose else view

    def gemm(self, handle, transa, transb, m, n, k, alpha, a, a_kind, lda, a_step, b, b_kind, ldb, b_step, beta, c,
             c_kind, ldc, c_step, count, compute, algorithm):
        assert self.driver.depth > 0
        self.gemms.append((transa, transb, m, n, k, count, compute))
        if self.status:
            return self.status
        number = ctypes.c_double if compute == 70 else ctypes.c_float
        assert (number.from_address(alpha).value, number.from_address(beta).value) == (1, 0)
        width = np.dtype(DATA_TYPES[a_kind]).itemsize
        for i in range(count):
            left = self.matrix(a + i * a_step * width, a_kind, m, k, lda, transa)
            right = self.matrix(b + i * b_step * width, b_kind, k, n, ldb, transb)
            out = self.matrix(c + i * c_step * width, c_kind, m, n, ldc, False)
            out[...] = (left.astype(np.float64) @ right.astype(np.float64)).astype(out.dtype)
        return 0


@pytest.fixture
def library(driver):
    return FakeCublas(driver)


@pytest.fixture
def cublas(device, library):
    opened = Cublas(device, library)
    yield opened
    opened.close()
    assert library.destroyed == 1


@pytest.fixture
def multiply(device, cublas):
    """``multiply(x, y)`` of NumPy arrays, laid out on the device as they are here."""

    def upload(values):
        base = values
        while base.base is not None:
            base = base.base
        whole = device.empty(base.shape, BY_NAME[base.dtype.name], device.default_stream)
        device.copy(whole, base, device.default_stream)
        offset = (values.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // values.itemsize
        strides = tuple(s // values.itemsize for s in values.strides)
        return DeviceArray(whole.storage, whole.dtype, values.shape, strides, offset)

    def run(x, y):
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x, y = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, y))
        left, right = upload(x), upload(y)
        out = device.empty((*batch, x.shape[-2], y.shape[-1]), left.dtype, device.default_stream)
        cublas.matmul([out], [left, right], (), device.default_stream)
        result = np.empty(out.shape, x.dtype)
        device.copy(result, out, device.default_stream)
        return result

    return run


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


LAYOUTS = {
    "plain": lambda: (numbers(3, 4), numbers(4, 5)),
    "left transposed": lambda: (numbers(4, 3).T, numbers(4, 5)),
    "right transposed": lambda: (numbers(3, 4), numbers(5, 4).T),
    "both transposed": lambda: (numbers(4, 3).T, numbers(5, 4).T),
    "rows of wider matrices": lambda: (numbers(3, 9)[:, 2:6], numbers(7, 8)[1:5, 3:8]),
    "columns of wider matrices": lambda: (numbers(9, 3)[2:6].T, numbers(5, 8)[:, 1:5].T),
    "one row": lambda: (numbers(1, 4), numbers(4, 5)),
    "one column": lambda: (numbers(3, 4), numbers(4, 1)),
    "a column of a matrix": lambda: (numbers(3, 4), numbers(4, 6)[:, 2:3]),
    "inner size one": lambda: (numbers(3, 1), numbers(1, 5)),
    "inner size one, strided": lambda: (numbers(3, 7)[:, 3:4], numbers(6, 5)[2:3]),
    "one element": lambda: (numbers(1, 1), numbers(1, 1)),
    "batch": lambda: (numbers(6, 3, 4), numbers(6, 4, 5)),
    "batch, transposed": lambda: (numbers(6, 4, 3).transpose(0, 2, 1), numbers(6, 5, 4).transpose(0, 2, 1)),
    "batch inside": lambda: (numbers(3, 6, 4).transpose(1, 0, 2), numbers(4, 6, 5).transpose(1, 0, 2)),
    "one matrix for all": lambda: (numbers(6, 3, 4), numbers(4, 5)),
    "two batch dimensions": lambda: (numbers(2, 3, 3, 4), numbers(2, 3, 4, 5)),
    "broadcast against each other": lambda: (numbers(2, 1, 3, 4), numbers(1, 3, 4, 5)),
    "some of a batch": lambda: (numbers(8, 3, 4)[::3], numbers(9, 4, 5)[1::3]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_need_no_copy(multiply, driver, layout):
    x, y = LAYOUTS[layout]()
    np.testing.assert_array_equal(multiply(x, y), x @ y)
    assert driver.named("launch") == []


@pytest.mark.parametrize(("layout", "gemms"), [("plain", 1), ("batch", 1), ("two batch dimensions", 1),
                                               ("one matrix for all", 1), ("broadcast against each other", 2)])
def test_batches_take_few_calls(multiply, library, layout, gemms):
    multiply(*LAYOUTS[layout]())
    assert len(library.gemms) == gemms


@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_types(multiply, library, name):
    x, y = numbers(3, 4, dtype=name), numbers(4, 5, dtype=name)
    np.testing.assert_array_equal(multiply(x, y), x @ y)
    assert library.gemms[0][-1] == {"float64": 70}.get(name, 68)  # CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_32F


def test_bfloat16_is_a_type_of_its_own():
    assert TYPES["bfloat16"] == (14, 68)
    assert TYPES["float32"][1] == 68  # not CUBLAS_COMPUTE_32F_FAST_TF32


def test_sums_of_16_bit_floats_stay_in_float32(cublas, library):
    assert library.modes == [16]  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION


def test_the_stream_is_set_for_every_call(multiply, library, device):
    multiply(*LAYOUTS["plain"]())
    assert library.streams == [device.default_stream.pointer]


def test_no_terms_give_zeros(multiply, library):
    np.testing.assert_array_equal(multiply(numbers(3, 0), numbers(0, 5)), np.zeros((3, 5)))
    assert library.gemms == []


def test_no_results_run_nothing(multiply, library):
    assert multiply(numbers(0, 4), numbers(4, 5)).shape == (0, 5)
    assert library.gemms == []


def test_matrices_contiguous_in_no_direction_are_copied(cublas, device, driver, library):
    whole = device.empty((6, 8), float32, device.default_stream)
    left = whole[::2, ::2]
    right = device.empty((4, 5), float32, device.default_stream)
    out = device.empty((3, 5), float32, device.default_stream)
    cublas.matmul([out], [left, right], (), device.default_stream)
    ((name, grid, group, *_),) = driver.named("launch")
    assert (name, grid, group) == ("tensocket_contiguous", (1,), (256,))
    assert library.gemms[0][:5] == (0, 0, 5, 3, 4)


def test_a_product_is_one_launch_that_repeats_on_other_arrays(cublas, device, library):
    stream = device.default_stream
    made = []
    for seed in (1, 2):
        x, y = np.random.default_rng(seed).integers(-4, 5, (2, 6, 6)).astype(np.float32)
        left, right = (device.empty((6, 6), float32, stream) for _ in range(2))
        device.copy(left, x, stream)
        device.copy(right, y, stream)
        made.append(((device.empty((3, 6), float32, stream), left[2:5], right.transpose((1, 0))), x[2:5] @ y.T))
    (first, _), (second, _) = made
    recorder = record_launches(lambda: cublas.matmul(first[:1], first[1:], (), stream))[1]
    (call,) = recorder.calls
    assert list(map(id, call.arrays)) == list(map(id, first))
    assert recorder.whole
    call.kernel(second, call.arguments, stream)
    for (out, *_), expected in made:
        found = np.empty((3, 6), np.float32)
        device.copy(found, out, stream)
        np.testing.assert_array_equal(found, expected)
    assert len(library.gemms) == 2


def test_a_product_with_copies_is_one_launch(cublas, device, driver):
    stream = device.default_stream
    out, left, right = (device.empty((3, 3), float32, stream), device.empty((6, 6), float32, stream)[::2, ::2],
                        device.empty((3, 3), float32, stream))
    recorder = record_launches(lambda: cublas.matmul([out], [left, right], (), stream))[1]
    assert len(driver.named("launch")) == 1
    assert [call.arrays for call in recorder.calls] == [(out, left, right)]


@pytest.mark.parametrize(("shape", "strides"), [((3, 4), (16, 2)), ((2, 3, 4), (0, 1, 5)), ((5, 1, 2), (7, 3, 3))])
def test_the_copy_kernel(shape, strides):
    program = copy_program(float32, len(shape))
    verify(program)
    flat = np.arange(64, dtype=np.float32)
    out = np.zeros(int(np.prod(shape)), np.float32)
    interpret(program, [out, flat], [out.size, *shape, *strides])
    expected = np.lib.stride_tricks.as_strided(flat, shape, [4 * s for s in strides])
    np.testing.assert_array_equal(out.reshape(shape), expected)


def test_errors_name_function_and_status(multiply, library):
    library.status = 13
    with pytest.raises(KernelError, match=r"\[matmul\] cublasGemmStridedBatchedEx on cuda:0 — "
                                          "cuBLAS returned status 13"):
        multiply(*LAYOUTS["plain"]())


def test_operands():
    assert operand(3, 4, 4, 1) == Operand(False, 4)
    assert operand(3, 4, 1, 3) == Operand(True, 3)
    assert operand(3, 4, 0, 1) is None  # rows on top of each other
    assert operand(1, 4, 99, 2) == Operand(True, 2)  # one row with gaps is a column-major matrix with gaps
    assert operand(4, 1, 2, 99) == Operand(False, 2)


def test_merging_batches():
    assert merge_batch((2, 3), [(3, 1), (30, 10)]) == ([6], [[1], [10]])
    assert merge_batch((2, 3), [(3, 1), (0, 10)]) == ([2, 3], [[3, 1], [0, 10]])
    assert merge_batch((), [(), ()]) == ([], [[], []])


def test_registration(device, library, monkeypatch):
    assert device.library is None
    monkeypatch.setattr(module, "find_library", lambda: library)
    cublas = module.register_cublas(device)
    assert device.kernels.find("matmul", "bfloat16", direct=False).run == cublas.matmul  # which replays may repeat
    assert device.kernels.find("matmul", "int32", direct=False) is None
    cublas.close()


def test_the_search_skips_missing_and_old_libraries(monkeypatch):
    good = SimpleNamespace(cublasGemmStridedBatchedEx_64="the function")
    answers = {"libcublas.so.12": SimpleNamespace(), "libcublas.so": good}  # the first is missing, the second too old

    def load(name):
        if name not in answers:
            raise OSError("not there")
        return answers[name]

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert find_library() is good
    del answers["libcublas.so"]
    assert find_library() is None


def test_the_search_looks_into_wheels_first(monkeypatch, tmp_path):
    wheel = tmp_path / "nvidia" / "cu13" / "lib" / "libcublas.so.13"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    monkeypatch.setattr(module, "find_spec", lambda name: spec)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(name=name, cublasGemmStridedBatchedEx_64=1))
    assert find_library().name == str(wheel)
