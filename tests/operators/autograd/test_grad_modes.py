"""Grad modes as contexts and decorators, and what belongs to a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.modes import ACTIVE


def leaf(value: float) -> Any:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def test_no_grad_and_enable_grad_as_contexts() -> None:
    x = leaf(1.0)
    with torch.no_grad():
        assert not torch.is_grad_enabled()
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad
    assert ACTIVE == []


def test_modes_as_decorators() -> None:
    x = leaf(1.0)

    @torch.no_grad()
    def plain(t: Any) -> Any:
        """Doubled."""
        return t * 2

    @torch.enable_grad()
    def recorded(t: Any) -> Any:
        return t * 2

    @torch.set_grad_enabled(False)
    def switched(t: Any) -> Any:
        return t * 2

    assert torch.is_grad_enabled()  # decorating switches nothing
    assert plain.__doc__ == "Doubled."
    assert not plain(x).requires_grad
    assert not switched(x).requires_grad
    with torch.no_grad():
        assert recorded(x).requires_grad
    assert torch.is_grad_enabled()


def test_set_grad_enabled_switches_at_once() -> None:
    x = leaf(1.0)
    torch.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    torch.set_grad_enabled(True)
    assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
        with torch.set_grad_enabled(True):
            assert (x * 2).requires_grad
    assert torch.is_grad_enabled()
    assert ACTIVE == []


def test_modes_end_with_errors() -> None:
    with pytest.raises(KeyError), torch.no_grad():
        raise KeyError
    assert torch.is_grad_enabled()


def run_threads(*bodies: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)


def test_modes_belong_to_a_thread() -> None:
    barrier = threading.Barrier(2, timeout=20)

    def without() -> None:
        with torch.no_grad():
            barrier.wait()
            assert not (leaf(1.0) * 2).requires_grad
            barrier.wait()

    def recording() -> None:
        barrier.wait()
        assert torch.is_grad_enabled()
        assert (leaf(1.0) * 2).requires_grad
        barrier.wait()

    run_threads(on_ref(without), on_ref(recording))


def on_ref(body: Callable[[], None]) -> Callable[[], None]:
    """The default device belongs to a thread, too."""

    def run() -> None:
        torch.set_default_device("ref")
        body()

    return run


def test_threads_run_backward_on_graphs_that_share_leaves() -> None:
    shared = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    results: dict[int, Any] = {}

    def body(factor: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(20):
                y = (shared * shared * factor).sum()
                results[factor] = torch.autograd.grad(y, shared)[0].tolist()

        return run

    run_threads(*[on_ref(body(factor)) for factor in range(1, 5)])
    assert results == {factor: [2.0 * factor, 4.0 * factor, 6.0 * factor] for factor in range(1, 5)}
