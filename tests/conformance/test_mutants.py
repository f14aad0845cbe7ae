"""Devices with one planted defect each: the suite must find every one, and nothing in the clean device."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tensocket_toy.backend import ToyDevice

from tensocket_conformance.case import Outcome
from tensocket_plugins.contract import OutOfMemoryError, is_contiguous
from tensocket_plugins.kit.host_primitives import compute


def kernel(name, change):
    """``name`` with its inputs, scalars or output changed by ``change(out, ins, scalars)`` before it is computed."""
    def run(out, ins, scalars):
        ins, scalars = change(out, ins, scalars)
        compute(name, out, ins, scalars)

    return {name: run}


def after(name, change):
    """``name``, and then ``change(out, ins, scalars)``."""
    def run(out, ins, scalars):
        compute(name, out, ins, scalars)
        change(out, ins, scalars)

    return {name: run}


def short_tail(out, ins, scalars):
    flat = out.reshape(-1)
    flat[flat.size - flat.size % 4:] = 0


def serial_sum(out, ins, scalars):
    x, dims = ins[0], scalars[0]
    kept = [axis for axis in range(x.ndim) if axis not in dims]
    flat = x.transpose([*kept, *dims]).reshape(*(x.shape[axis] for axis in kept), -1)
    out[...] = np.cumsum(flat, axis=-1, dtype=out.dtype)[..., -1] if flat.shape[-1] else 0


def last_of_equals(out, ins, scalars):
    x, (dim,) = np.flip(ins[0], scalars[0]), scalars[0]
    out[...] = x.shape[dim] - 1 - np.argmax(x, dim)


def lost_duplicates(out, ins, scalars):
    out[...] = ins[0]
    grid = list(np.ogrid[tuple(slice(size) for size in ins[1].shape)])
    grid[scalars[0]] = ins[1]
    out[tuple(grid)] += ins[2]


def first_batch(out, ins, scalars):
    out[...] = np.matmul(ins[0], ins[1][(slice(0, 1),) * (ins[1].ndim - 2)])


def half_precision(name):
    def run(out, ins, scalars):
        compute(name, out, ins, scalars)
        if out.dtype.kind == "f":
            out[...] = out.astype(np.float16)

    return {name: run}


KERNELS = {
    "tail": (after("add", short_tail), "T2.op.add/f32/*"),
    "tail of fill": (after("fill", short_tail), "T2.op.full/*"),
    "operands swapped": (kernel("sub", lambda out, ins, scalars: (ins[::-1], scalars)), "T2.op.sub/f32/*"),
    "first row broadcast": (kernel("mul", lambda out, ins, scalars: (
        [ins[0], np.broadcast_to(ins[1].reshape(-1)[:1], out.shape)], scalars)), "T2.op.mul/f32/*"),
    "wrong axis": (kernel("sum", lambda out, ins, scalars: (
        [ins[0].T if len(scalars[0]) == 1 and ins[0].shape == ins[0].T.shape else ins[0][::-1]],
        scalars)), "T2.op.sum/f32/*"),
    "one element short": (kernel("sum", lambda out, ins, scalars: (
        [ins[0][tuple(slice(0, -1) if axis in scalars[0] else slice(None) for axis in range(ins[0].ndim))]],
        scalars)), "T2.op.sum/f32/*"),
    "serial sum": ({"sum": serial_sum}, "T2.op.sum/f32/large*"),
    "half precision exp": (half_precision("exp"), "T2.op.exp/f32/*"),
    "half precision matmul": (half_precision("matmul"), "T2.op.mm/f32/*"),
    "half precision sum": (half_precision("sum"), "T2.op.sum/f32/*"),
    "NaN dropped": ({"maximum": lambda out, ins, scalars: np.copyto(out, np.fmax(*ins))}, "T2.op.maximum/f32/*"),
    "NaN dropped by amax": ({"amax": lambda out, ins, scalars: np.copyto(out, np.nanmax(
        np.where(np.isnan(ins[0]), -np.inf, ins[0]) if ins[0].dtype.kind == "f" else ins[0], axis=scalars[0]))},
        "T2.op.amax/f32/*"),
    "NaN equals NaN": (after("eq", lambda out, ins, scalars: np.logical_or(out, (ins[0] != ins[0]) & (
        ins[1] != ins[1]), out=out)), "T2.op.eq/f32/*"),
    "where multiplies": ({"where": lambda out, ins, scalars: np.copyto(
        out, ins[0] * ins[1] + (1 - ins[0]) * ins[2], casting="unsafe")}, "T2.op.where/f32/*"),
    "last of equals": ({"argmax": last_of_equals}, "T2.op.argmax/f32/ties*"),
    "duplicates lost": ({"scatter_add": lost_duplicates}, "T2.op.scatter_add/f32/*"),
    "first batch only": ({"matmul": first_batch}, "T2.op.bmm/f32/*"),
    "index off by one": (kernel("gather", lambda out, ins, scalars: (
        [ins[0], np.maximum(ins[1] - 1, 0)], scalars)), "T2.op.gather/f32/*"),
    "floor instead of truncation": ({"idiv": lambda out, ins, scalars: np.copyto(out, np.floor_divide(*ins))},
                                    "T2.op.floor_divide/i64/*"),
    "integers through floats": ({"add": lambda out, ins, scalars: np.copyto(
        out, ins[0].astype(np.float64) + ins[1], casting="unsafe")}, "T2.op.add/i64/grid*"),
    "rounding casts": (kernel("copy", lambda out, ins, scalars: (
        [np.rint(ins[0]) if ins[0].dtype.kind == "f" and out.dtype.kind in "iu" else ins[0]], scalars)),
        "T2.op.to_i64/f32/*"),
    "minus zero lost": (kernel("copy", lambda out, ins, scalars: (
        [ins[0] + 0 if ins[0].dtype.kind == "f" else ins[0]], scalars)), "T1.memory.special/f32/*"),
    "subnormals flushed": (after("mul", lambda out, ins, scalars: np.copyto(
        out, np.where(np.abs(out) < 1.2e-38, 0, out)) if out.dtype == np.float32 else None), "T2.op.mul/f32/grid*"),
    "input overwritten": (after("neg", lambda out, ins, scalars: np.copyto(ins[0], out)), "T2.op.neg/f32/*"),
    "seed ignored": (kernel("philox_bits", lambda out, ins, scalars: (ins, (1, scalars[1]))), "T2.op.rand/f32/*"),
    "offset ignored": (kernel("philox_bits", lambda out, ins, scalars: (ins, (scalars[0], 0))), "T2.op.rand/f32/*"),
    "words repeated": (after("philox_bits", lambda out, ins, scalars: np.copyto(
        out.reshape(-1)[1::2], out.reshape(-1)[: out.size // 2 * 2 : 2])), "T2.op.rand/f32/*"),
    "copy overwrites gaps": ({"copy": lambda out, ins, scalars: np.copyto(
        np.lib.stride_tricks.as_strided(out, (2, *out.shape), (out.itemsize, *out.strides)) if out.ndim and
        not out.flags.c_contiguous else out, ins[0], casting="unsafe")}, "T1.memory.partial/f32/*"),
}


class IgnoresStrides(ToyDevice):
    def view(self, array):
        # The elements from the offset on, as if they were contiguous; where that would leave the block, correct.
        end = (array.offset + array.size) * array.dtype.itemsize
        if is_contiguous(array.shape, array.strides) or end > array.storage.buffer.data.size:
            return super().view(array)
        return super().view(array.as_strided(array.shape, np.empty(array.shape, np.int8).strides, array.offset))


class IgnoresOffset(ToyDevice):
    def view(self, array):
        return super().view(array.as_strided(array.shape, array.strides, 0))


class LeavesHostEarly(ToyDevice):
    """Copies to the host without waiting for them."""

    def copy(self, dst, src, stream):
        if isinstance(dst, np.ndarray):
            source = self.view(src)
            dst[...] = source.reshape(dst.shape)
            return
        super().copy(dst, src, stream)

    def launch(self, name, outs, ins, scalars, stream):
        stream.submit(lambda: time.sleep(0.002))
        super().launch(name, outs, ins, scalars, stream)


class ReadsHostLate(ToyDevice):
    """Reads the host's memory after the copy has returned."""

    def copy(self, dst, src, stream):
        if isinstance(src, np.ndarray):
            target = self.view(dst)
            stream.submit(lambda: (time.sleep(0.05), np.copyto(target, src.reshape(target.shape))))
            return
        super().copy(dst, src, stream)


class SwallowsExhaustion(ToyDevice):
    """Hands out a small block where there is no memory for the right one."""

    def __init__(self, index):
        super().__init__(index)
        allocate = self.allocator.allocate

        def lenient(nbytes, stream):
            try:
                return allocate(nbytes, stream)
            except OutOfMemoryError:
                return allocate(64, stream)

        self.allocator.allocate = lenient


class UntypedExhaustion(ToyDevice):
    """Lets Python's own error through."""

    def __init__(self, index):
        super().__init__(index)
        allocate = self.allocator.allocate

        def untyped(nbytes, stream):
            try:
                return allocate(nbytes, stream)
            except OutOfMemoryError:
                raise MemoryError("no memory") from None

        self.allocator.allocate = untyped


class Leaks(ToyDevice):
    """Forgets one of a hundred blocks."""

    def __init__(self, index):
        super().__init__(index)
        free, count = self.allocator.free, iter(range(1 << 60))
        self.allocator.free = lambda block: None if next(count) % 100 == 99 else free(block)


class OnePointer(ToyDevice):
    def data_ptr(self, array):
        return 4096


DEVICES = {
    "ignores strides": (IgnoresStrides, "T1.memory.layouts/f32/*"),
    "ignores offset": (IgnoresOffset, "T1.memory.layouts/f32/*"),
    "leaves the host early": (LeavesHostEarly, "T1.memory.synchronous"),
    "reads the host late": (ReadsHostLate, "T1.memory.synchronous"),
    "swallows exhaustion": (SwallowsExhaustion, "T1.memory.exhausted"),
    "untyped exhaustion": (UntypedExhaustion, "T1.memory.exhausted"),
    "leaks": (Leaks, "T1.memory.leaks"),
    "one pointer": (OnePointer, "T1.memory.pointers"),
}


def failures(results):
    return [case_id for case_id, result in results.items() if result.outcome is Outcome.FAIL]


@pytest.mark.parametrize("defect", KERNELS)
def test_defective_kernel_is_found(defect, double, run_cases):
    kernels, pattern = KERNELS[defect]
    assert failures(run_cases(double(kernels=kernels), pattern))


@pytest.mark.parametrize("defect", DEVICES)
def test_defective_device_is_found(defect, double, run_cases):
    device, pattern = DEVICES[defect]
    assert failures(run_cases(double(device=device), pattern))


def test_overclaimed_dtype_is_found(double, run_cases):
    name = double(profile={"dtypes": frozenset({"bool", "int64", "uint32", "float32", "bfloat16"})})
    assert failures(run_cases(name, "T2.op.exp/bf16/*"))


def test_missing_primitive_is_found(double, run_cases):
    results = run_cases(double(kernels={"tanh": None}), "T2.op.tanh/f32/prime#0")
    assert results["T2.op.tanh/f32/prime#0"].outcome is Outcome.FAIL
    assert "the profile declares it, yet UnsupportedOperator: [tanh]" in results["T2.op.tanh/f32/prime#0"].message


def test_silent_fallback_is_found(double, run_cases):
    import tensocket

    class AllowsFallback(ToyDevice):
        """Allows what the suite has forbidden, at the first copy."""

        def copy(self, dst, src, stream):
            super().copy(dst, src, stream)
            if not vars(self).setdefault("allowed", False):
                self.allowed = True
                tensocket.set_fallback("cpu")

    name = double(kernels={"tanh": None}, device=AllowsFallback)
    try:
        result = run_cases(name, "T2.op.tanh/f32/prime#0")["T2.op.tanh/f32/prime#0"]
    finally:
        tensocket.set_fallback(None)
    assert result.outcome is Outcome.FAIL
    assert "the host computed" in result.message


@pytest.mark.parametrize("pattern", ["T0.*", "T1.*", "T2.bad.*", "T2.op.*"])
def test_the_clean_device_passes(pattern, double, run_cases):
    results = run_cases(double(), pattern, quick=True)
    assert {case_id: result.message for case_id, result in results.items() if result.outcome is Outcome.FAIL} == {}
    assert not any(result.outcome in (Outcome.BLOCKED, Outcome.NOT_RUN) for result in results.values())
    assert sum(result.outcome is Outcome.PASS for result in results.values()) > (5 if pattern == "T0.*" else 30)
