"""Rows at positions on devices of groups and lanes: as words where they consist of words, by a group where they are
long and many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.ir.target import Target

NAME = "gathers_runs"
#: Rows from which a group copies each, and elements.
ROWS, LANES = 4, 8


@pytest.fixture(scope="module")
def groups(make_plain: Callable[..., ModuleType]) -> Iterator[str]:
    target = Target("simt", group_size=LANES, parallelism=ROWS, local_bytes=4096)
    registry().add(make_plain(NAME, target=target), name=NAME, distribution="the tests of the operators")
    yield NAME
    registry().remove(NAME)


def dtypes_of_programs(device: str) -> set[tuple[str, str]]:
    """Names and element types of the gathers that the device has compiled."""
    state = tc.zeros(1, device=device)._device_state
    return {(key[0][0], key[0][1].name) for key in state.programs if str(key[0][0]).startswith("gather")}


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "int64"])
@pytest.mark.parametrize("columns", [3, 8, 16, 24, 64, 65])
@pytest.mark.parametrize("first", [0, 1, 8])
def test_rows_are_numpys(groups: str, dtype: str, columns: int, first: int) -> None:
    values = np.random.default_rng(columns).integers(0, 2 if dtype == "bool" else 99, (11, columns + 8)).astype(dtype)
    table, wanted = tc.tensor(values, device=groups)[:, first:first + columns], values[:, first:first + columns]
    for places in ([3], [0, 10, 10, 1, -1, 5], [[2, 2], [7, 0], [4, 1]]):
        np.testing.assert_array_equal(table[tc.tensor(places, device=groups)]._host(), wanted[np.array(places)])


def test_planes_of_several_dimensions(groups: str) -> None:
    values = np.random.default_rng(0).standard_normal((6, 5, 4, 8)).astype(np.float32)
    x, places = tc.tensor(values, device=groups), [4, 0, 0, 3, 1]
    for axis in (0, 1, 2):
        chosen = [k % values.shape[axis] for k in places]
        index = tc.tensor(chosen, device=groups)
        np.testing.assert_array_equal(x.index_select(axis, index)._host(), values.take(chosen, axis))
        turned = x.transpose(2, 3).index_select(0, index)
        np.testing.assert_array_equal(turned._host(), values.swapaxes(2, 3)[chosen])


@pytest.mark.parametrize(("rows", "columns", "program"), [
    (ROWS, 2 * LANES, ("gather_rows", "uint64")), (ROWS - 1, 2 * LANES, ("gather", "uint64")),
    (ROWS, 2 * LANES - 2, ("gather", "uint64")), (ROWS, 2 * LANES + 1, ("gather_rows", "float32")),
    (ROWS - 1, 2 * LANES + 1, ("gather", "float32")), (ROWS, 4, ("gather", "float32")),
])
def test_words_and_groups(groups: str, rows: int, columns: int, program: tuple[str, str]) -> None:
    table, places = tc.ones(9, columns, device=groups), tc.tensor([8] * rows, device=groups)
    table._device_state.programs.clear()
    assert table[places].sum().item() == rows * columns
    assert dtypes_of_programs(groups) == {program}
