"""Unrolled composites: calls equal those of the function in values, gradients, state, errors and warnings."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_operators.unrolled import fronts as unrolled

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh_tables")
#: Calls until a composite is unrolled, and some more.
CALLS = 8


@pytest.fixture(autouse=True, params=["operators", "launches"])
def _launched_soon(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolled, "LAUNCHED_CALLS", 2 if request.param == "launches" else 10**9)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """For each composite that was run on stand-ins whether it can be unrolled."""
    answers: dict[str, bool] = {}
    note = unrolled._noted

    def run(composite: Any, *args: Any) -> Any:
        found = note(composite, *args)
        answers[composite.name] = found is not None
        return found

    monkeypatch.setattr(unrolled, "_noted", run)
    return answers


def grid(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


#: The composite, a call, and its reference on float64 arrays.
CASES: dict[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "var": ("var", lambda x, y: x.var(1), lambda x, y: x.var(1, ddof=1)),
    "mse": ("mse_loss", lambda x, y: F.mse_loss(x, y), lambda x, y: ((x - y) ** 2).mean()),
    "smooth_l1": ("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
                  lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5)),
    "tril": ("tril", lambda x, y: x.tril(-1), lambda x, y: np.tril(x, -1)),
    "kron": ("kron", torch.kron, np.kron),
    "cross": ("cross", lambda x, y: torch.cross(x[:, :3], y[:, :3], dim=1),
              lambda x, y: np.cross(x[:, :3], y[:, :3])),
    "movedim": ("movedim", lambda x, y: x.movedim(0, 1), lambda x, y: np.moveaxis(x, 0, 1)),
    "logsumexp": ("logsumexp", lambda x, y: x.logsumexp(1), lambda x, y: np.log(np.exp(x).sum(1))),
    "broadcast": ("broadcast_to", lambda x, y: torch.broadcast_to(x, (2, *x.shape)),
                  lambda x, y: np.broadcast_to(x, (2, *x.shape))),
    "cosine": ("cosine_similarity", F.cosine_similarity,
               lambda x, y: (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("leaves", [(), (0,), (0, 1)])
def test_values_and_gradients(name: str, leaves: tuple[int, ...], noted: dict[str, bool]) -> None:
    composite, run, reference = CASES[name]
    for seed in range(CALLS):
        for shape in ((4, 5), (3, 6)):
            given = [grid(*shape, seed=2 * seed + k) for k in range(2)]
            tensors = [torch.tensor(x, requires_grad=k in leaves) for k, x in enumerate(given)]
            found = run(*tensors)
            expected = reference(*given)
            np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
            assert found.requires_grad == (0 in leaves)
            if leaves:
                upstream, step = np.cos(np.arange(found.numel())).reshape(found.shape), 1e-6
                found.backward(torch.tensor(upstream))
                along = np.sin(np.arange(given[0].size)).reshape(given[0].shape)
                ends = [(reference(given[0] + sign * step * along, given[1]) * upstream).sum() for sign in (1, -1)]
                slope = (tensors[0].grad.numpy() * along).sum()
                np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)
    assert noted[composite]


def test_layouts_and_dtypes_change() -> None:
    for seed in range(CALLS):
        for dtype in (torch.float64, torch.float32):
            values = grid(6, 4, seed=seed)
            for x in (torch.tensor(values, dtype=dtype), torch.tensor(values.T.copy(), dtype=dtype).T,
                      torch.tensor(np.repeat(values, 2, 1), dtype=dtype)[:, ::2]):
                found = x.std(0)
                assert found.dtype == dtype
                np.testing.assert_allclose(found.double().numpy(), values.std(0, ddof=1), rtol=1e-5)
                assert torch.equal(x.diff(dim=0), x[1:] - x[:-1])


def test_numbers_of_equal_value_are_told_apart() -> None:
    x, mask = torch.zeros(3), torch.tensor([True, False, True])
    whole = torch.tensor([1, 2, 3])
    for _ in range(CALLS):
        for number in (0.0, -0.0):
            filled = x.masked_fill(mask, number)
            assert np.signbit(filled.numpy()).tolist() == [bool(np.signbit(number)), False, bool(np.signbit(number))]
        for number, dtype in ((2, torch.int64), (2.0, torch.float32)):
            assert torch.rsub(whole, number).dtype == dtype
        with pytest.raises(RuntimeError, match="bool"):
            torch.rsub(whole, True)


def test_one_tensor_in_two_places_and_two_tensors() -> None:
    for seed in range(CALLS):
        x, y = (torch.tensor(grid(3, 4, seed=2 * seed + k)) for k in range(2))
        for a, b in ((x, x), (x, y), (y, y), (y, x)):
            np.testing.assert_allclose(F.mse_loss(a, b).item(), ((a.numpy() - b.numpy()) ** 2).mean(), atol=1e-15)


def test_lists_of_tensors() -> None:
    for seed in range(CALLS):
        for count in (2, 3):
            parts = [torch.tensor(grid(2, 3, seed=seed + k)) for k in range(count)]
            np.testing.assert_array_equal(torch.vstack(parts).numpy(), np.vstack([x.numpy() for x in parts]))
            np.testing.assert_array_equal(torch.vstack(parts[::-1]).numpy(),
                                          np.vstack([x.numpy() for x in parts[::-1]]))


def test_views_share_memory_counters_and_bases() -> None:
    base = torch.zeros(4, 6)
    for source in (base, base[1:3], base.t()):
        for _ in range(CALLS):
            found = torch.movedim(source, 0, 1)
            assert found._base is base
            before = base._version
            found.add_(1.0)
            assert (base._version, source._version, found._version) == (before + 1,) * 3
            assert found.data_ptr() == source.data_ptr()
            assert found.stride() == source.stride()[::-1]
    assert base.max().item() == 3.0 * CALLS


def test_views_of_one_call_must_not_be_modified() -> None:
    x = torch.ones(4, requires_grad=True) * 1
    for _ in range(CALLS):
        for part in x.chunk(2):
            with pytest.raises(RuntimeError, match="multiple views"):
                part.add_(1)


def test_in_place_composites_write_and_count() -> None:
    x = torch.zeros(5)
    for k in range(CALLS):
        assert x.index_fill_(0, torch.tensor([1]), float(k)) is x
        assert x.tolist() == [0.0, float(k), 0.0, 0.0, 0.0]
        assert x._version == k + 1


def test_random_numbers_advance() -> None:
    x = torch.ones(64)
    torch.manual_seed(3)
    found = [F.rrelu(-x, training=True).tolist() for _ in range(CALLS)]
    assert len({tuple(row) for row in found}) == CALLS
    torch.manual_seed(3)
    composite = COMPOSITES["rrelu"]
    again = [composite.body(-x, 1 / 8, 1 / 3, True).tolist() for _ in range(CALLS)]
    assert found == again


def test_modes_of_a_thread() -> None:
    x = torch.tensor(grid(3, 4), requires_grad=True)
    for _ in range(CALLS):
        with torch.no_grad():
            found, part = x.var(1), x.narrow(0, 0, 2)
        assert not found.requires_grad
        with pytest.raises(RuntimeError, match="no_grad"):
            part.add_(1)
        with torch.inference_mode():
            assert x.var(1).is_inference()
        assert x.var(1).requires_grad


def test_the_default_dtype_is_that_of_the_call() -> None:
    x = torch.tensor([1, 2, 3])
    for _ in range(CALLS):
        for dtype in (torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            try:
                assert torch.float_power(x.to(torch.int32), 2).dtype == torch.float64
                assert torch.kron(x, torch.tensor(0.5)).dtype == dtype
            finally:
                torch.set_default_dtype(torch.float32)


def test_warnings_come_with_every_call(noted: dict[str, bool]) -> None:
    x = torch.tensor(grid(1, 1, 3, 3))
    for _ in range(CALLS):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            F.upsample_bilinear(x, scale_factor=2)
        assert len(caught) == 1
    assert not noted["upsample_bilinear"]


def test_errors_are_those_of_the_first_call() -> None:
    good, bad = torch.eye(4).reshape(2, 2, 2, 2), torch.zeros(2, 2, 2, 2)

    def message(x: Any) -> str:
        with pytest.raises(RuntimeError) as caught:
            torch.linalg.tensorinv(x, 2)
        return str(caught.value)

    first = message(bad)
    for _ in range(CALLS):
        assert torch.linalg.tensorinv(good, 2).shape == (2, 2, 2, 2)
        assert message(bad) == first


@pytest.mark.parametrize(("name", "run"), [
    ("allclose", lambda x: torch.allclose(x, x)), ("as_strided", lambda x: x.as_strided((2,), (1,)))])
def test_functions_that_read_elements_or_storage_are_not_unrolled(
        name: str, run: Callable[[Any], Any], noted: dict[str, bool]) -> None:
    for seed in range(CALLS):
        run(torch.tensor(grid(3, 4, seed=seed)))
    assert noted[name] is False


def test_replaced_kernels_are_called() -> None:
    x = torch.tensor(grid(3, 4))
    for _ in range(CALLS):
        before = x.var(1)
    library = torch.library.Library("aten", "IMPL")
    library.impl("sub", lambda x, y: torch.zeros_like(x), "CPU")
    try:
        for _ in range(CALLS):
            assert torch.dist(x, x + 1).item() == 0.0
    finally:
        library._destroy()
    for _ in range(CALLS):
        assert torch.dist(x, x + 1).item() > 1.0
        assert torch.equal(x.var(1), before)


def test_a_recorded_call_keeps_no_tensor() -> None:
    x = torch.tensor(grid(3, 4))
    for _ in range(CALLS):
        F.cosine_similarity(x, x + 1)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_values_that_change_with_every_call_are_not_recorded() -> None:
    x = torch.tensor(grid(30, 4))
    for k in range(30):
        np.testing.assert_array_equal(torch.rsub(x, k).numpy(), k - x.numpy())
    (closure,) = COMPOSITES["rsub"].table.values()
    assert not closure.__globals__["_call"].__self__._known
