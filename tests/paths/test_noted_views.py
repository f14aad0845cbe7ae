"""Views by noted geometry: calls that machine code serves make what the Python closures make, in every respect."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest

import tensocket as torch
from tensocket.autograd.graph import saved_tensors_hooks
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS, clear_tables
from tensocket_core.launch import entries
from tensocket_operators.kinds import noted_views

pytestmark = [pytest.mark.native,
              pytest.mark.skipif(not entries.ENABLED, reason="machine code is turned off")]


@pytest.fixture(autouse=True)
def noted_at_once(monkeypatch, fresh_tables):
    monkeypatch.setattr(noted_views, "_CALLS", 1)


@pytest.fixture
def learned(monkeypatch):
    """What the device learned from each new call: the views, the argument itself, or None for other paths."""
    found = []
    real = noted_views._views_of

    def noted(*args, **named):
        found.append(real(*args, **named))
        return found[-1]
    monkeypatch.setattr(noted_views, "_views_of", noted)
    return found


LAYOUTS = {
    "dense": lambda: torch.arange(24.0).reshape(2, 3, 4),
    "transposed": lambda: torch.arange(24.0).reshape(4, 3, 2).transpose(0, 2),
    "step": lambda: torch.arange(96.0).reshape(4, 6, 4)[::2, ::2],
    "expanded": lambda: torch.arange(4.0).expand(2, 3, 4),
    "offset": lambda: torch.arange(30.0)[6:].view(2, 3, 4),
    "integers": lambda: torch.arange(24).reshape(2, 3, 4),
    "flat": lambda: torch.arange(5.0),
    "number": lambda: torch.tensor(2.5),
    "empty": lambda: torch.empty(2, 0, 4),
    "matrix": lambda: torch.arange(12.0).reshape(3, 4),
    "complex": lambda: torch.arange(12.0).reshape(3, 4) * (1 + 2j),
}
CALLS = {
    "view": lambda x: x.view(-1), "view(3, ...)": lambda x: x.view(3, -1), "view(list)": lambda x: x.view([3, -1]),
    "view(Size)": lambda x: x.view(torch.Size([x.numel()])), "view(x.shape)": lambda x: x.view(x.shape),
    "reshape": lambda x: x.reshape(-1, 2), "reshape(())": lambda x: x.reshape(()),
    "transpose": lambda x: x.transpose(0, -1), "permute": lambda x: x.permute(2, 0, 1),
    "permute(tuple)": lambda x: torch.permute(x, (1, 0)), "t": lambda x: x.t(), "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, -1), "movedim(lists)": lambda x: x.movedim([0, 1], [1, 0]),
    "flatten": lambda x: x.flatten(), "flatten(1)": lambda x: x.flatten(1), "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(0, (1, -1)), "squeeze": lambda x: x.squeeze(),
    "squeeze(0)": lambda x: x.squeeze(0),
    "squeeze((0, 1))": lambda x: x.squeeze((0, 1)), "unsqueeze": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x.expand(2, *x.shape), "expand(-1)": lambda x: x[None].expand(4, *[-1] * x.ndim),
    "broadcast_to": lambda x: x.broadcast_to((1, *x.shape)), "expand_as": lambda x: x.expand_as(x.clone()),
    "view_as": lambda x: x.view_as(x.flatten()), "narrow": lambda x: x.narrow(0, 1, 1),
    "narrow(tensor)": lambda x: x.narrow(0, torch.tensor(1), 1), "select": lambda x: x.select(0, -1),
    "x[0]": lambda x: x[0], "x[True]": lambda x: x[True], "x[1:3]": lambda x: x[1:3], "x[::2]": lambda x: x[::2],
    "x[..., 0]": lambda x: x[..., 0], "x[None, :, 1:]": lambda x: x[None, :, 1:], "x[()]": lambda x: x[()],
    "x[-1, 0]": lambda x: x[-1, 0], "x[[1, 0]]": lambda x: x[[1, 0]], "x[mask]": lambda x: x[x == x],
    "x[index]": lambda x: x[torch.tensor([1, 0])], "diagonal": lambda x: x.diagonal(), "unbind": lambda x: x.unbind(),
    "diagonal(1)": lambda x: x.diagonal(1, 0, 1), "split": lambda x: x.split(2),
    "split(list)": lambda x: x.split([1, 1]),
    "chunk": lambda x: x.chunk(2, -1), "tensor_split": lambda x: x.tensor_split(2),
    "tensor_split(tensor)": lambda x: x.tensor_split(torch.tensor([1, 2])), "hsplit": lambda x: x.hsplit(2),
    "unfold": lambda x: x.unfold(0, 2, 1), "as_strided": lambda x: x.as_strided((2, 2), (1, 2)),
    "as_strided(1)": lambda x: x.as_strided((2,), (1,), 1), "contiguous": lambda x: x.contiguous(),
    "contiguous(format)": lambda x: x.contiguous(memory_format=torch.contiguous_format), "real": lambda x: x.real,
    "view_as_real": torch.view_as_real, "view(dtype)": lambda x: x.view(torch.int32),
    "to": lambda x: x.to(torch.float32),
    "float": lambda x: x.float(), "dropout": lambda x: torch.dropout(x, 1, False), "detach": lambda x: x.detach(),
    "swapaxes": lambda x: x.swapaxes(0, 1), "unsafe_split": lambda x: x.unsafe_split(1), "positive": torch.positive,
    "atleast_2d": torch.atleast_2d, "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[None]),
    "meshgrid": lambda x: torch.meshgrid(x, x, indexing="ij"), "slice": lambda x: x[slice(-2, None, 1)],
}


def facts(result, x):
    """Everything that can be seen of a result, with the tensor that it is of."""
    if isinstance(result, (tuple, list)):
        return [type(result), *[facts(item, x) for item in result]]
    array = result._array
    shares = np.may_share_memory(array, x._array)
    offset = array.__array_interface__["data"][0] - x._array.__array_interface__["data"][0]
    return (result is x, type(result), result._key, array.shape, tuple(result.stride()), array.dtype,
            array.flags.writeable, shares and offset, result._base is x, result._base is None,
            result._version_counter is x._version_counter, result._grad, result._grad_fn is None, result._fixed_view,
            result.__dict__.keys() - {"_views", "_fixed_view"}, result.tolist())


def outcome(call, x):
    try:
        return facts(call(x), x)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["plain", "no_grad", "inference_mode", "view", "marked"])
def test_noted_calls_are_equal_to_first_calls(layout, mode):
    for name, call in CALLS.items():
        clear_tables()

        def made():
            x = LAYOUTS[layout]()
            if mode == "view":
                x = x[...]
            return x.unbind()[0] if mode == "marked" and x.ndim else x
        with getattr(torch, mode)() if "mode" in mode or "grad" in mode else torch.enable_grad():
            wanted = outcome(call, made())
            for _ in range(6):
                found = outcome(call, made())
                assert repr(found) == repr(wanted), name
            torch.ones(2, 2).view(4)


def test_what_is_noted(learned):
    x = torch.arange(24.0).reshape(2, 3, 4)
    for call in (CALLS[name] for name in ("view", "transpose", "movedim", "split", "x[1:3]", "expand")):
        before = len(learned)
        for _ in range(5):
            call(x)
        assert 1 <= len(learned) - before <= 2  # also of an operator that it calls
        assert learned[-1] is not None


@pytest.mark.parametrize(("call", "others"), [
    (lambda x, n: x.transpose(0, n), [1, True, 1.0, np.int64(1), 2, -1, 3, 1 << 70]),
    (lambda x, n: x.view(n), [24, (24,), [24], (4, 6), [4, 6], (-1,), (4, 6.0), (4, True), (24, 1), 25, (1 << 70,)]),
    (lambda x, n: x[n], [0, True, False, None, ..., slice(0, 1), slice(None, 1), slice(0, 1, 1), (0,), (0, 1),
                         (True, 0), (0.0,), np.int64(0), slice(np.int64(0), 1), 0.0, [0], ([0],), (slice(0, 1), 0)]),
    (lambda x, n: x.narrow(0, n, 1), [0, 1, True, 2, -1, torch.tensor(0), torch.tensor(1)]),
    (lambda x, n: x.split(n), [1, 2, (1, 1), [2], [1, 1], 0, True]),
])
def test_equal_arguments_of_other_types(call, others):
    clear_tables()
    x = torch.arange(24.0).reshape(2, 3, 4)
    wanted = {}
    for k, n in enumerate(others):
        clear_tables()
        wanted[k] = outcome(lambda x, n=n: call(x, n), x)
    clear_tables()
    for _ in range(5):
        for k, n in enumerate(others):
            assert repr(outcome(lambda x, n=n: call(x, n), x)) == repr(wanted[k]), n


def test_changes_are_counted_together():
    for _ in range(5):
        x = torch.zeros(2, 3)
        y = x.view(6)
        z = y[1:3]
        z += 1
        assert x._version == y._version == z._version == 1
        assert x.sum() == 2


def test_gradients_flow_through_noted_views():
    for _ in range(5):
        x = torch.arange(6.0, requires_grad=True)
        y = x * 2
        y.view(2, 3).transpose(0, 1)[1].mul_(3)
        y.sum().backward()
        assert x.grad.tolist() == [2, 6, 2, 2, 6, 2]


def test_marks_of_several_views():
    for _ in range(5):
        x = torch.arange(6.0, requires_grad=True) * 1
        with pytest.raises(RuntimeError, match="unbind"):
            x.view(2, 3).unbind()[0].mul_(2)


def test_memory_outlives_its_first_tensor():
    found = []
    for k in range(50):
        x = torch.full((64,), float(k))
        found.append(x.view(8, 8).transpose(0, 1)[1])
        del x
    gc.collect()
    junk = [torch.full((64,), -1.0) for _ in range(100)]
    assert [x.tolist() for x in found] == [[float(k)] * 8 for k in range(50)]
    assert junk


@pytest.mark.parametrize("call", [
    lambda x: x.view(-1), lambda x: x.unbind(), lambda x: x.contiguous(), lambda x: x.reshape(3, -1)])
def test_records_hold_no_memory(call):
    """Whether the call makes a view, several, the argument itself, or what no record makes."""
    def used(fill):
        x = torch.full((6, 5), fill)
        call(x)
        return weakref.ref(x._array)
    assert all(used(float(k))() is None for k in range(6))


def test_references_come_back():
    x = torch.arange(24.0).reshape(2, 3, 4)
    objects = [x, x._array, None, x._array.dtype, x.view(24)._key]
    calls = [CALLS[name] for name in ("view", "movedim", "split", "x[1:3]", "contiguous", "unbind", "x[mask]",
                                      "select")]
    for call in calls:
        for _ in range(5):
            call(x)
    gc.collect()
    before = [sys.getrefcount(each) for each in objects]
    for _ in range(300):
        for call in calls:
            call(x)
    gc.collect()
    after = [sys.getrefcount(each) for each in objects]
    assert all(abs(a - b) < 100 for a, b in zip(before, after, strict=True)), (before, after)


def test_subclasses():
    parameter = torch.nn.Parameter(torch.arange(6.0), requires_grad=False)
    for _ in range(5):
        y = parameter.view(2, 3)
        assert type(y) is torch.Tensor
        assert y._base is parameter


def test_calls_that_come_once_are_not_noted(learned):
    x = torch.arange(3000.0).reshape(1500, 2)
    for _ in range(2):
        for k in range(1500):
            assert x[k].tolist() == [2 * k, 2 * k + 1]
    assert not [each for each in learned if each is not None and not isinstance(each, tuple)][1030:]


def test_tables_that_are_full_begin_again():
    x = torch.arange(120.0)
    for _ in range(3):
        for n in [k for k in range(1, 121) if 120 % k == 0]:
            for m in [k for k in range(1, 121) if (120 // n) % k == 0]:
                for _ in range(3):
                    y = x.view(n, m, -1)
                    assert tuple(y.shape) == (n, m, 120 // n // m)
                    assert y.is_contiguous()


def test_calls_that_warn_warn_each_time(monkeypatch):
    ravel = COMPOSITES["ravel"]
    body = ravel.body
    monkeypatch.setattr(ravel, "body", lambda input: warnings.warn("again", stacklevel=2) or body(input))
    clear_tables()
    x = torch.arange(24.0).reshape(2, 3, 4)
    for _ in range(5):
        with pytest.warns(UserWarning, match="again"):
            x.ravel()


def test_noting_leaves_the_filters_of_warnings_alone(learned):
    x = torch.arange(24.0).reshape(2, 3, 4)
    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()
        warnings.simplefilter("module")
        for k in range(8):  # a changed filter would let it be given again
            x.view(24).view(24 >> k % 4, -1)
            warnings.warn("once for each module", stacklevel=1)
    assert learned
    assert len(shown) == 1


def test_overridden_kernels_are_called():
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(5):
        x.movedim(0, 1)
    calls = []
    library = torch.library.Library("aten", "IMPL")
    library.impl("permute", lambda *args: calls.append(args) or torch.ones(3, 2), "CPU")
    try:
        x.movedim(0, 1)
        assert calls
    finally:
        library._destroy()
    assert x.movedim(0, 1).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_random_functions_are_not_noted(learned):
    torch.manual_seed(0)
    state = torch.get_rng_state()
    for _ in range(5):
        torch.dropout(torch.ones(3), 1, True)
    assert not learned
    torch.set_rng_state(state)
    wanted = torch.rand(2)
    torch.set_rng_state(state)
    torch.dropout(torch.ones(3), 1, False)
    assert torch.equal(torch.rand(2), wanted)


def test_calls_inside_of_a_collection():
    """A collection between a call and its record runs code that calls the same function."""
    x = torch.arange(24.0)

    class Loop:
        def __init__(self):
            self.loop = self

        def __del__(self):
            for n in (1, 2, 3, 4, 6, 8, 12, 24):
                assert tuple(x.view(n, -1).shape) == (n, 24 // n)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for n in [2, 3, 4, 6, 8] * 20:
            Loop()
            assert tuple(x.view(n, -1).shape) == (n, 24 // n)
            assert tuple(x.view(24 // n, n).shape) == (24 // n, n)
    finally:
        gc.set_threshold(*before)


def test_threads():
    x = torch.arange(240.0)
    errors = []

    def work(seed):
        for k in range(3000):
            n = (1, 2, 3, 4, 5, 6, 8, 10)[(k * seed) % 8]
            y = x.view(n, -1).transpose(0, 1)
            if tuple(y.shape) != (240 // n, n) or y[0, 0] != 0:
                errors.append((seed, k, y.shape))
    workers = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 5, 7)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors


def test_what_depends_on_more_than_the_layout():
    store = torch.arange(12.0)
    for _ in range(5):
        assert store[:6].as_strided((3,), (2,), 6).tolist() == [6, 8, 10]
        assert store[6:].as_strided((3,), (2,), 6).tolist() == [6, 8, 10]
        assert store[6:].as_strided((3,), (2,)).tolist() == [6, 8, 10]
        with pytest.raises(RuntimeError, match="as_strided"):
            torch.arange(6.0).as_strided((3,), (2,), 6)
        assert torch.view_as_complex(store[2:4]).tolist() == 2 + 3j
        with pytest.raises(RuntimeError, match="view_as_complex"):
            torch.view_as_complex(store[1:3])


def test_hooks_of_saved_tensors_see_views():
    seen = []
    for _ in range(4):
        x = torch.arange(6.0, requires_grad=True)
        with saved_tensors_hooks(lambda t: seen.append(tuple(t.shape)) or t, lambda t: t):
            x.view(2, 3).transpose(0, 1).square().sum().backward()
    assert seen == [(3, 2)] * 4


def test_every_operator_that_reads_a_second_layout_reads_nothing_else():
    """Only the layout of these tensors is compared: no operator may be among them that reads elements."""
    several = {name for name, operator in {**OPERATORS, **COMPOSITES}.items()
               if operator.makes_views and len(operator.schema.tensors) > 1}
    assert several <= {"type_as", "expand_as", "view_as", "reshape_as"}


def test_no_device_without_machine_code_notes(monkeypatch):
    state = open_device("ref")
    x = torch.arange(6.0, device="ref")
    for _ in range(5):
        assert x.view(2, 3).shape == (2, 3)
    assert state.runtime.target is None or not state.runtime.profile.host_resident
