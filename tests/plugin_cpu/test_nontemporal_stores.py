"""Results that go past the caches: the same values, and only where lines are written whole."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.code import caches, executable
from tensocket_cpu.code.executable import Streaming
from tensocket_cpu.kernels import memcpy_kernels
from tensocket_plugins.contract.dtypes import bfloat16, bool_, float16, float32, float64, int64
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Buffer,
    Kernel,
    Load,
    LoopKind,
    Program,
    Scalar,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
)
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.schedule.nontemporal_stores import BLOCK, streamed

I, J, N, M = (Var(name, int64) for name in ("i", "j", "n", "m"))
P = LoopKind.PARALLEL


def flat(result=float32, compute=float32, at=I):
    total = Load("in0", I, compute) + Load("in1", I, compute)
    value = call("lt", total, const(0, compute)) if result is bool_ else cast(total, result)
    params = (Buffer("out", result, True), Buffer("in0", compute), Buffer("in1", compute), Scalar("n", int64))
    return Program("sum", params, (Kernel("sum", (loop(I, N, [Store("out", at, value)], P),)),))


def rows():
    value = Load("in0", I * M + J, float32) + Load("in1", J, float32)
    params = (Buffer("out", float32, True), Buffer("in0", float32), Buffer("in1", float32), Scalar("n", int64),
              Scalar("m", int64))
    body = loop(I, N, [loop(J, M, [Store("out", I * M + J, value)], P)], P)
    return Program("rows", params, (Kernel("rows", (body,)),))


def lines(shape, dtype, shift=0):
    """Memory that begins with a line, or ``shift`` bytes later."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.zeros(size + 128, np.uint8)
    begin = -whole.ctypes.data % 64 + shift
    return whole[begin:begin + size].view(dtype).reshape(shape)


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(executable, "streaming_bytes", lambda: 1)
    monkeypatch.setattr(memcpy_kernels, "cache_bytes", lambda: 1)


@pytest.mark.parametrize("result", [float32, float64, float16, bool_])
@pytest.mark.parametrize("size", [1, 31, 32, 500, BLOCK - 1, BLOCK, 3 * BLOCK + 77])
def test_flat_results(device, always, rng, result, size):
    compute = float64 if result is float64 else float32
    x, y = (rng.standard_normal(size).astype(compute.numpy) for _ in range(2))
    out, streaming = lines(size, result.numpy), Streaming(flat(result, compute), device.compile_ir)
    assert streaming.run([out, x, y], [size])
    np.testing.assert_array_equal(out, x + y < 0 if result is bool_ else (x + y).astype(result.numpy))


@pytest.mark.parametrize("threads", [1, 3])
def test_many_results(device, always, rng, threads):
    before = device.get_num_threads()
    device.set_num_threads(threads)
    try:
        x, y = (rng.standard_normal(300_001).astype(np.float32) for _ in range(2))
        out = lines(x.shape, np.float32)
        device.compile_ir(flat())([out, x, y], [out.size], device.default_stream)
        np.testing.assert_array_equal(out, x + y)
    finally:
        device.set_num_threads(before)


@pytest.mark.parametrize(("shape", "streams"), [((40, 64), True), ((7, 336), True), ((40, 63), False),
                                                ((40, 16), False)])
def test_rows(device, always, rng, shape, streams):
    x, y = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[1]).astype(np.float32)
    out = lines(shape, np.float32)
    assert Streaming(rows(), device.compile_ir).run([out, x, y], shape) is streams
    device.compile_ir(rows())([out, x, y], shape, device.default_stream)
    np.testing.assert_array_equal(out, x + y)


def test_what_is_no_line_or_an_operand_is_written_as_usual(device, always, rng):
    x, y = (rng.standard_normal(1000).astype(np.float32) for _ in range(2))
    run, streaming = device.compile_ir(flat()), Streaming(flat(), device.compile_ir)
    for out in (lines(1000, np.float32, 4), lines(1000, np.float32)):
        assert streaming.run([out, x, y], [1000]) is (out.ctypes.data % 64 == 0)
        run([out, x, y], [1000], device.default_stream)
        np.testing.assert_array_equal(out, x + y)
    expected = x + y
    assert not streaming.run([x, x, y], [1000])
    run([x, x, y], [1000], device.default_stream)
    np.testing.assert_array_equal(x, expected)


def test_the_interpreter_agrees(rng):
    for program, scalars, shape in ((flat(), [5000], (5000,)), (rows(), [50, 96], (50, 96))):
        x, y = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[-1]).astype(np.float32)
        made, _ = streamed(program)
        out = np.zeros(shape, np.float32)
        interpret(made, [out.reshape(-1), x.reshape(-1), y], scalars)
        np.testing.assert_array_equal(out, x + y)


def test_only_nests_over_neighbours_are_streamed():
    assert "nontemporal" in print_llvm(streamed(flat())[0])
    assert "nontemporal" not in print_llvm(flat())
    assert streamed(flat(at=I * 2)) is None
    assert streamed(flat(at=I + 1)) is None
    turned = loop(I, N, [loop(J, M, [Store("out", J * N + I, Load("in0", I * M + J, bfloat16))], P)], P)
    params = (Buffer("out", bfloat16, True), Buffer("in0", bfloat16), Scalar("n", int64), Scalar("m", int64))
    assert streamed(Program("turn", params, (Kernel("turn", (turned,)),))) is None


@pytest.mark.parametrize(("width", "shift"), [(160, 0), (160, 4), (150, 0), (16, 0)])
def test_gathered_rows(device, always, rng, width, shift):
    source, index = rng.standard_normal((30, width)).astype(np.float32), rng.integers(0, 30, 500)
    target = lines((500, width), np.float32, shift)
    wide = np.broadcast_to(index[:, None], target.shape)
    device.kernels.find("gather", "float32", direct=False).run([target], [source, wide], (0,), device.default_stream)
    np.testing.assert_array_equal(target, source[index])


@pytest.mark.parametrize(("text", "size"), [("32768K\n", 1 << 25), ("2M", 1 << 21), ("4096", 4096), ("", 1 << 25),
                                            ("unknown", 1 << 25)])
def test_size_of_the_caches(monkeypatch, tmp_path, text, size):
    place = tmp_path / "size"
    place.write_text(text)
    monkeypatch.setattr(caches, "_LARGEST", place)
    caches.cache_bytes.cache_clear()
    try:
        assert caches.cache_bytes() == size
        assert caches.streaming_bytes() == 3 * size // 4
    finally:
        caches.cache_bytes.cache_clear()


def test_no_size_of_the_caches(monkeypatch, tmp_path):
    monkeypatch.setattr(caches, "_LARGEST", tmp_path / "none")
    caches.cache_bytes.cache_clear()
    try:
        assert caches.cache_bytes() == 1 << 25
    finally:
        caches.cache_bytes.cache_clear()


def test_small_operands_count_as_such(device, monkeypatch, rng):
    x, y = rng.standard_normal((40, 64)).astype(np.float32), rng.standard_normal(64).astype(np.float32)
    out = lines(x.shape, np.float32)
    for limit, streams in ((2 * x.nbytes + y.nbytes - 1, True), (2 * x.nbytes + y.nbytes, False)):
        monkeypatch.setattr(executable, "streaming_bytes", lambda limit=limit: limit)
        assert Streaming(rows(), device.compile_ir).run([out, x, y], x.shape) is streams
