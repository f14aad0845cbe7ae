"""Samplers: which indices, in what order, how often."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace

import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def test_an_unfinished_sampler():
    with pytest.raises(NotImplementedError, match="Sampler must define __iter__"):
        iter(Sampler())


def test_sequential_order(squares):
    assert list(SequentialSampler(squares(4))) == [0, 1, 2, 3]


def test_random_order_is_a_new_permutation_every_time(squares, seeded):
    sampler = RandomSampler(squares(50), generator=seeded(2))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(RandomSampler(squares(50), generator=seeded(2))) == first


def test_random_order_follows_the_global_seed(squares):
    torch.manual_seed(7)
    first = list(RandomSampler(squares(50)))
    torch.manual_seed(7)
    assert list(RandomSampler(squares(50))) == first
    assert list(RandomSampler(squares(50))) != first


def test_draws_with_replacement(squares, seeded):
    drawn = list(RandomSampler(squares(5), replacement=True, num_samples=200, generator=seeded(3)))
    assert len(drawn) == 200
    assert set(drawn) == set(range(5))


def test_more_samples_than_there_are(squares, seeded):
    sampler = RandomSampler(squares(4), num_samples=10, generator=seeded(3))
    drawn = list(sampler)
    assert sorted(drawn[:4]) == sorted(drawn[4:8]) == [0, 1, 2, 3]
    assert len(drawn) == len(sampler) == 10


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_the_number_of_samples_is_positive(squares, count):
    message = r" num_samples=.* — num_samples should be a positive integer value"
    with pytest.raises(ArgumentError, match=r"\[RandomSampler\]" + message):
        RandomSampler(squares(3), num_samples=count)
    with pytest.raises(ArgumentError, match=r"\[WeightedRandomSampler\]" + message):
        WeightedRandomSampler([1.0], count)


def test_samples_of_nothing(squares):
    with pytest.raises(ArgumentError, match=r"\[RandomSampler\] num_samples=0"):
        RandomSampler(squares(0))


def test_replacement_is_a_bool():
    with pytest.raises(ArgumentTypeError, match=r"\[RandomSampler\] replacement=2 — replacement is a bool"):
        RandomSampler([1], replacement=2)
    with pytest.raises(ArgumentError, match=r"\[WeightedRandomSampler\] replacement=2 — replacement is a bool"):
        WeightedRandomSampler([1.0], 1, 2)


def test_a_random_order_of_chosen_indices(seeded):
    sampler = SubsetRandomSampler([30, 10, 20], generator=seeded(1))
    assert len(sampler) == 3
    orders = {tuple(sampler) for _ in range(40)}
    assert len(orders) == 6
    assert {tuple(sorted(order)) for order in orders} == {(10, 20, 30)}


def test_weights_are_probabilities(seeded):
    sampler = WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=seeded(5))
    drawn = list(sampler)
    assert len(sampler) == len(drawn) == 4000
    assert drawn.count(1) == 0
    # Binomial with p = 3/4: mean 3000, standard deviation 27.
    assert 2850 < drawn.count(2) < 3150
    assert sorted(WeightedRandomSampler([1, 5, 2], 3, replacement=False)) == [0, 1, 2]


def test_weights_have_one_dimension():
    with pytest.raises(ArgumentError, match=r"weights of shape \[1, 2\] — weights should be a 1d sequence"):
        WeightedRandomSampler([[1.0, 2.0]], 1)


@pytest.mark.parametrize(("drop", "expected"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])])
def test_batches_of_indices(squares, drop, expected):
    sampler = BatchSampler(SequentialSampler(squares(7)), 3, drop)
    assert list(sampler) == expected
    assert len(sampler) == len(expected)


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_batch_size_is_a_positive_int(squares, size):
    with pytest.raises(ArgumentError, match=r"\[BatchSampler\] batch_size=.* — batch_size is a positive int"):
        BatchSampler(SequentialSampler(squares()), size, False)


def test_drop_last_is_a_bool():
    with pytest.raises(ArgumentError, match=r"\[BatchSampler\] drop_last=0 — drop_last is a bool"):
        BatchSampler([1], 1, 0)


# ---- shares of processes


@pytest.mark.parametrize("shuffle", [False, True])
def test_shares_cover_everything(shuffle):
    shares = [list(DistributedSampler(range(10), 3, rank, shuffle=shuffle)) for rank in range(3)]
    assert [len(share) for share in shares] == [4, 4, 4]
    assert {index for share in shares for index in share} == set(range(10))
    dropped = [list(DistributedSampler(range(10), 3, rank, shuffle=shuffle, drop_last=True)) for rank in range(3)]
    assert [len(share) for share in dropped] == [3, 3, 3]
    assert len({index for share in dropped for index in share}) == 9


def test_shares_of_little_data():
    shares = [list(DistributedSampler(range(2), 5, rank, shuffle=False)) for rank in range(5)]
    assert shares == [[0], [1], [0], [1], [0]]
    assert list(DistributedSampler(range(2), 5, 4, drop_last=True)) == []


def test_shares_are_shuffled_by_seed_and_epoch():
    sampler = DistributedSampler(range(40), 2, 1, seed=3)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(DistributedSampler(range(40), 2, 1, seed=4)) == list(sampler)
    assert len(sampler) == 20


def test_rank_and_count_of_processes(monkeypatch):
    with pytest.raises(ArgumentError, match=r"Invalid rank 2 of 2 — rank should be in the interval from 0 to "
                                            "num_replicas - 1"):
        DistributedSampler([1], 2, 2)
    group = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False, get_rank=lambda: 1,
                            get_world_size=lambda: 2)
    monkeypatch.setitem(sys.modules, "tensocket.distributed", group)
    with pytest.raises(ArgumentError, match=r"a share has a number and a count; the default process group has not been "
                                            "initialized"):
        DistributedSampler([1])
    group.is_initialized = lambda: True
    assert list(DistributedSampler([1, 2, 3, 4], shuffle=False)) == [1, 3]


def test_more_random_indices_than_anyone_takes():
    sampler = RandomSampler(range(10), replacement=True, num_samples=10**12)
    assert set(itertools.islice(sampler, 3000)) == set(range(10))
    assert len(list(RandomSampler(range(10), replacement=True, num_samples=2500))) == 2500


def test_orders_are_drawn_when_the_first_index_is_asked_for():
    """So that a seed set after ``iter`` counts, as in PyTorch."""
    for sampler in (RandomSampler(range(20)), SubsetRandomSampler(range(20)), WeightedRandomSampler([1.0] * 20, 20)):
        passes = [iter(sampler), iter(sampler)]
        orders = []
        for each in passes:
            torch.manual_seed(0)
            orders.append(list(each))
        assert orders[0] == orders[1]
