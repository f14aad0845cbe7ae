"""DLPack in and out: with NumPy on the host, and between devices of a backend that shares its memory."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators.interop import capsules
from tensocket_operators.interop.dlpack import to_dlpack
from tensocket_plugins.contract.descriptor import Descriptor
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ExchangeError
from tensocket_plugins.contract.exchange import Exchange
from tensocket_plugins.contract.hooks import hookimpl
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.kit import ref

on_host = pytest.mark.skipif(
    "cpu" not in {entry.name for entry in entry_points(group="tensocket.backends")}, reason="no host-resident device"
)
NATIVE = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
          "float64", "complex64", "complex128"]
#: ``DLDataTypeCode`` and bits of ``dlpack.h``.
CODES = {
    "bool": (6, 8), "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64), "int8": (0, 8),
    "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32),
    "float64": (2, 64), "complex64": (5, 64), "complex128": (5, 128), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8),
}
#: ``kDLExtDev``: a device type that no library here knows.
EXTENSION = 12
CALLS: list[Any] = []


class SharedExchange(Exchange):
    """Memory of ``ref`` is host memory; its device type says something else."""

    def __init__(self, device: ref.RefDevice) -> None:
        self.device = (EXTENSION, device.index)

    def address(self, array: Any) -> int:
        return array.storage.buffer.ctypes.data + array.offset * array.dtype.itemsize

    def buffer(self, address: int, nbytes: int) -> Any:
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))

    def export(self, stream: Any, consumer: int | None) -> None:
        CALLS.append(("export", stream, consumer))

    def number(self, stream: Any) -> int | None:
        return 77


@pytest.fixture(scope="module", autouse=True)
def shared_backend() -> Iterator[None]:
    """A backend ``shared`` with two devices whose memory other libraries can use."""
    profile = ref.Profile(dtypes=ref.PROFILE.dtypes, features=ref.PROFILE.features | {"dlpack"})

    class SharedBackend(ref.RefBackend):
        def open(self, index: int) -> Any:
            device = ref.RefDevice(index, self.memory)
            device.name, device.profile, device.exchange = f"shared:{index}", profile, SharedExchange(device)
            return device

    module = ModuleType("shared")
    module.tensocket_describe = hookimpl(lambda: Descriptor("shared", ((1, 0), (2, 0)), profile),
                                         specname="tensocket_describe")
    module.tensocket_backend = hookimpl(lambda: SharedBackend(), specname="tensocket_backend")
    registry().add(module, name="shared", distribution="the tests of DLPack")
    yield
    registry().remove("shared")


class Producer:
    """Another library's array: a capsule of any content, with a record of what it was asked."""

    def __init__(self, capsule: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.capsule = capsule
        self.device = device
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def name_of(capsule: Any) -> str:
    return capsules._name_of(capsule).decode()


# -------------------------------------------------------------------------------------------------------- with NumPy


@on_host
@pytest.mark.parametrize("name", NATIVE)
def test_numpy_and_tensors_share_memory(name: str) -> None:
    tensor = tc.ones(2, 3, dtype=getattr(tc, "bool_" if name == "bool" else name), device="cpu")
    array = np.from_dlpack(tensor)
    assert (array.dtype, array.shape) == (np.dtype(name), (2, 3))
    array[1, 2] = 0
    assert tensor.tolist()[1] == [1, 1, 0]
    back = tc.from_dlpack(array)
    assert back.dtype is tensor.dtype
    back[0, 0] = 0
    assert tensor.tolist()[0] == [0, 1, 1]


@on_host
def test_strides_offsets_and_empty_arrays() -> None:
    tensor = tc.arange(24, device="cpu").reshape(4, 6)[1:, ::2].t()
    array = np.from_dlpack(tensor)
    assert (array.shape, array.strides) == ((3, 3), (16, 48))
    assert array.tolist() == tensor.tolist()
    back = tc.from_dlpack(array)
    assert (back.stride(), back.data_ptr()) == (tensor.stride(), tensor.data_ptr())
    assert tuple(tc.from_dlpack(np.zeros((0, 3))).shape) == (0, 3)
    assert tc.from_dlpack(np.array(2.5)).item() == 2.5
    with pytest.raises(ExchangeError, match=r"strides \[-1\] — strides are not negative"):
        tc.from_dlpack(np.arange(3)[::-1])


@on_host
@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)])
def test_types_and_versions_in_capsules(name: str, version: Any) -> None:
    tensor = tc.zeros(3, dtype=getattr(tc, "bool_" if name == "bool" else name), device="cpu")
    capsule = tensor.__dlpack__(max_version=version)
    versioned = version is not None and version[0] == 1
    assert name_of(capsule) == ("dltensor_versioned" if versioned else "dltensor")
    managed = capsules._managed(capsule)
    assert (managed.tensor.code, managed.tensor.bits) == CODES[name]
    assert (managed.tensor.lanes, managed.tensor.ndim) == (1, 1)
    assert capsules.device_of(capsule) == (1, 0)
    back = tc.from_dlpack(capsule)
    assert back.dtype is tensor.dtype
    assert back.data_ptr() == tensor.data_ptr()
    assert name_of(capsule) == ("used_dltensor_versioned" if versioned else "used_dltensor")


@on_host
def test_read_only_memory_stays_read_only() -> None:
    values = np.arange(3.0)
    values.flags.writeable = False
    tensor = tc.from_dlpack(values)
    with pytest.raises(ArgumentError, match="read-only memory"):
        tensor.add_(1)
    assert not np.from_dlpack(tensor).flags.writeable
    with pytest.raises(ExchangeError, match=r"\[__dlpack__\] a read-only tensor of shape \[3\]"):
        tensor.__dlpack__()
    assert tc.from_dlpack(tensor.__dlpack__(copy=True)).add_(1).tolist() == [1, 2, 3]


@on_host
def test_copies_are_made_as_asked() -> None:
    tensor = tc.arange(3.0, device="cpu")
    for version in (None, (1, 0)):
        capsule = tensor.__dlpack__(copy=True, max_version=version)
        if version is not None:
            assert capsules._managed(capsule).flags == 2
        assert tc.from_dlpack(capsule).data_ptr() != tensor.data_ptr()
    assert tc.from_dlpack(tensor.__dlpack__(copy=False)).data_ptr() == tensor.data_ptr()
    assert tc.from_dlpack(tensor).data_ptr() == tensor.data_ptr()
    assert tc.from_dlpack(tensor, copy=False, device="cpu").data_ptr() == tensor.data_ptr()
    assert tc.from_dlpack(tensor, copy=True).data_ptr() != tensor.data_ptr()
    assert str(tc.from_dlpack(np.arange(3), device="ref").device) == "ref:0"


@on_host
def test_the_host_has_no_streams() -> None:
    tensor = tc.ones(2, device="cpu")
    for stream in (None, -1):
        assert name_of(tensor.__dlpack__(stream=stream)) == "dltensor"
    with pytest.raises(ArgumentError, match=r"stream=1 for a tensor on cpu — the host has no streams"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(ArgumentTypeError, match=r"stream 'a' — a stream is an int or None"):
        tensor.__dlpack__(stream="a")


@on_host
def test_names_of_pytorch() -> None:
    tensor = tc.ones(2, device="cpu")
    assert tensor.__dlpack_device__() == (1, 0)
    assert tc.from_dlpack(to_dlpack(tensor)).data_ptr() == tensor.data_ptr()


# ------------------------------------------------------------------------------------------------------------ errors


@on_host
def test_capsules_are_taken_once() -> None:
    for version in (None, (1, 0)):
        capsule = tc.ones(2, device="cpu").__dlpack__(max_version=version)
        tc.from_dlpack(capsule)
        with pytest.raises(ExchangeError, match=r"a capsule named 'used_dltensor.*' — a DLPack capsule is taken once"):
            tc.from_dlpack(capsule)


@pytest.mark.parametrize("value", [3, object(), None])
def test_other_objects_are_no_capsules(value: Any) -> None:
    with pytest.raises(RuntimeError, match=rf"\[from_dlpack\] a {type(value).__name__} — a DLPack capsule"):
        tc.from_dlpack(value)


def test_what_cannot_be_exported() -> None:
    with pytest.raises(BufferError, match=r"\[__dlpack__\] a tensor that requires grad — "
                       "other libraries record no gradients for it"):
        tc.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match=r"\[__dlpack__\] a meta tensor — there is no memory to share"):
        tc.ones(2, device="meta").__dlpack__()
    with pytest.raises(ValueError, match=r"\[__dlpack_device__\] a tensor on meta — the device shares no memory"):
        tc.ones(2, device="meta").__dlpack_device__()
    with pytest.raises(ValueError, match=r"\[__dlpack__\] a tensor on ref:0 — "
                       "the device shares no memory through DLPack"):
        tc.ones(2).__dlpack__()


@on_host
def test_unknown_devices_types_and_versions() -> None:
    tensor = tc.ones(2, device="cpu")
    with pytest.raises(ExchangeError, match="a device of DLPack type 99, number 0 — "
                       "no installed backend shares memory of this kind"):
        tensor.__dlpack__(dl_device=(99, 0))
    with pytest.raises(ExchangeError, match=r"copy=False for dl_device=\(12, 0\) and a tensor on cpu — "
                       "another device needs a copy"):
        tensor.__dlpack__(dl_device=(EXTENSION, 0), copy=False)
    with pytest.raises(ExchangeError, match="copy=False for device ref:0 and memory on cpu"):
        tc.from_dlpack(tensor, device="ref", copy=False)
    capsule = tensor.__dlpack__()
    capsules._managed(capsule).tensor.lanes = 4
    with pytest.raises(ExchangeError, match="type code 2 with 32 bits and 4 lanes — "
                       "elements are of tensocket's dtypes"):
        tc.from_dlpack(capsule)
    capsule = tensor.__dlpack__(max_version=(1, 0))
    capsules._managed(capsule).major = 2
    with pytest.raises(ExchangeError, match=r"a capsule of DLPack 2\.0 — version 1 and earlier ones are known"):
        tc.from_dlpack(capsule)


@on_host
def test_producers_on_unknown_devices_are_asked_for_a_copy_on_the_host() -> None:
    tensor = tc.arange(3.0, device="cpu")
    producer = Producer(tensor.__dlpack__(), (99, 0))
    assert tc.from_dlpack(producer).tolist() == [0, 1, 2]
    assert producer.asked == [{"max_version": (1, 0), "dl_device": (1, 0)}]
    with pytest.raises(ExchangeError, match="DLPack type 99"):
        tc.from_dlpack(Producer(tensor.__dlpack__(), (99, 0)), copy=False)


@on_host
def test_producers_of_the_first_version() -> None:
    class Old:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.tensor.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    tensor = tc.arange(3.0, device="cpu")
    assert tc.from_dlpack(Old(tensor)).data_ptr() == tensor.data_ptr()


# ---------------------------------------------------------------------------------------------------------- lifetimes


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Watched(np.ndarray):
    """An array that can be watched."""


def watched() -> tuple[Any, weakref.ref]:
    array = np.arange(6.0).view(Watched)
    return array, weakref.ref(array)


@on_host
def test_imported_memory_lives_as_long_as_its_views(no_collector: None) -> None:
    for version in (None, (1, 0)):
        array, alive = watched()
        tensor = tc.from_dlpack(array.__dlpack__(max_version=version))
        del array
        view = tensor[2:]
        del tensor
        assert alive() is not None
        assert view.tolist() == [2, 3, 4, 5]
        del view
        assert alive() is None


@on_host
def test_exported_memory_lives_as_long_as_its_consumer(no_collector: None) -> None:
    for version in (None, (1, 0)):
        array, alive = watched()
        tensor = tc.from_dlpack(array)
        capsule = tensor.__dlpack__(max_version=version)
        del array, tensor
        consumer = np.from_dlpack(Producer(capsule))
        del capsule
        assert alive() is not None
        assert consumer.tolist() == [0, 1, 2, 3, 4, 5]
        del consumer
        assert alive() is None


@on_host
def test_capsules_that_nobody_takes_let_go(no_collector: None) -> None:
    for version in (None, (1, 0)):
        array, alive = watched()
        capsule = tc.from_dlpack(array).__dlpack__(max_version=version)
        del array
        assert alive() is not None
        del capsule
        assert alive() is None


@on_host
def test_capsules_that_are_refused_let_go(no_collector: None) -> None:
    array, alive = watched()
    with pytest.raises(ExchangeError):
        tc.from_dlpack(array[::-1])
    del array
    assert alive() is None


@on_host
def test_capsules_are_destroyed_while_an_exception_is_on_its_way() -> None:
    def fails() -> None:
        capsule = tc.ones(3, device="cpu").__dlpack__(max_version=(1, 0))
        assert capsule is not None
        raise KeyError("the error")

    with pytest.raises(KeyError, match="the error"):
        fails()


# ------------------------------------------------------------------------------------------------------ other devices


def test_devices_share_memory_without_a_copy() -> None:
    tensor = tc.arange(6.0, device="shared:1").reshape(2, 3)
    assert tensor.__dlpack_device__() == (EXTENSION, 1)
    view = tc.from_dlpack(tensor[:, 1:].t())
    assert (str(view.device), view.stride(), view.tolist()) == ("shared:1", (1, 3), [[1, 4], [2, 5]])
    view.mul_(10)
    assert tensor.tolist() == [[0, 10, 20], [3, 40, 50]]
    halves = tc.ones(3, dtype=tc.bfloat16, device="shared")
    assert tc.from_dlpack(halves.__dlpack__(max_version=(1, 0))).dtype is tc.bfloat16


def test_streams_of_both_sides_are_told() -> None:
    tensor = tc.ones(2, device="shared")
    CALLS.clear()
    tensor.__dlpack__(stream=5)
    tensor.__dlpack__(stream=-1)
    tensor.__dlpack__()
    queue = tc.current_stream("shared")
    assert [("export", queue, 5), ("export", queue, None)] == list(CALLS)
    producer = Producer(tensor.__dlpack__(stream=-1), (EXTENSION, 0))
    tc.from_dlpack(producer)
    assert producer.asked == [{"max_version": (1, 0), "stream": 77}]


def test_shared_device_memory_is_let_go(no_collector: None) -> None:
    before = tc.memory_allocated("shared")
    tensor = tc.ones(64, device="shared")
    held = tc.memory_allocated("shared")
    assert held > before
    view = tc.from_dlpack(tensor)[3:]
    capsule = tensor.__dlpack__()
    del tensor
    assert tc.memory_allocated("shared") == held
    assert view.sum().item() == 61
    del view
    assert tc.memory_allocated("shared") == held
    del capsule
    assert tc.memory_allocated("shared") == before


def test_foreign_memory_waits_for_queued_work() -> None:
    waited: list[str] = []

    class Queue(ref.RefStream):
        def __init__(self, name: str) -> None:
            self.name = name

        def synchronize(self) -> None:
            waited.append(self.name)

    tensor = tc.from_dlpack(tc.ones(4, device="shared"))
    block = tensor._array.storage.block
    block.stream, block.streams = Queue("own"), {Queue("other")}
    del tensor
    assert waited == ["own", "other"]


@on_host
def test_copies_between_devices() -> None:
    tensor = tc.arange(3.0, device="cpu")
    capsule = tensor.__dlpack__(dl_device=(EXTENSION, 1))
    assert capsules.device_of(capsule) == (EXTENSION, 1)
    there = tc.from_dlpack(capsule)
    assert (str(there.device), there.tolist()) == ("shared:1", [0, 1, 2])
    assert np.from_dlpack(Producer(there.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))).tolist() == [0, 1, 2]


def test_the_general_export_waits_on_the_host() -> None:
    class Plain(Exchange):
        device = (EXTENSION, 0)

        def address(self, array: Any) -> int:
            return 0

        def buffer(self, address: int, nbytes: int) -> Any:
            return None

    class Queue(ref.RefStream):
        waited = 0

        def synchronize(self) -> None:
            self.waited += 1

    queue = Queue()
    Plain().export(queue, None)
    assert (queue.waited, Plain().number(queue)) == (1, None)
