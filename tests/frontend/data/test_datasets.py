"""Data sets and what is made of them."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, DatasetError
from tensocket.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tensocket.utils.data.dataset import gathered


def test_rows_of_tensors(rows):
    data = rows(3)
    assert len(data) == 3
    row, number = data[1]
    assert row.tolist() == [2, 3]
    assert number.item() == 1
    assert [part.tolist() for part in data[1:]] == [[[2, 3], [4, 5]], [1, 2]]


def test_tensors_must_have_equally_many_rows():
    with pytest.raises(DatasetError, match=r"\[TensorDataset\] Size mismatch between tensors: first dimensions \[2, 3\]"
                                           " — all tensors have equally many rows"):
        TensorDataset(torch.zeros(2), torch.zeros(3))
    assert issubclass(DatasetError, AssertionError)


def test_unfinished_data_sets():
    with pytest.raises(NotImplementedError, match="Dataset must define __getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="IterableDataset must define __iter__"):
        iter(IterableDataset())
    with pytest.raises(TypeError, match="has no len"):
        len(Dataset())


def test_joined_data_sets():
    both = ConcatDataset([[1, 2, 3], [], [4, 5]])
    assert len(both) == 5
    assert [both[k] for k in range(5)] == [both[k - 5] for k in range(5)] == [1, 2, 3, 4, 5]
    assert both.cumulative_sizes == [3, 3, 5]
    with pytest.warns(FutureWarning, match="renamed"):
        assert both.cummulative_sizes == [3, 3, 5]


def test_data_sets_add_up(squares, stream):
    assert [each for each in (squares(2) + squares(3))] == [0, 1, 0, 1, 4]  # noqa: C416  by index, to an IndexError
    assert list(stream() + stream()) == [*range(7), *range(7)]


def test_index_beyond_joined_data_sets():
    both = ConcatDataset([[1], [2]])
    with pytest.raises(IndexError):
        both[2]
    with pytest.raises(ArgumentError, match=r"\[ConcatDataset\] index -3 of 2 samples — "
                                            "absolute value of index should not exceed dataset length"):
        both[-3]


def test_what_cannot_be_joined(stream):
    with pytest.raises(DatasetError, match=r"should not be an empty iterable — at least one data set is joined"):
        ConcatDataset([])
    with pytest.raises(DatasetError, match=r"ConcatDataset does not support IterableDataset — "
                                           "joined data sets have an index — use ChainDataset"):
        ConcatDataset([[1], stream()])
    chain = ChainDataset([stream(), [1]])
    with pytest.raises(DatasetError, match=r"\[ChainDataset\] a list — ChainDataset only supports IterableDataset"):
        list(chain)


def test_length_of_a_chain(stream):
    class Sized(stream):
        def __len__(self):
            return 7

    assert len(ChainDataset([Sized(), Sized()])) == 14
    with pytest.raises(TypeError):
        len(ChainDataset([stream()]))


def test_data_sets_side_by_side(squares):
    pairs, named = StackDataset([5, 6, 7], squares(3)), StackDataset(x=[5, 6, 7], y=squares(3))
    assert len(pairs) == len(named) == 3
    assert pairs[2] == (7, 4)
    assert named[2] == {"x": 7, "y": 4}
    assert pairs.__getitems__([2, 0]) == [(7, 4), (5, 0)]
    assert named.__getitems__([1]) == [{"x": 6, "y": 1}]


def test_what_cannot_be_side_by_side():
    rule = r"there is at least one data set, and either all have names or none has"
    for args, kwargs in (((), {}), (([1],), {"x": [1]})):
        with pytest.raises(ArgumentError, match=rule):
            StackDataset(*args, **kwargs)
    with pytest.raises(ArgumentError, match=r"Size mismatch between datasets: \[1, 2\] — "
                                            "all data sets have equally many samples"):
        StackDataset([1], [1, 2])


def test_a_stacked_data_set_that_returns_too_few_samples(squares):
    class Short(squares):
        def __getitems__(self, indices):
            return indices[1:]

    with pytest.raises(ArgumentError, match=r"\[StackDataset\] 1 samples for 2 indices — "
                                            "__getitems__ of a nested data set returns one sample for each index"):
        StackDataset(Short(3), [1, 2, 3]).__getitems__([0, 1])


def test_subset(squares):
    part = Subset(squares(), [3, 1])
    assert len(part) == 2
    assert [part[k] for k in range(2)] == [9, 1]
    assert Subset(part, [1]).__getitems__([0, 0]) == [1, 1]
    assert StackDataset(part, [5, 6]).__getitems__([1]) == [(1, 6)]


def test_subset_of_a_data_set_that_takes_lists():
    part = Subset(TensorDataset(torch.arange(10)), [4, 2, 7])
    assert part[[0, 2]][0].tolist() == [4, 7]


def test_rows_are_gathered_through_subsets(rows):
    data = rows(6)
    nested = Subset(Subset(data, [5, 3, 1]), [2, 0])
    x, y = gathered(nested, [1, 0, 1])
    assert x.tolist() == [[10, 11], [2, 3], [10, 11]]
    assert y.tolist() == [5, 1, 5]
    assert gathered(Subset([1, 2], [0]), [0]) is None


def test_split_covers_everything_once_and_repeats_with_the_seed(squares, seeded):
    parts = random_split(squares(), [7, 3], generator=seeded(1))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    again = random_split(squares(), [7, 3], generator=seeded(1))
    assert [part.indices for part in again] == [part.indices for part in parts]


def test_split_by_fractions(squares):
    assert [len(part) for part in random_split(squares(), [0.55, 0.25, 0.2])] == [6, 2, 2]
    with pytest.warns(UserWarning, match=r"Length of split at index 2 is 0"):
        assert [len(part) for part in random_split(squares(2), [0.4, 0.4, 0.2])] == [1, 1, 0]


def test_split_that_does_not_add_up(squares):
    message = (r"\[random_split\] lengths \[7, 2\] for 10 samples — "
               "Sum of input lengths does not equal the length of the input dataset — change them by 1")
    with pytest.raises(ArgumentError, match=message):
        random_split(squares(), [7, 2])
    with pytest.raises(ArgumentError, match=r"Fraction 1.5 at index 0 — a fraction lies between 0 and 1"):
        random_split(squares(), [1.5, -0.5])
