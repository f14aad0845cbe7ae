"""Worker processes: what they give, how they fail, and that nothing remains of them."""

from __future__ import annotations

import gc
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import tensocket as torch
from tensocket import multiprocessing
from tensocket.errors import AutogradError, OutOfMemoryError, WorkerError
from tensocket.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")


class Calls(Dataset):
    """Samples are what a function says of an index, in the worker."""

    def __init__(self, function, size=6):
        self.function = function
        self.size = size

    def __getitem__(self, index):
        return self.function(index)

    def __len__(self):
        return self.size


class TwoArguments(Exception):
    def __init__(self, left, right):
        super().__init__(left, right)
        self.left = left


def loader(function, size=6, **options):
    return DataLoader(Calls(function, size), **{"num_workers": 2, "multiprocessing_context": "fork", **options})


@pytest.fixture(autouse=True)
def _nothing_remains():
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    if files:
        assert len(os.listdir("/proc/self/fd")) <= files + 1  # the resource tracker's, at most


def test_all_kinds_of_batches_in_order():
    def sample(index):
        return {"x": torch.full((3,), float(index)), "name": str(index), "array": np.full(2, index, np.int16)}, index

    batches = list(loader(sample, 7, batch_size=2))
    assert [batch[1].tolist() for batch in batches] == [[0, 1], [2, 3], [4, 5], [6]]
    assert batches[1][0]["x"].tolist() == [[2, 2, 2], [3, 3, 3]]
    assert batches[1][0]["name"] == ["2", "3"]
    assert batches[3][0]["array"].dtype is torch.int16


def test_large_batches_lie_in_shared_memory_and_stay_valid():
    passes = loader(lambda index: torch.full((40000,), float(index)), 24, batch_size=2)
    kept = []
    for count, batch in enumerate(passes):
        assert batch.is_shared()
        assert batch.sum(1).tolist() == [80000.0 * count, 80000.0 * count + 40000]
        batch += 1  # the memory is the receiver's
        if count % 3 == 0:
            kept.append((count, batch[1]))
    gc.collect()
    assert [(count, row.min().item(), row.max().item()) for count, row in kept] == [
        (count, 2 * count + 2, 2 * count + 2) for count in (0, 3, 6, 9)]


def test_other_objects_with_memory():
    column = torch.arange(60000.0).reshape(300, 200)

    def sample(index):
        return {"array": np.full((200, 200), index), "column": column[:, index], "turned": column.T,
                "leaf": torch.zeros(2, requires_grad=True), "long": str(index) * 50000, "half": torch.ones(
                    3, dtype=torch.bfloat16), "number": torch.tensor(5), "none": torch.empty(0, 3)}

    got = next(iter(loader(sample, batch_size=None, collate_fn=lambda x: x)))
    assert got["array"].sum() == 0
    assert got["array"].flags.writeable
    assert got["column"].tolist() == column[:, 0].tolist()
    assert got["column"].untyped_storage().nbytes() == 300 * 4  # not the whole matrix
    assert got["turned"].stride() == (1, 200)
    assert torch.equal(got["turned"], column.T)
    assert got["leaf"].requires_grad
    assert got["long"] == "0" * 50000
    assert got["half"].dtype is torch.bfloat16
    assert got["number"].item() == 5
    assert got["none"].shape == (0, 3)


def test_workers_know_themselves_and_have_one_thread():
    def sample(index):
        info = get_worker_info()
        assert torch.initial_seed() == info.seed
        return info.id, info.num_workers, info.seed, len(info.dataset), torch.get_num_threads(), info.worker_method

    batches = list(loader(sample, 4, collate_fn=lambda batch: batch[0]))
    assert [batch[0] for batch in batches] == [0, 1, 0, 1]
    assert {batch[1] for batch in batches} == {2}
    assert batches[1][2] == batches[0][2] + 1
    assert {batch[3:] for batch in batches} == {(4, 1, "multiprocessing")}


def test_kernels_of_all_kinds_run_in_a_forked_worker():
    left = torch.arange(90000.0).reshape(300, 300) / 9e4
    expected = (left.double() @ left.double()).sum().item()
    assert (left @ left).sum().item() == pytest.approx(expected, rel=1e-4)  # the threads of BLAS run here already

    def sample(index):
        weight = left.clone().requires_grad_()
        loss = torch.nn.functional.gelu(left @ weight).sum()
        loss.backward()
        return (left @ left).sum(), weight.grad.shape[0]

    for product, rows in loader(sample, 2):
        assert product.item() == pytest.approx(expected, rel=1e-4)
        assert rows.item() == 300


def test_order_and_seeds_do_not_depend_on_the_number_of_workers():
    def orders(workers, **options):
        generator = torch.Generator().manual_seed(11)
        options = {"num_workers": workers, "multiprocessing_context": "fork", **options} if workers else {}
        passes = DataLoader(range(20), batch_size=4, shuffle=True, generator=generator, **options)
        return [torch.cat(list(passes)).tolist() for _ in range(2)]

    expected = orders(0)
    assert expected[0] != expected[1]
    assert orders(1, persistent_workers=True) == orders(3) == expected


def test_workers_draw_different_numbers_and_the_same_ones_again():
    def sample(index):
        return torch.rand(()).item(), random.random(), np.random.rand()

    def drawn():
        torch.manual_seed(3)
        return list(loader(sample, 2, collate_fn=lambda batch: batch[0]))

    first, second = drawn()
    assert len({*first, *second}) == 6
    assert drawn() == [first, second]
    torch.manual_seed(3)
    seed = next(iter(loader(lambda index: get_worker_info().seed, 1))).item()
    assert first[0] == torch.rand((), generator=torch.Generator().manual_seed(seed)).item()
    assert first[1] == random.Random(seed).random()


def test_worker_init_fn_runs_first():
    def begin(worker):
        os.environ["TENSOCKET_TEST_WORKER"] = f"worker {worker}"

    names = loader(lambda index: os.environ["TENSOCKET_TEST_WORKER"], 2, worker_init_fn=begin)
    assert [batch[0] for batch in names] == ["worker 0", "worker 1"]
    assert "TENSOCKET_TEST_WORKER" not in os.environ
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in DataLoader worker process 0"):
        next(iter(loader(lambda index: index, worker_init_fn=lambda worker: 1 / 0)))


def test_persistent_workers_live_for_several_passes():
    passes = loader(lambda index: os.getpid(), 4, persistent_workers=True)
    first = {batch.item() for batch in passes}
    abandoned = iter(passes)
    next(abandoned)
    assert {batch.item() for batch in passes} == first
    assert len(first) == 2
    passes._iterator._shutdown_workers()
    assert {batch.item() for batch in passes}.isdisjoint(first)
    alone = loader(lambda index: os.getpid(), 4)
    assert {batch.item() for batch in alone}.isdisjoint({batch.item() for batch in alone})


def test_streams_are_divided_by_the_worker():
    class Share(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            return iter(range(info.id, 9, info.num_workers))

        def __len__(self):
            return 9

    def batches(**options):
        return [b.tolist() for b in DataLoader(Share(), num_workers=2, multiprocessing_context="fork", **options)]

    assert batches(batch_size=2) == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    assert batches(batch_size=2, drop_last=True) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    passes = DataLoader(Share(), batch_size=3, num_workers=2, multiprocessing_context="fork", persistent_workers=True)
    for _ in range(2):
        assert sorted(x for batch in passes for x in batch.tolist()) == list(range(9))


def test_streams_that_are_not_divided_are_reported(stream):
    class Sized(stream):
        def __len__(self):
            return 7

    passes = DataLoader(Sized(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert len(passes) == 7
    with pytest.warns(UserWarning, match="reported to be 7 .* but .+ samples have been fetched. With several workers"):
        assert len(list(passes)) == 14


def test_answers_as_they_come():
    def slow_first(index):
        time.sleep(0.3 if index == 0 else 0.0)
        return index

    got = [batch.item() for batch in loader(slow_first, 6, in_order=False)]
    assert sorted(got) == list(range(6))
    assert got[0] != 0


# ---- failures


@pytest.mark.parametrize("error", [KeyError("lost"), ValueError("bad"), OSError(2, "gone"), TwoArguments(1, 2),
                                   torch.errors.ShapeError("f", "this", "that", "so")])
def test_errors_keep_type_and_traceback(error):
    def broken_sample(index):
        raise error

    with pytest.raises(type(error)) as caught:
        next(iter(loader(broken_sample)))
    assert type(caught.value) is type(error)
    text = str(caught.value)
    assert text.startswith(f"Caught {type(error).__name__} in DataLoader worker process 0.\nOriginal Traceback")
    assert text.count("Traceback (most recent call last)") == 1
    assert "in broken_sample\n    raise error" in text
    assert getattr(caught.value, "left", 1) == 1


def test_a_pass_goes_on_after_an_error_of_the_data_set():
    batches = iter(loader(lambda index: 6 // (index - 2)))
    given = []
    while True:
        try:
            given.append(next(batches).item())
        except ZeroDivisionError:
            given.append(None)
        except StopIteration:
            break
    assert given == [-3, -6, None, 6, 3, 2]


def test_errors_that_cannot_be_sent_or_made_again():
    class Local(Exception):
        pass

    def fail(index):
        raise [Local("here"), UnicodeDecodeError("ascii", b"", 0, 1, "no"), StopIteration()][index]

    for index, name in enumerate(["Local", "UnicodeDecodeError", "StopIteration"]):
        with pytest.raises(RuntimeError, match=f"Caught {name} in DataLoader worker process 0") as caught:
            list(loader(fail, sampler=[index], num_workers=1))
        assert type(caught.value) is RuntimeError


def test_batches_that_cannot_be_sent():
    functions = loader(lambda index: index, collate_fn=lambda batch: lambda: batch)
    with pytest.raises((AttributeError, TypeError, RuntimeError), match="while sending a batch from a DataLoader"):
        next(iter(functions))
    weight = torch.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match=r"a tensor of shape \[2\] made by an operator — only leaf tensors are "
                                            "sent to other processes, because the graph of a tensor stays behind"):
        next(iter(loader(lambda index: weight * 2, batch_size=None)))


def test_a_worker_that_is_killed():
    def sample(index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    with pytest.raises(WorkerError, match=r"worker 1 \(pid \d+\) exited unexpectedly by signal SIGKILL — "
                                          "workers live until their loader ends them — the system kills processes"):
        list(loader(sample, persistent_workers=True))


def test_a_worker_that_is_killed_between_passes_is_replaced_after_the_error():
    passes = loader(lambda index: os.getpid(), 2, num_workers=1, persistent_workers=True)
    first = next(iter(passes)).item()
    os.kill(first, signal.SIGKILL)
    for process in multiprocessing.active_children():
        process.join()
    with pytest.raises(WorkerError, match="exited unexpectedly by signal SIGKILL"):
        iter(passes)
    assert next(iter(passes)).item() != first


def test_a_worker_that_exits():
    with pytest.raises(WorkerError, match=r"exited unexpectedly with exit code 7 — .* — its own output may say more"):
        list(loader(lambda index: os._exit(7), num_workers=1))


def test_a_worker_that_takes_too_long():
    message = "no batch for 0.2 seconds — DataLoader timed out: workers give a batch within the timeout"
    batches = iter(loader(lambda index: time.sleep(600), num_workers=1, timeout=0.2))
    with pytest.raises(WorkerError, match=message):
        next(batches)
    with pytest.raises(WorkerError, match="a pass without its workers — "
                                          "a pass ends with the first worker that is lost, and with an interrupt"):
        next(batches)


def test_a_pass_that_is_abandoned_ends_its_workers():
    batches = iter(loader(lambda index: os.getpid(), 100))
    pids = {next(batches).item() for _ in range(4)}
    assert {process.pid for process in multiprocessing.active_children()} == pids
    del batches
    assert multiprocessing.active_children() == []


def test_requests_and_answers_of_any_size():
    """Neither side waits for the other to read: many outstanding messages that fill the connection."""
    words = [str(k) * 3000 for k in range(300)]
    passes = loader(lambda word: word + word, batch_size=None, sampler=words, prefetch_factor=100)
    assert list(passes) == [word + word for word in words]


def test_without_file_descriptors_there_is_an_error(without_descriptors):
    batches = iter(loader(lambda index: torch.zeros(20000), num_workers=1))
    with without_descriptors(), pytest.raises(
            OutOfMemoryError, match="a message needs a file descriptor, and this process has none left"):
        next(batches)


def test_systems_without_unix_sockets(monkeypatch):
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(WorkerError, match="worker processes send memory through Unix sockets, which this system "
                                          "lacks — pass worker_method='thread'"):
        iter(loader(lambda index: index))


def test_a_child_does_not_end_the_workers_of_its_parent():
    passes = loader(lambda index: index, 4, persistent_workers=True)
    batches = iter(passes)
    next(batches)
    child = os.fork()
    if child == 0:
        passes._iterator.close()
        os._exit(0 if not passes._iterator.is_usable else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [batch.item() for batch in batches] == [1, 2, 3]


def test_what_cannot_be_sent_to_a_spawned_worker():
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        iter(loader(lambda index: index, multiprocessing_context="spawn"))


def test_spawned_workers():
    data = TensorDataset(torch.arange(12.0).reshape(4, 3), torch.arange(4))
    passes = DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert [batch[1].tolist() for batch in passes] == [[0, 1], [2, 3]]
    assert data.tensors[0].is_shared()  # the worker has no copy of the data


PROGRAM = """
import os, signal, sys, time
from tensocket.utils.data import DataLoader, Dataset

# Programs that a shell starts in the background ignore interrupts, and so do those that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index > 3 and sys.argv[1] == "busy":
            time.sleep(600)
        return os.getpid()

passes = iter(DataLoader(Slow(), num_workers=2, multiprocessing_context="fork"))
pids = {next(passes).item() for _ in range(4)}
try:
    print(*pids, flush=True)
    time.sleep(600) if sys.argv[1] == "idle" else next(passes)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(("number", "state"), [(signal.SIGINT, "busy"), (signal.SIGKILL, "idle")])
def test_workers_end_with_their_program(number, state):
    """An interrupt goes to all processes of a terminal; a killed program cannot tell its workers."""
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, state], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    pids = [int(pid) for pid in program.stdout.readline().split()]
    if number == signal.SIGINT:
        os.killpg(program.pid, number)
    else:
        program.send_signal(number)
    # The pipes end when the last process is gone.
    assert program.communicate(timeout=60) == ("interrupted\n" if number == signal.SIGINT else "", "")
    assert program.returncode == (0 if number == signal.SIGINT else -number)
    assert len(pids) == 2
