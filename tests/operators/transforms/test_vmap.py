"""``vmap`` around the function: arguments that are shared, chunks, draws, and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.random import Generator, positions
from tensocket_operators.transforms import chunk_vmap, restore_vmap, vmap
from tensocket_plugins.contract.errors import ShapeError

X = np.sin(np.arange(30.0)).reshape(5, 6).astype(np.float32)


def tensor(values: Any) -> Any:
    return torch.tensor(values.tolist() if isinstance(values, np.ndarray) else values)


def same(result: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(result.tolist()), expected, rtol=1e-6)


def drawn(x: Any) -> Any:
    return x + torch.rand_like(x)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 9])
def test_chunks_with_the_same_draws_draw_what_one_call_does(chunk_size: int) -> None:
    torch.manual_seed(4)
    before = positions()
    whole = vmap(drawn, randomness="same")(tensor(X))
    after = positions()
    # All examples draw one row.
    rows = np.array(whole.tolist()) - X
    np.testing.assert_allclose(rows, np.broadcast_to(rows[:1], rows.shape), atol=1e-6)
    torch.manual_seed(4)
    assert positions() == before
    same(vmap(drawn, randomness="same", chunk_size=chunk_size)(tensor(X)), whole.tolist())
    assert positions() == after  # The generator moves as by one call.


def test_chunks_with_the_same_draws_restart_the_programs_own_generators() -> None:
    own = Generator().manual_seed(4)
    rows = np.array(vmap(lambda x: x + torch.rand((5,), generator=own), randomness="same", chunk_size=2)(
        torch.zeros(4, 5)).tolist())
    assert rows.any()
    np.testing.assert_array_equal(rows, np.broadcast_to(rows[:1], rows.shape))


@pytest.mark.parametrize("chunk_size", [1, 2, 5])
def test_chunks_with_different_draws_draw_anew(chunk_size: int) -> None:
    rows = np.array(vmap(drawn, randomness="different", chunk_size=chunk_size)(tensor(X)).tolist()) - X
    assert len({tuple(row.round(5)) for row in rows}) == len(rows)


@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("in_dim", "out_dim"), [(0, 0), (1, -1), (-1, 1)])
def test_a_number_of_chunks(chunks: int, in_dim: int, out_dim: int) -> None:
    result = chunk_vmap(lambda x: x * 2, in_dim, out_dim, chunks=chunks)(tensor(X))
    same(result, 2 * X)
    torch.manual_seed(1)
    whole = vmap(drawn, randomness="same")(tensor(X))
    torch.manual_seed(1)
    same(chunk_vmap(drawn, randomness="same", chunks=chunks)(tensor(X)), whole.tolist())


def test_keyword_arguments_are_shared() -> None:
    result = vmap(lambda x, y: x + y)(tensor(X[:, 0]), y=tensor(X[:, 1]))
    same(result, X[:, :1] + X[:, 1])


def test_what_is_mapped_keeps_its_name() -> None:
    def double(x: Any) -> Any:
        """Twice."""
        return 2 * x

    mapped = vmap(double)
    assert (mapped.__name__, mapped.__doc__) == ("double", "Twice.")
    with pytest.raises(ValueError, match=r"functools\.partial\(double, \.\.\.\)"):
        vmap(partial(double, x=1))()


@pytest.mark.parametrize("batched", [(0, None), (0, 1), (None, None)])
def test_restored_batches_say_where_they_are(batched: Any) -> None:
    x, y = tensor(X[:3, :3]), tensor(X[:3, 3:])

    def function(x: Any, y: Any) -> Any:
        return x + 1, [y * 2, "text"]

    (first, (second, text)), dims = restore_vmap(function, batched, 3, "error")(x, y)
    same(first, X[:3, :3] + 1)
    same(second, 2 * (X[:3, 3:].T if batched[1] == 1 else X[:3, 3:]))
    assert text == "text"
    assert dims == (batched[0], [None if batched[1] is None else 0, None])


@pytest.mark.parametrize("transform", [vmap, chunk_vmap])
def test_errors_leave_nothing_behind(transform: Callable[..., Any]) -> None:
    def fails(x: Any) -> Any:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        transform(fails)(tensor(X))
    same(tensor(X) + 1, X + 1)
    assert tensor(X).sum().item() == pytest.approx(X.sum())


@pytest.mark.parametrize(("size", "stride", "offset"), [((5,), (1,), 0), ((2, 3), (3, 1), 0), ((2,), (1,), 3)])
def test_views_that_reach_out_of_an_example_are_refused(
        size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> None:
    rows = torch.zeros(3, 4)
    with pytest.raises(ShapeError, match="can access memory outside of `tensor` — views in vmap stay within the "
                                         "elements of their example — choose a smaller size, stride or offset"):
        vmap(lambda x: x.as_strided(size, stride, offset))(rows)
    assert vmap(lambda x: x.as_strided((2, 2), (2, 1), 0))(rows).shape == (3, 2, 2)
    assert vmap(lambda x: x.as_strided((0, 9), (9, 1), 0))(rows).shape == (3, 0, 9)


def test_new_tensors_with_strides_are_one_for_each_example() -> None:
    seen: list[Any] = []

    def transposed(x: Any) -> Any:
        made = x.new_empty_strided((2, 3), (1, 2))
        seen.append(made.stride())
        return made.copy_(x.expand(3, 2).t())

    result = vmap(transposed)(tensor(X[:, :2]))
    same(result, np.repeat(X[:, :2, None], 3, 2))
    assert seen == [(1, 2)]
    assert result.stride() == (6, 1, 2)
