"""The loader in the calling thread."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tensocket import multiprocessing
from tensocket.errors import ArgumentError, ArgumentTypeError, DatasetError
from tensocket.utils.data import DataLoader, Dataset, RandomSampler, get_worker_info


def test_batches_in_order(rows):
    loader = DataLoader(rows(5), batch_size=2)
    assert len(loader) == 3
    assert [(x.tolist(), y.tolist()) for x, y in loader] == [
        ([[0, 1], [2, 3]], [0, 1]), ([[4, 5], [6, 7]], [2, 3]), ([[8, 9]], [4])]
    assert isinstance(next(iter(loader)), list)
    assert len(DataLoader(rows(5), batch_size=2, drop_last=True)) == 2


def test_gathered_batches_equal_collated_ones(rows, seeded):
    data = rows(9)

    class Plain(Dataset):
        __getitem__ = staticmethod(data.__getitem__)
        __len__ = staticmethod(data.__len__)

    quick, slow = (DataLoader(d, batch_size=4, shuffle=True, generator=seeded(4)) for d in (data, Plain()))
    for a, b in zip(quick, slow, strict=True):
        assert [(x.tolist(), x.dtype) for x in a] == [(x.tolist(), x.dtype) for x in b]


def test_shuffled_order_repeats_with_the_seed_and_changes_with_the_epoch(squares, seeded):
    def epochs(seed):
        loader = DataLoader(squares(40), batch_size=8, shuffle=True, generator=seeded(seed))
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


def test_own_collation_sampler_and_batch_sampler(squares):
    assert list(DataLoader(squares(), batch_size=3, collate_fn=sum)) == [5, 50, 149, 81]
    assert [b.tolist() for b in DataLoader(squares(), sampler=[4, 2])] == [[16], [4]]
    assert [b.tolist() for b in DataLoader(squares(), batch_sampler=[[4, 2], [1]])] == [[16, 4], [1]]


def test_data_sets_may_fetch_batches_themselves(squares):
    class Bulk(squares):
        def __getitems__(self, indices):
            return [-i for i in indices]

    assert [b.tolist() for b in DataLoader(Bulk(4), batch_size=2)] == [[0, -1], [-2, -3]]


def test_streams(stream):
    assert [b.tolist() for b in DataLoader(stream(), batch_size=3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [b.tolist() for b in DataLoader(stream(), batch_size=3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert list(DataLoader(stream(), batch_size=None)) == list(range(7))


@pytest.mark.parametrize(("options", "message"), [
    ({"num_workers": -1}, "num_workers=-1 — num_workers option should be non-negative"),
    ({"timeout": -1}, "timeout=-1 — timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor=2 with num_workers=0 — prefetch_factor is a positive number for workers"),
    ({"prefetch_factor": 0, "num_workers": 1}, "prefetch_factor=0 with num_workers=1 — prefetch_factor is a positive"),
    ({"persistent_workers": True}, "persistent_workers=True with num_workers=0 — persistent_workers option needs "
                                   "num_workers > 0"),
    ({"multiprocessing_context": "fork"}, "multiprocessing_context='fork' with num_workers=0 — multiprocessing_context "
                                          "can only be used with worker processes"),
    ({"multiprocessing_context": "foo", "num_workers": 1}, "multiprocessing_context='foo' — the valid start methods "
                                                           "are .* here"),
    ({"worker_method": "task"}, "worker_method='task' — workers are 'multiprocessing' or 'thread'"),
    ({"shuffle": True, "sampler": [1]}, "shuffle=True with a sampler — a sampler is mutually exclusive with shuffle"),
    ({"batch_sampler": [[1]], "batch_size": 2}, "batch_size=2 with a batch_sampler"),
    ({"batch_sampler": [[1]], "drop_last": True}, "drop_last=True with a batch_sampler"),
    ({"batch_size": None, "drop_last": True}, "drop_last=True with batch_size=None"),
])
def test_arguments_that_do_not_go_together(squares, options, message):
    with pytest.raises(ArgumentError, match=r"^\[DataLoader\] " + message):
        DataLoader(squares(), **options)


def test_a_context_is_a_context(squares):
    message = "multiprocessing_context=3 — multiprocessing_context is a start method or a context of multiprocessing"
    with pytest.raises(ArgumentTypeError, match=message):
        DataLoader(squares(), num_workers=1, multiprocessing_context=3)
    loader = DataLoader(squares(), num_workers=1, multiprocessing_context="spawn")
    assert loader.multiprocessing_context is multiprocessing.get_context("spawn")
    assert DataLoader(squares()).multiprocessing_context is None
    given = multiprocessing.get_context("spawn")
    assert DataLoader(squares(), num_workers=1, multiprocessing_context=given).multiprocessing_context is given


def test_a_timeout_needs_workers(squares):
    with pytest.raises(DatasetError, match="timeout=3 with num_workers=0 — a timeout is for workers"):
        iter(DataLoader(squares(), timeout=3))


def test_streams_have_no_order(stream):
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ArgumentError, match=r"with an IterableDataset — an IterableDataset is mutually exclusive"):
            DataLoader(stream(), **options)
    assert len(list(DataLoader(stream(), shuffle=False))) == 7


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset",
                                  "persistent_workers"])
def test_what_others_follow_from_stays(squares, name):
    loader = DataLoader(squares())
    with pytest.raises(ArgumentError, match=f"{name} attribute should not be set after DataLoader is initialized"):
        setattr(loader, name, 3)
    loader.timeout = 0


def test_attributes_have_the_usual_names_and_defaults(squares):
    loader = DataLoader(squares())
    assert isinstance(DataLoader(squares(), shuffle=True).sampler, RandomSampler)
    expected = {"num_workers": 0, "prefetch_factor": None, "pin_memory": False, "pin_memory_device": "", "timeout": 0,
                "worker_init_fn": None, "in_order": True, "batch_size": 1, "drop_last": False, "generator": None,
                "persistent_workers": False, "multiprocessing_context": None}
    assert {name: getattr(loader, name) for name in expected} == expected
    assert DataLoader(squares(), num_workers=1).prefetch_factor == 2


def test_the_length_of_a_stream_is_a_promise(stream):
    class Sized(stream):
        def __len__(self):
            return 5

    assert len(DataLoader(Sized(), batch_size=2)) == 3
    assert len(DataLoader(Sized(), batch_size=2, drop_last=True)) == 2
    assert len(DataLoader(Sized(), batch_size=None)) == 5
    loader = DataLoader(Sized(), batch_size=None)
    assert sum(1 for _ in loader) == 7  # nobody asked for the length
    with pytest.warns(UserWarning, match=r"reported to be 5 \(when accessing len\(dataloader\)\), but [67] samples"):
        assert len(list(loader)) == 7
    with pytest.raises(TypeError):
        len(DataLoader(stream()))


def test_passes_have_a_length_and_end(squares):
    batches = iter(DataLoader(squares(3), batch_size=2))
    assert len(batches) == 2
    assert len(list(batches)) == 2
    assert list(batches) == []


def test_pinned_batches(squares):
    class Graph:
        pinned = False

        def pin_memory(self):
            self.pinned = True
            return self

    loader = DataLoader(squares(2), batch_size=2, collate_fn=lambda batch: [Graph()], pin_memory=True)
    assert [batch[0].pinned for batch in loader] == [True]


def test_too_many_workers_are_worth_a_warning(squares):
    DataLoader(squares()).check_worker_number_rationality()
    with pytest.warns(UserWarning, match="will create 10000 workers in total"):
        DataLoader(squares(), num_workers=10000).check_worker_number_rationality()


def test_there_is_no_worker_here():
    assert get_worker_info() is None


def test_loaders_can_be_pickled():
    loader = pickle.loads(pickle.dumps(DataLoader([1, 2, 3], batch_size=2)))
    assert [batch.tolist() for batch in loader] == [[1, 2], [3]]
