"""Listed state of the runtime: keys, words, registrations."""

from __future__ import annotations

import threading
import types

import pytest

import tensocket as torch
from tensocket_compiler.capture.closure import find_guards
from tensocket_compiler.capture.guards import Guards
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.listed import HOLDERS, UNREPLAYABLE, register_state, register_unreplayable
from tensocket_compiler.capture.state import describe_state, state_key, state_parts
from tensocket_compiler.capture.watch import observe

from .judge import guard

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")
X = torch.ones(3)


class _Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


BLOCKS = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast without a cache": lambda: torch.autocast("cpu", cache_enabled=False),
    "function mode": _Mode,
    "anomaly mode": lambda: torch.autograd.set_detect_anomaly(True),
    "saved tensors": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "device": lambda: torch.device("meta"),
    "forward mode": torch.autograd.forward_ad.dual_level,
    "early stop": lambda: torch.utils.checkpoint.set_checkpoint_early_stop(False),
    "no torch function": torch._C.DisableTorchFunctionSubclass,
}
SETTINGS = {
    "default dtype": (torch.set_default_dtype, torch.float64, torch.float32),
    "precision": (torch.set_float32_matmul_precision, "high", "highest"),
    "determinism": (torch.use_deterministic_algorithms, True, False),
    "threads": (torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
    "grad mode": (torch.set_grad_enabled, False, True),
    "default device": (torch.set_default_device, "meta", None),
    "autocast dtype": (lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_change_the_state(name):
    guards = guard(lambda x: x * 2, (X,))[0]
    with BLOCKS[name]():
        pass  # lazy state appears
    assert guards.changed() is None
    before = state_key()
    with BLOCKS[name]():
        assert state_key() != before
        assert guards.changed() is not None
    assert guards.changed() is None
    assert state_key() == before


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_change_the_state(name):
    change, value, before = SETTINGS[name]
    change(before)
    guards = guard(lambda x: x * 2, (X,))[0]
    key = state_key()
    change(value)
    try:
        assert state_key() != key
        assert guards.changed() is not None
    finally:
        change(before)
    assert guards.changed() is None
    assert state_key() == key


def test_other_threads_have_their_own_state():
    keys = []
    thread = threading.Thread(target=lambda: keys.append(state_key()))
    thread.start()
    thread.join()
    assert keys[0] != state_key()


def test_a_function_that_leaves_a_mode_on_has_an_effect():
    def f(x):
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return x
    try:
        effects = guard(f, (X,))[1]
    finally:
        torch.set_grad_enabled(True)
    assert [effect.path for effect in effects] == ["state.ThreadState.exclude"]


def test_the_front_end_adds_state():
    local = threading.local()
    local.k = 1
    options = types.SimpleNamespace(k=1)
    table: dict[str, int] = {}
    for name, holder in (("local", local), ("options", options), ("table", table)):
        register_state(name, holder)
    try:
        guards = find_guards(observe(lambda x: x * local.k * options.k, (X,)))
        assert not guards.refusals
        for write, path in ((lambda: setattr(local, "k", 2), "state.local.k"),
                            (lambda: setattr(options, "k", 2), "state.options.k"),
                            (lambda: table.update(a=1), "state.table['a']")):
            key = state_key()
            write()
            assert guards.changed().path == path
            assert state_key() != key
            guards = Guards(state_parts())
    finally:
        for name in ("local", "options", "table"):
            del HOLDERS[name]


def test_functions_without_a_replay_are_refused():
    for function in (lambda x: torch.manual_seed(1), lambda x: torch.initial_seed(), lambda x: torch.get_rng_state(),
                     lambda x: x.data_ptr(), lambda x: x._version, lambda x: torch.default_generator.manual_seed(1)):
        assert observe(function, (X,)).refusals, function


def test_functions_can_be_declared_to_have_no_replay():
    assert not observe(lambda x: x.numel(), (X,)).refusals
    register_unreplayable(torch.Tensor.numel, "it counts")
    try:
        assert observe(lambda x: x.numel(), (X,)).refusals[0].reason == "it counts"
    finally:
        del UNREPLAYABLE[torch.Tensor.numel.__code__]
    assert not observe(lambda x: x.numel(), (X,)).refusals


def test_reports_name_the_state():
    with torch.no_grad():
        assert describe_state()["grad_enabled"] == "False"
    assert describe_state()["state.default_dtype[0]"].endswith("float32")
