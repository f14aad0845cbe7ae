"""Data sets, samplers, collation and the loader."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError, ShapeError
from tensocket.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)


class Squares(Dataset):
    def __init__(self, size=10):
        self.size = size

    def __getitem__(self, index):
        return index**2

    def __len__(self):
        return self.size


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(7))


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def rows(size=10):
    return TensorDataset(torch.arange(2 * size).reshape(size, 2), torch.arange(size))


# ---- data sets


def test_rows_of_tensors():
    data = rows(3)
    assert len(data) == 3
    row, number = data[1]
    assert row.tolist() == [2, 3]
    assert number.item() == 1


def test_tensors_must_have_equally_many_rows():
    with pytest.raises(ShapeError, match=r"\[TensorDataset\] first dimensions \[2, 3\] — "
                                         "all tensors have equally many rows"):
        TensorDataset(torch.zeros(2), torch.zeros(3))


def test_subset():
    part = Subset(Squares(), [3, 1])
    assert len(part) == 2
    assert [part[k] for k in range(2)] == [9, 1]


def test_split_covers_everything_once_and_repeats_with_the_seed():
    parts = random_split(Squares(), [7, 3], generator=seeded(1))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    again = random_split(Squares(), [7, 3], generator=seeded(1))
    assert [part.indices for part in again] == [part.indices for part in parts]


def test_split_by_fractions():
    assert [len(part) for part in random_split(Squares(), [0.55, 0.25, 0.2])] == [6, 2, 2]


def test_split_that_does_not_add_up():
    message = (r"\[random_split\] lengths \[7, 2\] for 10 samples — "
               "lengths add up to the number of samples, or fractions to one — change them")
    with pytest.raises(ArgumentError, match=message):
        random_split(Squares(), [7, 2])


# ---- samplers


def test_sequential_order():
    assert list(SequentialSampler(Squares(4))) == [0, 1, 2, 3]


def test_random_order_is_a_new_permutation_every_time():
    sampler = RandomSampler(Squares(50), generator=seeded(2))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(RandomSampler(Squares(50), generator=seeded(2))) == first


def test_random_order_follows_the_global_seed():
    torch.manual_seed(7)
    first = list(RandomSampler(Squares(50)))
    torch.manual_seed(7)
    assert list(RandomSampler(Squares(50))) == first
    assert list(RandomSampler(Squares(50))) != first


def test_draws_with_replacement():
    drawn = list(RandomSampler(Squares(5), replacement=True, num_samples=200, generator=seeded(3)))
    assert len(drawn) == 200
    assert set(drawn) == set(range(5))


def test_more_samples_than_there_are():
    drawn = list(RandomSampler(Squares(4), num_samples=10, generator=seeded(3)))
    assert sorted(drawn[:4]) == sorted(drawn[4:8]) == [0, 1, 2, 3]
    assert len(drawn) == 10


def test_at_least_one_sample():
    with pytest.raises(ArgumentError, match=r"\[RandomSampler\] num_samples=0 — at least one sample is drawn"):
        RandomSampler(Squares(0))


@pytest.mark.parametrize(("drop", "expected"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])])
def test_batches_of_indices(drop, expected):
    sampler = BatchSampler(SequentialSampler(Squares(7)), 3, drop)
    assert list(sampler) == expected
    assert len(sampler) == len(expected)


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_batch_size_is_a_positive_int(size):
    with pytest.raises(ArgumentError, match=r"\[BatchSampler\] batch_size=.* — batch_size is a positive int"):
        BatchSampler(SequentialSampler(Squares()), size, False)


# ---- collation


def test_numbers_become_tensors():
    assert default_collate([1, 2]).dtype is torch.int64
    assert default_collate([1.0, 2.0]).dtype is torch.float64
    assert default_collate([True, False]).dtype is torch.bool
    assert default_collate([np.float32(1), np.float32(2)]).dtype is torch.float32


def test_structures_are_collated_by_parts():
    Point = namedtuple("Point", "x y")
    batch = default_collate([{"p": Point(1, torch.ones(2)), "name": "a"}, {"p": Point(2, torch.zeros(2)), "name": "b"}])
    assert batch["p"].x.tolist() == [1, 2]
    assert batch["p"].y.tolist() == [[1, 1], [0, 0]]
    assert batch["name"] == ["a", "b"]
    assert [part.tolist() for part in default_collate([(1, [2, 3]), (4, [5, 6])])[1]] == [[2, 5], [3, 6]]
    assert default_collate([np.zeros(3), np.ones(3)]).shape == (2, 3)


def test_samples_without_a_batch():
    message = (r"\[default_collate\] samples of type object — "
               "a sample consists of tensors, arrays, numbers, strings, mappings and sequences")
    with pytest.raises(ArgumentTypeError, match=message):
        default_collate([object()])
    with pytest.raises(ArgumentError, match=r"\[default_collate\] sequences of lengths \[1, 2\] — "
                                            "samples have equally many parts"):
        default_collate([[1], [1, 2]])


# ---- loader


def test_batches_in_order():
    loader = DataLoader(rows(5), batch_size=2)
    assert len(loader) == 3
    assert [(x.tolist(), y.tolist()) for x, y in loader] == [
        ([[0, 1], [2, 3]], [0, 1]), ([[4, 5], [6, 7]], [2, 3]), ([[8, 9]], [4])]
    assert isinstance(next(iter(loader)), list)
    assert len(DataLoader(rows(5), batch_size=2, drop_last=True)) == 2


def test_gathered_batches_equal_collated_ones():
    data = rows(9)

    class Plain(Dataset):
        __getitem__ = staticmethod(data.__getitem__)
        __len__ = staticmethod(data.__len__)

    quick, slow = (DataLoader(d, batch_size=4, shuffle=True, generator=seeded(4)) for d in (data, Plain()))
    for a, b in zip(quick, slow, strict=True):
        assert [(x.tolist(), x.dtype) for x in a] == [(x.tolist(), x.dtype) for x in b]


def test_shuffled_order_repeats_with_the_seed_and_changes_with_the_epoch():
    def epochs(seed):
        loader = DataLoader(Squares(40), batch_size=8, shuffle=True, generator=seeded(seed))
        return [[x for batch in loader for x in batch.tolist()] for _ in range(2)]

    first = epochs(5)
    assert epochs(5) == first
    assert first[0] != first[1]
    assert epochs(6) != first
    assert sorted(first[0]) == [k**2 for k in range(40)]


def test_single_samples():
    data = [(np.ones(2), 3), (np.zeros(2), 4)]
    samples = list(DataLoader(data, batch_size=None))
    assert samples[0][0].tolist() == [1, 1]
    assert samples[0][1] == 3


def test_own_collation_sampler_and_batch_sampler():
    assert list(DataLoader(Squares(), batch_size=3, collate_fn=sum)) == [5, 50, 149, 81]
    assert [b.tolist() for b in DataLoader(Squares(), sampler=[4, 2])] == [[16], [4]]
    assert [b.tolist() for b in DataLoader(Squares(), batch_sampler=[[4, 2], [1]])] == [[16, 4], [1]]


def test_data_sets_may_fetch_batches_themselves():
    class Bulk(Squares):
        def __getitems__(self, indices):
            return [-i for i in indices]

    assert [b.tolist() for b in DataLoader(Bulk(4), batch_size=2)] == [[0, -1], [-2, -3]]


def test_streams():
    assert [b.tolist() for b in DataLoader(Stream(), batch_size=3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [b.tolist() for b in DataLoader(Stream(), batch_size=3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert list(DataLoader(Stream(), batch_size=None)) == list(range(7))


@pytest.mark.parametrize(("options", "message"), [
    ({"num_workers": 2}, "num_workers=2 — "
                         "samples are loaded in the calling process; there are no worker processes yet — pass"),
    ({"timeout": 3}, r"timeout=3 with num_workers=0 — timeout is for worker processes"),
    ({"prefetch_factor": 2}, r"prefetch_factor=2 with num_workers=0"),
    ({"persistent_workers": True}, r"persistent_workers=True with num_workers=0"),
    ({"shuffle": True, "sampler": [1]}, r"shuffle=True with a sampler — a sampler excludes shuffle"),
    ({"batch_sampler": [[1]], "batch_size": 2}, r"batch_size=2 with a batch_sampler"),
    ({"batch_sampler": [[1]], "drop_last": True}, r"drop_last=True with a batch_sampler"),
    ({"batch_size": None, "drop_last": True}, r"drop_last=True with batch_size=None"),
])
def test_arguments_that_do_not_go_together(options, message):
    with pytest.raises(ArgumentError, match=r"^\[DataLoader\] " + message):
        DataLoader(Squares(), **options)


def test_streams_have_no_order():
    with pytest.raises(ArgumentError, match=r"\[DataLoader\] shuffle=True with an IterableDataset"):
        DataLoader(Stream(), shuffle=True)


def test_pinned_memory_warns():
    with pytest.warns(UserWarning, match="pin_memory has no effect yet"):
        DataLoader(Squares(), pin_memory=True)


def test_unfinished_data_sets():
    with pytest.raises(NotImplementedError, match="Dataset must define __getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="IterableDataset must define __iter__"):
        iter(IterableDataset())
