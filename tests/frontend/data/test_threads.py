"""Worker threads."""

from __future__ import annotations

import gc
import threading

import pytest

import tensocket as torch
from tensocket.errors import WorkerError
from tensocket.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Calls(Dataset):
    def __init__(self, function, size=6):
        self.function = function
        self.size = size

    def __getitem__(self, index):
        return self.function(index)

    def __len__(self):
        return self.size


def loader(function, size=6, **options):
    return DataLoader(Calls(function, size), **{"num_workers": 2, "worker_method": "thread", **options})


@pytest.fixture(autouse=True)
def _nothing_remains():
    yield
    gc.collect()  # a caught error holds the pass by its traceback
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tensocket-data")]


def test_batches_come_in_order_and_without_copies():
    rows = torch.arange(12.0).reshape(6, 2)
    batches = list(loader(lambda index: rows[index], batch_size=None))
    assert [batch.tolist() for batch in batches] == rows.tolist()
    assert batches[0].data_ptr() == rows.data_ptr()


def test_workers_work_at_the_same_time():
    """Each of two samples waits for the other."""
    meeting = threading.Barrier(2, timeout=60)
    assert [batch.item() for batch in loader(lambda index: (meeting.wait(), index)[1], 2)] == [0, 1]


def test_orders_are_those_of_one_thread(seeded):
    def order(**options):
        passes = DataLoader(range(20), batch_size=3, shuffle=True, generator=seeded(4), **options)
        return [torch.cat(list(passes)).tolist() for _ in range(2)]

    expected = order()
    assert order(num_workers=3, worker_method="thread") == expected
    assert order(num_workers=2, worker_method="thread", persistent_workers=True) == expected


def test_threads_have_generators_of_their_own():
    def sample(index):
        info = get_worker_info()
        generators = info.rng
        return (info.worker_method, info.id, torch.rand((), generator=generators.torch_generator).item(),
                generators.random_generator.random(), generators.numpy_generator.random())

    def drawn():
        torch.manual_seed(5)
        return list(loader(sample, 4, collate_fn=lambda batch: batch[0]))

    first = drawn()
    assert [(method, number) for method, number, *_ in first] == [("thread", 0), ("thread", 1)] * 2
    assert len({number for _, _, *numbers in first for number in numbers}) == 12
    assert drawn() == first
    assert get_worker_info() is None


def test_errors_keep_type_and_traceback():
    def broken_sample(index):
        raise KeyError("lost")

    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker thread 0") as caught:
        next(iter(loader(broken_sample)))
    assert "in broken_sample" in str(caught.value)


def test_a_thread_that_takes_too_long():
    go_on = threading.Event()
    with pytest.raises(WorkerError, match="DataLoader timed out"):
        list(loader(lambda index: go_on.wait(60), timeout=0.1))
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("tensocket-data")]
    go_on.set()
    for thread in threads:
        thread.join()


def test_streams():
    class Share(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            return iter(range(info.id, 7, info.num_workers))

    batches = DataLoader(Share(), batch_size=2, num_workers=2, worker_method="thread")
    assert [batch.tolist() for batch in batches] == [[0, 2], [1, 3], [4, 6], [5]]
