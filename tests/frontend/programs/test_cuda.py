"""``tensocket.cuda`` where there is no device, and where another backend's devices answer for it."""

from __future__ import annotations

import pytest

import tensocket
from tensocket import backends, cuda, errors
from tensocket_core.device import answer_for


@pytest.fixture
def ref():
    answer_for("cuda", "ref")
    yield
    answer_for("cuda", None)


@pytest.fixture
def none(monkeypatch):
    monkeypatch.setattr("tensocket_operators.device_api.is_available", lambda name: False)


def test_questions_without_a_device(none):
    assert not cuda.is_available()
    assert cuda.device_count() == cuda.memory_allocated() == cuda.max_memory_reserved() == 0
    assert cuda.get_rng_state_all() == []
    assert not cuda.is_initialized()
    assert cuda._initialized is False
    assert not cuda.is_bf16_supported()
    assert cuda.get_arch_list() == []
    assert cuda.memory_stats() == {}
    for silent in (cuda.empty_cache, cuda.seed, cuda.seed_all, cuda.ipc_collect):
        assert silent() is None
    cuda.manual_seed(1)
    cuda.manual_seed_all(1)
    cuda.set_device(-1)
    with cuda.device(None), cuda.stream(None):
        pass


@pytest.mark.skipif(tensocket.is_available("cuda"), reason="there is a device called cuda")
def test_work_without_a_device_raises():
    for call in (cuda.synchronize, cuda.current_device, cuda.Stream, cuda.Event, cuda.get_device_name, cuda.init,
                 lambda: cuda.set_device(0), lambda: cuda.FloatTensor(2), lambda: tensocket.ones(1).cuda()):
        with pytest.raises(errors.BackendError):
            call()


def test_devices_under_the_name(ref):
    x = tensocket.ones(2).cuda()
    assert x.device == tensocket.device("cuda:0") == tensocket.device("ref:0")
    assert x.is_cuda
    assert tensocket.ones(1, device=1).device.index == 1
    assert cuda.device_count() == 2
    assert cuda.is_initialized()
    assert cuda.get_device_name(1) == "Reference interpreter"
    assert cuda.get_device_capability() == (0, 0)
    assert cuda.get_device_properties("cuda:0").total_memory > 0
    assert isinstance(x, cuda.FloatTensor)
    assert not isinstance(x.cpu(), cuda.FloatTensor)
    assert not isinstance(x, tensocket.FloatTensor)
    assert x.cpu().type(cuda.LongTensor).type() == "tensocket.cuda.LongTensor"
    assert cuda.FloatTensor([1, 2]).tolist() == [1, 2]
    assert not cuda.can_device_access_peer(0, 1)


def test_the_name_goes_back_to_its_owner(ref):
    x = tensocket.ones(2, device="cuda")
    answer_for("cuda", None)
    assert str(x.device) == "ref:0"
    assert (x + 1).tolist() == [2, 2]


def test_the_current_device(ref):
    cuda.set_device(1)
    assert cuda.current_device() == 1
    assert tensocket.zeros(1, device="cuda").device.index == 1
    with cuda.device(0):
        assert cuda.current_device() == tensocket.zeros(1).cuda().device.index == 0
    assert cuda.current_device() == 1
    with cuda.device_of(tensocket.zeros(1, device="cuda:0")):
        assert cuda.current_device() == 0
    with cuda.device_of(tensocket.zeros(1)):
        assert cuda.current_device() == 1


def test_another_kind_of_device_is_refused(ref):
    with pytest.raises(errors.ArgumentTypeError, match=r"functions of tensocket\.cuda are about devices called 'cuda'"):
        cuda.synchronize("cpu")


def test_memory(ref):
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    x = tensocket.empty(1000, device="cuda")
    assert cuda.memory_allocated() == before + 4000
    del x
    assert cuda.memory_allocated() == before
    assert cuda.max_memory_allocated() >= before + 4000
    assert cuda.memory_reserved() >= before
    assert cuda.memory_stats()["allocated_bytes.all.peak"] == cuda.max_memory_allocated()
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    assert "peak_allocated" in cuda.memory_summary()
    cuda.empty_cache()
    cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(errors.ArgumentError, match="allocators have no limit below the device's memory"):
        cuda.set_per_process_memory_fraction(0.5)


def test_streams_and_events(ref):
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    side = cuda.Stream()
    assert cuda.current_stream() == cuda.default_stream() != side
    with cuda.stream(side):
        assert cuda.current_stream() == side
        start.record()
        assert (tensocket.ones(2, device="cuda") + 1).tolist() == [2, 2]
        side.record_event(end)
    end.wait()
    cuda.current_stream().wait_stream(side)
    cuda.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0
    assert side.device_index == cuda.default_stream().cuda_stream == 0


def test_random_numbers(ref):
    cuda.manual_seed_all(3)
    assert cuda.initial_seed() == 3
    state = cuda.get_rng_state()
    first = tensocket.rand(4, device="cuda")
    cuda.set_rng_state(state)
    assert first.equal(tensocket.rand(4, device="cuda"))
    cuda.set_rng_state_all(cuda.get_rng_state_all())
    cuda.seed_all()
    assert len(cuda.default_generators) == 2
    assert cuda.default_generators[0].initial_seed() == cuda.default_generators[1].initial_seed() != 3


def test_ranges_of_profilers_are_counted():
    assert cuda.nvtx.range_push("outer") == 0
    with cuda.nvtx.range("{} inner", 1):
        assert cuda.nvtx.range_push("innermost") == 2
        cuda.nvtx.range_pop()
    cuda.nvtx.mark("here")
    assert cuda.nvtx.range_pop() == 0
    assert cuda.nvtx.range_pop() == -1


def test_switches_are_kept():
    assert backends.cudnn.benchmark is False
    backends.cudnn.benchmark = True
    assert backends.cudnn.benchmark
    with backends.cudnn.flags(enabled=False, benchmark=False):
        assert (backends.cudnn.enabled, backends.cudnn.benchmark) == (False, False)
    assert (backends.cudnn.enabled, backends.cudnn.benchmark) == (True, True)
    backends.cudnn.benchmark = False
    backends.cuda.matmul.allow_tf32 = True
    assert backends.cuda.matmul.allow_tf32
    backends.cuda.matmul.allow_tf32 = False
    with pytest.raises(errors.ArgumentTypeError, match="the switch is on or off"):
        backends.cudnn.deterministic = "yes"
    with pytest.raises(errors.ArgumentTypeError, match="the module has no such switch"):
        backends.cudnn.set_flags(quick=True)
    assert not any(library.is_available() for library in (backends.mps, backends.cudnn, backends.mkldnn))
    with backends.cuda.sdp_kernel(enable_flash=False):
        assert not backends.cuda.flash_sdp_enabled()
    assert backends.cuda.flash_sdp_enabled()


def test_the_module_lists_backends_when_it_is_called():
    assert "cpu" in [record.name for record in backends()]
