"""Inference mode, and modes as decorators of everything that can be called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_plugins.contract.errors import AutogradError


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


def test_nothing_is_recorded_and_results_are_marked() -> None:
    x = leaf([1.0, 2.0])
    assert not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled()
        assert not torch.is_grad_enabled()
        y = x * 2
        made = torch.ones(2)
        assert y.is_inference()
        assert torch.is_inference(made)
        assert made.view(2).is_inference()
        assert not y.requires_grad
        assert not x.is_inference()
        assert not x[0:1].is_inference()  # a view of what is none
        assert not x.detach().is_inference()
        made.add_(1)
        assert made.is_inference()
    assert not torch.is_inference_mode_enabled()
    assert (x * 2).requires_grad
    assert ACTIVE == []


def test_enabling_gradients_inside_records_nothing() -> None:
    x = leaf([1.0])
    with torch.inference_mode():
        with torch.enable_grad():
            assert torch.is_grad_enabled()
            assert not (x * 2).requires_grad
        with torch.inference_mode(False):
            assert torch.is_grad_enabled()
            y = x * 2
            assert y.requires_grad
            assert not y.is_inference()
        assert torch.is_inference_mode_enabled()
    with torch.inference_mode(mode=False):
        assert (x * 2).requires_grad


@pytest.mark.parametrize("use", [
    lambda t: t.add_(1),
    lambda t: t.mul_(torch.ones(2)),
    lambda t: t.fill_(0),
    lambda t: t.__setitem__(0, 1.0),
    lambda t: t.copy_(torch.zeros(2)),
    lambda t: leaf([1.0, 2.0]) * t,
    lambda t: t._version,
], ids=range(7))
def test_inference_tensors_are_not_changed_or_saved_outside(use: Callable[[Any], Any]) -> None:
    with torch.inference_mode():
        t = torch.ones(2)
    message = (r"\[inference_mode\] an inference tensor outside of inference mode — "
               "it is not saved for backward and not modified there, as its changes are not counted — clone")
    with pytest.raises(AutogradError, match=message):
        use(t)
    assert t.tolist() == [1.0, 1.0]


def test_inference_tensors_outside() -> None:
    with torch.inference_mode():
        t = torch.ones(2, dtype=torch.float64)
        assert torch.ones(2, requires_grad=True).requires_grad
    x = leaf([1.0, 2.0])
    (t + x).sum().backward()  # nothing is saved
    assert x.grad.tolist() == [1.0, 1.0]
    assert t.view(2, 1).is_inference()
    assert not (t * 2).is_inference()
    normal = t.clone()
    assert not normal.is_inference()
    normal.add_(1)
    (x * normal).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    message = (r"\[requires_grad\] True for an inference tensor — "
               "inference tensors take no part in autograd outside of inference mode — clone")
    with pytest.raises(AutogradError, match=message):
        t.requires_grad_()
    with torch.inference_mode():
        t.requires_grad_()


def test_changes_of_other_tensors_inside_count() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    with torch.inference_mode():
        y.add_(1)
    assert not y.is_inference()
    with pytest.raises(AutogradError, match="at version 1 instead of 0"):
        z.sum().backward()


def test_inference_mode_belongs_to_a_thread() -> None:
    seen: list[bool] = []
    with torch.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(torch.is_inference_mode_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_one_context_can_be_nested_and_ends_with_errors() -> None:
    mode = torch.inference_mode()
    with pytest.raises(KeyError), mode, mode:
        raise KeyError
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


MODES = [torch.no_grad, torch.inference_mode]


@pytest.mark.parametrize("mode", MODES)
def test_decorators_with_and_without_parentheses(mode: Any) -> None:
    @mode
    def bare(value: int) -> Any:
        """Documented."""
        return torch.is_grad_enabled(), value

    @mode()
    def called(value: int) -> Any:
        return torch.is_grad_enabled(), value

    assert bare.__doc__ == "Documented."
    assert bare(3) == called(3) == (False, 3)
    assert torch.is_grad_enabled()


def test_inference_mode_can_be_left_by_a_decorator() -> None:
    @torch.inference_mode(False)
    def normal() -> bool:
        return torch.is_inference_mode_enabled()

    with torch.inference_mode():
        assert not normal()
        assert torch.is_inference_mode_enabled()


@pytest.mark.parametrize("mode", MODES)
def test_generators_are_in_the_mode_while_they_run(mode: Any) -> None:
    closed: list[bool] = []

    @mode()
    def numbers() -> Any:
        try:
            value = yield torch.is_grad_enabled()
            while value is not None:
                try:
                    value = yield value, torch.is_grad_enabled()
                except ValueError:
                    value = yield "caught", torch.is_grad_enabled()
            return "done"
        finally:
            closed.append(torch.is_grad_enabled())

    generator = numbers()
    assert next(generator) is False
    assert torch.is_grad_enabled()
    assert generator.send(3) == (3, False)
    assert generator.throw(ValueError) == ("caught", False)
    assert torch.is_grad_enabled()
    with pytest.raises(StopIteration) as stop:
        generator.send(None)
    assert stop.value.value == "done"
    unfinished = numbers()
    next(unfinished)
    unfinished.close()
    assert closed == [False, False]
    assert torch.is_grad_enabled()
    failing = numbers()
    next(failing)
    with pytest.raises(KeyError):
        failing.throw(KeyError)


@pytest.mark.parametrize("mode", MODES)
def test_coroutines_are_in_the_mode_while_they_run(mode: Any) -> None:
    @mode()
    async def inside() -> list[bool]:
        found = [torch.is_grad_enabled()]
        await asyncio.sleep(0)
        found.append(torch.is_grad_enabled())
        return found

    async def outside() -> list[bool]:
        found = [torch.is_grad_enabled()]
        await asyncio.sleep(0)
        found.append(torch.is_grad_enabled())
        return found

    async def both() -> Any:
        return await asyncio.gather(inside(), outside(), inside())

    assert asyncio.run(both()) == [[False, False], [True, True], [False, False]]


def test_classes_are_decorated_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="Decorating a class"):
        @torch.no_grad()
        class Made:
            def __init__(self) -> None:
                self.recording = torch.is_grad_enabled()

            def method(self) -> bool:
                return torch.is_grad_enabled()

    made = Made()
    assert made.recording is False
    assert made.method() is True


@pytest.mark.parametrize("requires_grad", [True, False])
def test_views_of_inference_tensors_take_no_part_in_graphs(requires_grad: bool) -> None:
    with torch.inference_mode():
        x = torch.ones(2, 3, requires_grad=requires_grad)
    for view in (x.view(-1), x.transpose(0, 1), x[0]):
        assert view.is_inference()
        assert view.is_leaf
        assert not view.requires_grad


@pytest.mark.parametrize("detach", [lambda x: x.detach(), lambda x: x.data, lambda x: x[:].detach()[1:]])
def test_what_is_detached_from_an_inference_tensor_may_be_modified(detach: Any) -> None:
    with torch.inference_mode():
        x = torch.tensor([1.0, 2.0]) * 1
    alias = detach(x)
    assert alias.is_inference()
    alias.mul_(torch.tensor([3.0] * len(alias)))
    alias.add_(1)
    alias[0] = alias[0] * 2
    assert x.tolist()[1:] == ([7.0] if len(alias) == 2 else [14.0])
    assert alias._version == 3
    with pytest.raises(AutogradError, match="saved for backward"):
        _ = alias * torch.ones(len(alias), requires_grad=True)
    with pytest.raises(AutogradError, match="not modified"):
        x.mul_(2)
    with torch.inference_mode():
        assert alias.detach().is_inference()


@pytest.mark.parametrize("make", [
    lambda: torch.tensor([1.0, 2.0]), lambda: torch.as_tensor([1.0, 2.0]), lambda: torch.from_numpy(np.ones(2)),
    lambda: torch.as_tensor(np.ones(2)), lambda: torch.asarray(np.ones(2)),
    lambda: torch.frombuffer(bytearray(8), dtype=torch.float32), lambda: torch.from_dlpack(np.ones(2)),
    lambda: torch.ones(2).new_tensor([1.0, 2.0])])
def test_tensors_made_of_data_are_inference_tensors(make: Any) -> None:
    pytest.importorskip("tensocket_cpu")
    assert not make().is_inference()
    with torch.inference_mode():
        x = make()
        x.add_(1)
    assert x.is_inference()
    with pytest.raises(AutogradError, match="an inference tensor outside of inference mode"):
        x.add_(1)
    with pytest.raises(AutogradError, match="an inference tensor outside of inference mode"):
        x * torch.ones(2, dtype=x.dtype, device=x.device, requires_grad=True)


def test_views_of_inference_tensors_have_no_base() -> None:
    outside = torch.ones(3)
    with torch.inference_mode():
        x = torch.ones(3)
        view = x[1:]
        assert view._base is None
        assert outside[1:]._base is outside
        view.add_(1)
    assert x.tolist() == [1.0, 2.0, 2.0]
