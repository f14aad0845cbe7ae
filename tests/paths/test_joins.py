"""``cat`` and ``stack`` of small tensors: all paths agree with NumPy and raise the same errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS, clear_tables
from tensocket_core.launch import entries
from tensocket_operators.explain import explain
from tensocket_plugins.contract.errors import ShapeError

JOINS = {"cat": (torch.cat, np.concatenate), "stack": (torch.stack, np.stack)}
X = torch.arange(15, dtype=torch.float32).reshape(3, 5)


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entries that count calls are compiled in the first one; none of them outlives the test."""
    state = open_device("cpu")
    before = dict(state.native_entries)
    monkeypatch.setattr(entries, "_CALLS", 1)
    clear_tables()
    yield
    state.native_entries.clear()
    state.native_entries.update(before)
    clear_tables()


def both(name: str, items: Any, dim: Any) -> None:
    """Compare the operator with NumPy, in the call that compiles and in one that does not."""
    run, expected = JOINS[name]
    for _ in range(2):
        found = run(items, dim)
        assert type(found) is torch.Tensor
        assert found.is_contiguous()
        np.testing.assert_array_equal(found.numpy(), expected([x.detach().numpy() for x in items], dim))


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 1, 3), (1, 2, 3, 4), (2, 1, 1, 3, 2)])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_values(name: str, shape: tuple[int, ...], count: int) -> None:
    parts = [torch.randn(shape) for _ in range(count)]
    for dim in range(-len(shape), len(shape)):
        both(name, parts, dim)
        both(name, (*parts,), dim)
        both(name, [x.transpose(0, -1).contiguous().transpose(0, -1) for x in parts], dim)
        if name == "cat":
            both(name, [x.narrow(dim, 0, 1) for x in parts] + parts, dim)


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.float64,
                                   torch.complex64, torch.complex128])
def test_dtypes(name: str, dtype: Any) -> None:
    parts = [(10 * torch.randn(2, 3)).to(dtype) for _ in range(3)]
    assert JOINS[name][0](parts).dtype is dtype
    both(name, parts, 1)


@pytest.mark.parametrize("name", JOINS)
def test_large_and_empty_results(name: str) -> None:
    for shape in ((64, 128), (64, 129), (300, 1), (3000, 2), (0, 3), (3, 0)):
        both(name, [torch.randn(shape), torch.randn(shape)], 1)
        both(name, [torch.randn(shape), torch.randn(shape)], 0)


def test_skipped_and_single_elements() -> None:
    assert torch.cat([torch.empty(0), X]).tolist() == X.tolist()
    assert torch.stack([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert torch.stack([torch.tensor(1.0), torch.tensor(2.0)], -1).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="zero-dimensional tensors"):
        torch.cat([torch.tensor(1.0), torch.tensor(2.0)])


def test_mixed_dtypes_are_promoted() -> None:
    for _ in range(2):
        mixed = torch.cat([torch.ones(2, dtype=torch.int64), torch.ones(2)])
        assert mixed.dtype is torch.float32
        assert torch.cat([torch.ones(2), torch.ones(2, dtype=torch.float64)]).dtype is torch.float64
        assert torch.cat([torch.ones(2), torch.ones(2)]).dtype is torch.float32


def test_channels_stay_last() -> None:
    x = torch.randn(1, 3, 2, 2).to(memory_format=torch.channels_last)
    single = torch.randn(2, 1, 3, 3).to(memory_format=torch.channels_last)
    for _ in range(2):
        assert torch.cat([x, x]).is_contiguous(memory_format=torch.channels_last)
        np.testing.assert_array_equal(torch.cat([single, single], 1).numpy(),
                                      np.concatenate([single.numpy(), single.numpy()], 1))


@pytest.mark.parametrize(("items", "dim", "error", "text"), [
    ([X, X[:, :3]], 0, ValueError, "all sizes but that of dim 0 are equal"),
    ([X, X[:2]], 1, ValueError, "all sizes but that of dim 1 are equal"),
    ([X, X[0]], 0, ValueError, r"\[cat\] shapes"),
    ([X, X], 2, IndexError, "dim"), ([X, X], -3, IndexError, "dim"),
    ([X, 1.0], 0, TypeError, "cat"), ([X, None], 0, TypeError, "cat"), ([None, X], 0, TypeError, "cat"),
    (X, 0, TypeError, "cat"), ([], 0, ValueError, "no tensors"), ([X, X], "0", TypeError, "dim"),
    ([X, X], 0.5, TypeError, "dim")])
def test_errors_are_those_of_the_function(items: Any, dim: Any, error: type[Exception], text: str,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    messages = []
    for enabled in (entries.ENABLED, False):
        monkeypatch.setattr(entries, "ENABLED", enabled)
        open_device("cpu").native_entries.clear()
        clear_tables()
        for _ in range(2):
            torch.cat([X, X])
            with pytest.raises(error, match=text) as caught:
                torch.cat(items, dim)
            messages.append(str(caught.value))
    assert len(set(messages)) == 1


def test_numbers_that_are_not_plain_integers() -> None:
    for dim in (np.int64(1), True):
        results = []
        for _ in range(2):
            try:
                results.append(torch.cat([X, X], dim).tolist())
            except TypeError as error:
                results.append(str(error))
        assert results[0] == results[1]


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gradients(name: str, dim: int) -> None:
    run, join = JOINS[name]
    weights = np.random.default_rng(0).standard_normal(join([np.ones((3, 5)), np.ones((3, 5))], dim).shape)
    for _ in range(2):
        x, y = torch.randn(3, 5, requires_grad=True), torch.nn.Parameter(torch.randn(3, 5))
        joined = run([x, y], dim)
        assert joined.requires_grad
        assert not run([x, y.detach()], dim).detach().requires_grad
        (joined * torch.tensor(weights, dtype=torch.float32)).sum().backward()
        parts = np.split(weights.astype(np.float32), 2, dim)
        for tensor, part in zip((x, y), parts, strict=True):
            np.testing.assert_array_equal(tensor.grad.numpy(), part.reshape(3, 5))
        with torch.no_grad():
            assert not run([x, y], dim).requires_grad


def test_lazily_conjugated_and_overriding_tensors() -> None:
    z = torch.tensor([[1 + 2j, 3 - 1j]])

    class Loud(torch.Tensor):
        pass

    loud = X.as_subclass(Loud)
    for _ in range(2):
        assert torch.cat([z, z.conj()]).tolist() == [[1 + 2j, 3 - 1j], [1 - 2j, 3 + 1j]]
        assert torch.stack([z.conj(), z.conj()]).tolist() == [z.conj().tolist()] * 2
        assert type(torch.cat([loud, X])) is Loud
        assert type(torch.cat([X, X])) is torch.Tensor


def test_inference_tensors() -> None:
    for _ in range(2):
        with torch.inference_mode():
            assert torch.cat([X, X]).is_inference()
        assert not torch.cat([X, X]).is_inference()


@pytest.mark.native
def test_entries_serve_small_tensors() -> None:
    for name, run in (("cat", torch.cat), ("stack", torch.stack)):
        run([X, X], 0)
        assert any(key[0] == name for key in open_device("cpu").native_entries)
        table = (OPERATORS if name == "cat" else COMPOSITES)[name].table
        assert type(table[X._key]) is type(len)
    assert [item.path for item in explain(torch.cat, [X, X])] == ["entry"]
    assert [rung.path for rung in explain(torch.cat, [X, X])[0].rungs] == ["replay", "entry", "host kernel", "compose"]
    assert [item.path for item in explain(torch.cat, [X, X.double()])] == ["compose"]


def test_entries_are_compiled_after_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_CALLS", 3)
    clear_tables()
    results = [torch.cat([X, X[:k]]).shape[0] for k in range(5)]
    assert results == [3, 4, 5, 6, 6]


def test_lists_that_another_thread_changes() -> None:
    items = [X, X]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            items[1] = torch.zeros(2, 5)
            items[1] = torch.zeros(4, 5)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        sizes = {torch.cat(items).shape[0] for _ in range(5000)}
    finally:
        stop.set()
        thread.join()
    assert sizes <= {5, 6, 7}


@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float32, torch.complex128])
def test_first_dimensions_of_large_tensors(dtype: Any) -> None:
    parts = [torch.arange(rows * 7).reshape(rows, 7).to(dtype) for rows in (5000, 0, 1, 2000)]
    whole = np.concatenate([x.numpy() for x in parts])
    for given in (parts, [x.t().contiguous().t() for x in parts], [x[:, ::2] for x in parts]):
        made = torch.cat(given)
        assert made.is_contiguous()
        np.testing.assert_array_equal(made.numpy(), whole if given[0].shape[1] == 7 else whole[:, ::2])
    flat = torch.cat([torch.empty(0), *[x.reshape(-1) for x in parts]])
    np.testing.assert_array_equal(flat.numpy(), whole.reshape(-1))
    with pytest.raises(ShapeError):
        torch.cat([parts[0], parts[0][:, 1:]])


def test_the_memory_of_large_results_is_counted() -> None:
    parts = [torch.ones(50000) for _ in range(4)]
    for make in (lambda: torch.cat(parts), lambda: torch.ones(50000), lambda: torch.full((50000,), 2.0),
                 lambda: torch.zeros_like(parts[0]), lambda: torch.fill(parts[0], 3)):
        before, made = torch.cpu.memory_allocated(), make()
        assert torch.cpu.memory_allocated() - before >= made.nbytes
        del made
