"""The device-generic modules, and what allocators learn of streams."""

from __future__ import annotations

import pytest

import tensocket_operators as torch


def test_device_module():
    module = torch.get_device_module("ref:1")
    assert repr(module) == "<device module 'ref'>"
    assert module.is_available()
    assert module.device_count() == 2
    assert module.get_device_name(1) == module.get_device_properties("ref:1").model == "Reference interpreter"
    before = module.memory_allocated(1)
    module.reset_peak_memory_stats(1)
    kept = torch.ones(1000, device="ref:1")
    assert module.memory_allocated(1) - before >= 4000
    assert module.max_memory_allocated(1) >= module.memory_allocated(1)
    assert module.memory_reserved(1) >= module.memory_allocated(1)
    del kept
    assert module.memory_allocated("ref:1") == before
    module.empty_cache(1)
    module.synchronize()


def test_device_module_of_the_default_device():
    assert repr(torch.get_device_module()) == "<device module 'ref'>"


def test_device_module_of_an_unknown_device():
    with pytest.raises(torch.errors.UnknownDevice, match=r"\[device\] device 'nochip'"):
        torch.get_device_module("nochip")


def test_seed_of_one_device():
    module = torch.get_device_module("ref")
    module.manual_seed(5, 1)
    torch.manual_seed(5)
    assert torch.rand(3, device="ref:1").tolist() == torch.rand(3, device="ref:0").tolist()


def test_streams_and_events_of_a_module():
    module = torch.get_device_module("ref")
    stream, event = module.Stream(1), module.Event(enable_timing=True, device=1)
    assert stream.device == torch.device("ref:1")
    event.record(stream)
    event.synchronize()
    assert event.query()
    before = module.current_stream(1)
    with stream:
        assert module.current_stream(1) is stream._stream
    assert module.current_stream(1) is before
    module.set_stream(stream)
    assert module.current_stream(1) is stream._stream
    torch.set_stream("ref:1", before)


def test_no_reference_device_is_an_accelerator():
    device = torch.accelerator.current_accelerator()
    assert device is None or device.type not in ("ref", "cpu")
    assert torch.accelerator.is_available() == (device is not None)
    assert (torch.accelerator.device_count() > 0) == (device is not None)
    torch.accelerator.synchronize("ref")


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_name_themselves_in_errors(name):
    with pytest.raises(torch.errors.DimensionError, match=rf"\[{name}\] dim 5"):
        getattr(torch.ones(2, 3), name)(5)
    with pytest.raises(torch.errors.ShapeError, match=rf"\[{name}\] "):
        getattr(torch.ones(0), name)()


class Recorder:
    """A stream that is not the default one; it runs nothing by itself."""

    def synchronize(self) -> None: ...


@pytest.mark.parametrize("name", ["ref", "plain"])
def test_work_on_another_stream_is_recorded_on_the_blocks(name):
    x = torch.ones(4, 4, device=name)
    index = torch.tensor([[0, 1, 2, 3]], device=name)
    other = Recorder()
    default = torch.current_stream(name)
    torch.set_stream(name, other)
    try:
        y = x + 1
        results = [y.sum(0), x.softmax(1), x @ y, x.gather(0, index), x.t().contiguous(), torch.arange(3, device=name)]
        for result in results:
            assert result._array.storage.block.stream is other
        x.to("ref:1")
    finally:
        torch.set_stream(name, default)
    assert x._array.storage.block.streams == {other}
    assert index._array.storage.block.streams == {other}
    assert y._array.storage.block.streams is None
    assert (x + y).sum().item() == 48
    assert y._array.storage.block.streams == {default}
