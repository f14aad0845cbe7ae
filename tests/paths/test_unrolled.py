"""Unrolled composites: calls equal those of the function in values, gradients, state, errors and warnings."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_operators.kinds.composite import composite
from tensocket_operators.unrolled import fronts as unrolled
from tensocket_operators.unrolled.notes import outline

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


def test_slices_are_compared_by_their_bounds(noted: dict[str, bool]) -> None:
    values = grid(3, 6, 4)
    x = torch.tensor(values, requires_grad=True)
    for _ in range(CALLS):
        np.testing.assert_array_equal(x[:, 1:3].detach(), values[:, 1:3])
    assert noted["getitem"]
    bound = torch.tensor(1)
    for index in (slice(2, 3), slice(1, None), slice(None, 3), slice(1, 3, 2), slice(True, 3), slice(bound, 3),
                  slice(np.int64(0), 3), slice(0, 0), slice(-3, -1)):
        plain = slice(*[None if k is None else int(k) for k in (index.start, index.stop, index.step)])
        np.testing.assert_array_equal(x[:, index].detach(), values[:, plain])
    between = slice(bound, 5)
    for k in range(1, 5):
        bound.fill_(k)
        np.testing.assert_array_equal(x[:, between].detach(), values[:, k:5])
    for index in (slice(1.0, 3), slice(1, "3"), slice(1, 3, 1.0)):
        with pytest.raises(torch.errors.ArgumentTypeError, match=r"^\[index\] a slice with a bound of type "
                           "(float|str) — slice indices must be integers or None or have an __index__ method — conv"):
            x[:, index]
    (x[:, 1:3] * 2).sum().backward()
    expected = np.zeros_like(values)
    expected[:, 1:3] = 2
    np.testing.assert_array_equal(x.grad, expected)


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


def test_results_that_cease_to_be_views_have_no_base(noted: dict[str, bool]) -> None:
    for seed in range(CALLS):
        values, vector = grid(4, 6, seed=seed), grid(6, seed=seed + 99)
        x = torch.tensor(values)
        for found, expected in ((x.t().reshape(24), values.T.reshape(24)), (x.t().flatten(), values.T.flatten()),
                                (torch.matmul(x, torch.tensor(vector)), values @ vector)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
            assert found._base is None
            found.add_(1.0)
            np.testing.assert_array_equal(x, values)
    assert noted["reshape"]
    assert noted["flatten"]


def test_parameters_without_recording(noted: dict[str, bool]) -> None:
    for seed in range(CALLS):
        values = grid(20, seed=seed)
        x = torch.nn.Parameter(torch.tensor(values))
        with torch.no_grad():
            found, wide = x.std(), x.broadcast_to((2, 20))
        np.testing.assert_allclose(found, values.std(ddof=1), rtol=1e-12)
        np.testing.assert_array_equal(wide.detach(), np.stack([values, values]))
        assert not found.requires_grad
        assert x.grad is None
    assert noted["std"]


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


def test_layouts_that_values_decide_are_those_of_each_call() -> None:
    for seed in range(CALLS):
        for values in np.random.default_rng(seed).integers(0, 3, (4, 5)):
            x = torch.tensor(values)
            np.testing.assert_array_equal(torch.unique(x).numpy(), np.unique(values))
            np.testing.assert_array_equal(torch.argwhere(x).numpy(), np.argwhere(values))
            parts = torch.tensor_split(x, torch.tensor([int(values[0])]))
            assert [part.tolist() for part in parts] == [part.tolist() for part in np.split(values, [values[0]])]


@pytest.fixture
def padded() -> Iterator[Any]:
    """A composite whose own code cannot know that the layout of an operator inside depends on values."""

    @composite("padded_positive(Tensor input) -> Tensor", method=False)
    def padded_positive(input: Any) -> Any:
        """Return the positive elements, then as many zeros."""
        found = input.masked_select(input > 0)
        return torch.cat([found, torch.zeros(found.shape[0], dtype=found.dtype)])

    yield COMPOSITES["padded_positive"]
    del COMPOSITES["padded_positive"]


def test_a_layout_that_turns_out_to_depend_on_values(padded: Any) -> None:
    for seed in (*[0] * CALLS, *range(3 * CALLS)):
        values = grid(5, seed=seed)
        found = values[values > 0]
        np.testing.assert_array_equal(padded(torch.tensor(values)).numpy(), [*found, *np.zeros(len(found))])


def test_lists_without_end_are_not_recorded() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="levels"):
        outline(endless)
    x = torch.zeros(3)
    for _ in range(CALLS):
        with pytest.raises(TypeError):
            x[endless]


def test_memory_and_its_readers_are_no_part_of_keys() -> None:
    for value in (torch.Generator(), torch.zeros(2).untyped_storage(), print, np.zeros(2)):
        with pytest.raises(TypeError):
            outline((value,))
    assert outline((1, True, None)) != outline((True, 1, None))
    assert outline(([1], 0.0)) != outline(((1,), 0.0)) != outline(((1,), -0.0))


def test_hooks_on_saved_tensors_see_only_the_calls() -> None:
    x, seen = torch.tensor(grid(3, 4), requires_grad=True), []
    with torch.autograd.graph.saved_tensors_hooks(lambda value: seen.append(value) or value, lambda value: value):
        counts = []
        for _ in range(CALLS):
            F.mse_loss(x, x * 2)
            counts.append(len(seen))
    assert len(set(np.diff(counts))) == 1


def test_subclasses_keep_their_methods(noted: dict[str, bool]) -> None:
    class Doubling(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        def permute(self, *dims: Any) -> Any:
            return torch.Tensor.permute(self, *dims) * 2

    x = torch.tensor(grid(3, 4)).as_subclass(Doubling)
    expected = COMPOSITES["movedim"].body(x, 0, 1)
    for _ in range(CALLS):
        assert torch.equal(torch.movedim(x, 0, 1), expected)
    assert not noted.get("movedim", False)


def test_threads_record_and_change_the_default_dtype_at_once() -> None:
    whole, failures = torch.tensor([1, 2, 3]), []

    def run(seed: int) -> None:
        for k in range(20 * CALLS):
            x, y = (torch.tensor(grid(2 + seed % 2, 3, seed=2 * k + j)) for j in range(2))
            if abs(F.mse_loss(x, y).item() - ((x.numpy() - y.numpy()) ** 2).mean()) > 1e-12:
                failures.append((seed, k))
            if torch.kron(whole, whole).tolist() != np.kron([1, 2, 3], [1, 2, 3]).tolist():
                failures.append((seed, k))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_launches_of_another_default_dtype_serve_no_other_calls() -> None:
    x, y = torch.tensor([1, 2, 3]), torch.tensor(0.5, dtype=torch.float16)
    for first, second in ((torch.float64, torch.float32), (torch.float32, torch.float64)):
        for dtype in (*[first] * CALLS, second, first, second):
            torch.set_default_dtype(dtype)
            try:
                assert torch.true_divide(x, 2).mean().dtype == dtype
                assert torch.std(x / 2).dtype == dtype
                assert torch.kron(x, y).dtype == torch.float16
            finally:
                torch.set_default_dtype(torch.float32)


def test_nothing_remains_of_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, copies = unrolled._copied, []

    def watched(value: Any) -> Any:
        made = copy(value)
        copies.append(weakref.ref(made)) if hasattr(made, "_key") else None
        return made

    monkeypatch.setattr(unrolled, "_copied", watched)
    gc.disable()
    try:
        for run in (lambda x: torch.allclose(x, x), lambda x: x.as_strided((2,), (1,)), lambda x: x.var(1)):
            x, before = torch.tensor(grid(3, 4)), len(copies)
            for _ in range(4 * CALLS):
                run(x)
            assert len(copies) > before
            assert not [x for x in copies if x() is not None]
    finally:
        gc.enable()


@pytest.mark.parametrize("recorded", [True, False])
def test_calls_with_four_shapes_in_turn(monkeypatch: pytest.MonkeyPatch, recorded: bool) -> None:
    def refuse(front: Any, mode: Any, args: Any) -> Any:
        raise AssertionError("a call with one of the last four shapes was looked up")

    arrays = [grid(3, 5), grid(6, 7, seed=1), grid(2, 2, seed=2), grid(4, 3, seed=3), grid(5, 5, seed=4)]
    tensors = [torch.tensor(array) for array in arrays]
    with torch.set_grad_enabled(recorded):
        for _ in range(20):
            for array, x in zip(arrays, tensors, strict=True):
                np.testing.assert_allclose(torch.std(x, 0).numpy(), array.std(0, ddof=1))
        for x in tensors[:4] * 2:
            torch.std(x, 0)
        monkeypatch.setattr(unrolled._Front, "find", refuse)
        for k in (0, 1, 0, 1, 1, 3, 2, 0, 3, 3, 2):
            np.testing.assert_allclose(torch.std(tensors[k], 0).numpy(), arrays[k].std(0, ddof=1))
        with pytest.raises(AssertionError):
            torch.std(tensors[4], 0)


def test_two_shapes_in_turn_with_gradients_and_modes() -> None:
    arrays = [grid(3, 5), grid(6, 7, seed=1)]
    for turn in range(40):
        for array in arrays:
            x = torch.tensor(array, requires_grad=turn % 3 == 0)
            made = F.mse_loss(x, torch.zeros(array.shape, dtype=torch.float64))
            np.testing.assert_allclose(made.item(), (array ** 2).mean())
            assert made.requires_grad == (turn % 3 == 0)
            with torch.no_grad():
                assert not F.mse_loss(x, x * 0).requires_grad
