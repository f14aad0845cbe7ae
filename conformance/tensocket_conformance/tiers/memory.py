"""Tier T1: memory, copies, views, accounting. All later tiers rely on these copies."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

import tensocket as ts

from ..case import Case, Excluded
from ..numerics import FORMATS, Failure, Format, HostArray, to_format
from ..ops.layouts import value_grid
from ..subject import LAYOUTS, Subject, dtype_of, host_array, host_tensor
from .child import run_on_device

#: Sizes in elements around the sizes to which allocators round.
_SIZES: Final = (0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 4095, 4096, 4097, 1 << 20)
_HUGE: Final = 1 << 46


def _bits(array: HostArray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _expect(got: HostArray, expected: HostArray, what: str) -> None:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise Failure(f"{what}: {got.dtype} {list(got.shape)}, expected {expected.dtype} {list(expected.shape)}")
    width = np.dtype(f"V{expected.dtype.itemsize}")
    differing = np.flatnonzero(np.frombuffer(_bits(got), width) != np.frombuffer(_bits(expected), width))
    if differing.size:
        first = int(differing[0])
        size = expected.dtype.itemsize
        bits = [_bits(array)[first * size : (first + 1) * size][::-1].hex() for array in (got, expected)]
        raise Failure(f"{what}: {differing.size} of {expected.size} elements differ; number {first} has the bits "
                      f"{bits[0]}, expected {bits[1]}")


def _random(form: Format, rng: np.random.Generator, shape: tuple[int, ...]) -> HostArray:
    if form.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if form.kind == "int":
        info = np.iinfo(form.numpy)
        return rng.integers(info.min, info.max, shape, dtype=form.numpy, endpoint=True)
    if form.kind == "complex":
        return to_format(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), form)
    return to_format(rng.standard_normal(shape), form)


_Check = Callable[[Subject, Format, np.random.Generator], None]


def _roundtrip(subject: Subject, form: Format, rng: np.random.Generator) -> None:
    for shape in ((), (1,), (7, 13), (0, 3), (257, 129)):
        array = _random(form, rng, shape)
        _expect(subject.get(subject.put(array, form.short)), array, f"host to device and back, shape {list(shape)}")


def _special(subject: Subject, form: Format, rng: np.random.Generator) -> None:
    """Check copies of bit patterns that arithmetic would change: -0.0, subnormals, NaN with a payload, extremes."""
    array = value_grid(form)
    if form.short == "bf16":
        array = array[~np.isnan(array)]  # widened on the way back, which may change a NaN's bits
    if form.short in ("f16", "f32", "f64"):
        bits = np.dtype(f"uint{form.numpy.itemsize * 8}")
        quiet = np.array([np.nan], form.numpy).view(bits) | bits.type(0x155)
        array = np.concatenate([array, quiet.view(form.numpy)])
    copy = subject.put(array, form.short).clone()
    _expect(subject.get(copy), array, "special values through a copy on the device")


def _layouts(subject: Subject, form: Format, rng: np.random.Generator) -> None:
    """Check that copies of strided tensors to the host and to the device have the right values."""
    array = _random(form, rng, (11, 6))
    for layout in LAYOUTS:
        values = np.ascontiguousarray(np.broadcast_to(array[:1], array.shape)) if layout == "expanded" else array
        tensor = subject.place(values, form.short, layout)
        _expect(subject.get(tensor), values, f"{layout} tensor to the host")
        _expect(subject.get(tensor.clone()), values, f"clone of a {layout} tensor")
        host = host_tensor(np.ascontiguousarray(values.T), form.short).t()
        _expect(subject.get(host.to(subject.device)), values, "transposed host tensor to the device")


def _partial(subject: Subject, form: Format, rng: np.random.Generator) -> None:
    """Check that a copy into a part does not change the rest, on any side."""
    around, inner = _random(form, rng, (9, 8)), _random(form, rng, (4, 3))
    for source in ("host", subject.device):
        target = subject.put(around, form.short)
        tensor = host_tensor(inner, form.short)
        target[2:6, 1:7:2].copy_(tensor if source == "host" else tensor.to(source))
        expected = around.copy()
        expected[2:6, 1:7:2] = inner
        _expect(subject.get(target), expected, f"copy from {source} into a strided part")


def _sizes(subject: Subject) -> None:
    """Check that adjacent allocations don't overlap: every block still holds its own number at the end."""
    blocks = [ts.full((size,), number + 1, dtype=ts.int64, device=subject.device)
              for number, size in enumerate(_SIZES)]
    for number, (size, block) in enumerate(zip(_SIZES, blocks, strict=True)):
        values = subject.get(block)
        if values.shape != (size,) or np.any(values != number + 1):
            raise Failure(f"a block of {size} elements lost its values to another one")


def _share(subject: Subject) -> None:
    base = ts.zeros(4, 6, device=subject.device)
    part = base[1:3].t()[2]
    part.fill_(7.0)
    expected = np.zeros((4, 6), np.float32)
    expected[1:3, 2] = 7.0
    _expect(subject.get(base), expected, "writing through a view")
    base.mul_(2.0)
    if subject.get(part).tolist() != [14.0, 14.0]:
        raise Failure("a view does not see what was written to its base")


def _pointers(subject: Subject) -> None:
    base = ts.zeros(5, 3, device=subject.device)
    distance = base[2].data_ptr() - base.data_ptr()
    if distance != 2 * 3 * 4:
        raise Failure(f"data_ptr of row 2 is {distance} bytes after the base's, expected 24")
    if ts.zeros(5, 3, device=subject.device).data_ptr() == base.data_ptr():
        raise Failure("two tensors have one data_ptr")


def _settled(subject: Subject) -> int:
    gc.collect()
    ts.synchronize(subject.device)
    return int(ts.memory_stats(subject.device)["allocated"])


def _leaks(subject: Subject) -> None:
    x = ts.ones(1000, device=subject.device)
    _ = x + x
    before = _settled(subject)
    for size in range(1000):
        y = ts.empty(size, device=subject.device)
        if size % 100 == 0:
            y = x + x
        del y
    after = _settled(subject)
    if after != before:
        raise Failure(f"{after - before} bytes are still allocated after 1000 tensors are gone")


def _counted(subject: Subject) -> None:
    before = _settled(subject)
    x = ts.empty(1 << 18, device=subject.device)
    grown = _settled(subject) - before
    if grown < 1 << 20:
        raise Failure(f"a tensor of 1 MiB made memory_stats grow by {grown} bytes")
    view = x[10:]
    del x
    if _settled(subject) - before < 1 << 20:
        raise Failure("a block was freed while a view of it lives")
    del view
    if _settled(subject) != before:
        raise Failure("a block was not freed with its last view")


def _trim(subject: Subject) -> None:
    x = ts.empty(1 << 20, device=subject.device)
    del x
    ts.empty_cache(subject.device)
    stats = ts.memory_stats(subject.device)
    if stats["reserved"] < stats["allocated"]:
        raise Failure(f"{stats['reserved']} bytes are reserved, but {stats['allocated']} allocated")
    _works(subject)


def _works(subject: Subject) -> None:
    x = ts.full((5,), 2.0, device=subject.device)
    if subject.get(x + x).tolist() != [4.0] * 5:
        raise Failure("afterwards an addition is wrong")


def _exhausted(subject: Subject) -> None:
    try:
        ts.empty(_HUGE, dtype=ts.uint8 if "u8" in subject.dtypes else ts.bool, device=subject.device)
    except ts.errors.OutOfMemoryError as error:
        if subject.name not in str(error):
            raise Failure(f"the error does not name the device: {error}") from None
    else:
        raise Failure(f"allocating {_HUGE} bytes raised nothing")
    _works(subject)


def _filled(subject: Subject) -> None:
    """Check that a small device works as before after real blocks have filled its memory."""
    total = ts.get_device_info(subject.device).memory
    if not 0 < total <= 1 << 30:
        raise Excluded("the device has too much memory to fill")
    before = _settled(subject)
    blocks: list[Any] = []
    try:
        for _ in range(20):
            blocks.append(ts.ones(total // 8 // 4, device=subject.device))
    except ts.errors.OutOfMemoryError:
        pass
    else:
        raise Failure(f"a device of {total} bytes gave {20 * (total // 8)} bytes")
    finally:
        blocks.clear()
    _works(subject)
    if _settled(subject) != before:
        raise Failure("memory that was full is not free again")


def _synchronous(subject: Subject) -> None:
    """Check that results are right without synchronize, and that the host's array may change after a copy."""
    x = ts.ones(1 << 18, device=subject.device)
    for _ in range(10):
        x = x + x
    if float(subject.get(x)[-1]) != 1024.0:
        raise Failure("a copy to the host did not wait for the work before it")
    if subject.name == "cpu":
        return  # from_numpy shares memory with the array, and there is nothing to copy
    source = np.ones(1 << 18, np.float32)
    tensor = ts.from_numpy(source).to(subject.device)
    source[:] = 5.0
    if np.any(subject.get(tensor) != 1.0):
        raise Failure("a copy from the host was not finished when it returned")


def _devices(subject: Subject) -> None:
    count = ts.device_count(subject.name)
    if count < 1:
        raise Failure(f"device_count is {count} for an available backend")
    info = ts.get_device_info(subject.device)
    if not info.model or info.memory <= 0:
        raise Failure(f"the device says too little of itself: {info}")


def _across(subject: Subject) -> None:
    array = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    there = subject.put(array, "f32")
    if not np.array_equal(host_array(there.t().to("cpu")), array.T):
        raise Failure("a transposed tensor arrives wrong on the CPU")
    if str(there.to("cpu").device).partition(":")[0] != "cpu":
        raise Failure("to('cpu') stayed on the device")
    if not np.array_equal(subject.get(ts.from_numpy(array).to(subject.device).t().contiguous()), array.T):
        raise Failure("a tensor from the CPU, transposed, is wrong")
    if there.to(there.device) is not there:
        raise Failure("to() of the device it is on made a copy")


def _queues(subject: Subject) -> None:
    stream = ts.Stream(subject.device)
    event = ts.Event(device=subject.device)
    ts.synchronize(subject.device)
    stream.synchronize()
    if not stream.query():
        raise Failure("a stream is busy after its synchronize")
    if not event.query():
        raise Failure("an event that was never recorded is pending")
    stream.record_event(event)
    event.synchronize()
    if not event.query():
        raise Failure("an event is pending after its synchronize")


def _exit(subject: Subject) -> None:
    code = ("import sys, tensocket\nx = tensocket.ones(1000, device=sys.argv[1])\ny = x + x\nz = y[3:]\n"
            "keep = [x * float(i) for i in range(20)]\nprint('done')")
    if run_on_device(code, subject).strip() != "done":
        raise Failure("a process that ends with live tensors did not finish its work")


def cases(declared: tuple[str, ...]) -> Iterator[Case]:
    """Yield the cases of tier T1 for a device that declares the element types ``declared``."""
    per_dtype: tuple[tuple[str, _Check], ...] = (
        ("roundtrip", _roundtrip), ("special", _special), ("layouts", _layouts), ("partial", _partial))
    for short, form in FORMATS.items():
        if short not in declared:
            yield _undeclared(short)
            continue
        for name, check in per_dtype:
            yield _dtype_case(name, check, form)
    yield from _plain_cases(declared)


def _dtype_case(name: str, check: _Check, form: Format) -> Case:
    case_id = f"T1.memory.{name}/{form.short}/values"
    requires = "T0.load.open" if name == "roundtrip" else f"T1.memory.roundtrip/{form.short}/values"
    return Case(case_id, lambda subject: check(subject, form, subject.rng(case_id)), (requires,), form.short,
                quick=name != "layouts" or form.short == "f32")


def _undeclared(short: str) -> Case:
    def check(subject: Subject) -> None:
        ts.zeros(3, dtype=dtype_of(short), device=subject.device)

    return Case(f"T1.memory.roundtrip/{short}/undeclared", check, ("T0.load.open",), short, refusal=True, quick=True)


def _plain_cases(declared: tuple[str, ...]) -> Iterator[Case]:
    rows: tuple[tuple[str, Callable[[Subject], None]], ...] = (
        ("memory.sizes", _sizes), ("memory.share", _share), ("memory.pointers", _pointers), ("memory.leaks", _leaks),
        ("memory.counted", _counted), ("memory.trim", _trim), ("memory.exhausted", _exhausted),
        ("memory.filled", _filled), ("memory.synchronous", _synchronous), ("device.info", _devices),
        ("device.across", _across), ("device.queues", _queues), ("device.exit", _exit))
    for name, check in rows:
        if name != "memory.sizes" or "i64" in declared:
            yield Case(f"T1.{name}", check, ("T1.memory.roundtrip/f32/values",), quick=True)
