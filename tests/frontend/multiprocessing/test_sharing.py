"""Tensors between processes: both see the same memory."""

from __future__ import annotations

import operator
import os
import pickle
import signal
import sys
import time

import numpy as np
import pytest

import tensocket as torch
from tensocket import multiprocessing
from tensocket.errors import ArgumentError, ArgumentTypeError, AutogradError, OutOfMemoryError
from tensocket.multiprocessing import reductions
from tensocket.multiprocessing.spawn import ProcessException

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")


def in_child(function, *args):
    """Run a function in a forked child, which has to succeed."""
    process = multiprocessing.get_context("fork").Process(target=function, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0


# ---- sharing memory


def test_a_shared_tensor_is_changed_by_a_child():
    tensor = torch.zeros(5)
    assert not tensor.is_shared()
    assert tensor.share_memory_() is tensor
    assert tensor.is_shared()
    in_child(lambda: tensor.add_(3))
    assert tensor.tolist() == [3] * 5
    alone = torch.zeros(5)
    in_child(lambda: alone.add_(3))
    assert alone.tolist() == [0] * 5


def test_all_tensors_on_the_memory_move():
    base = torch.arange(12.0).reshape(3, 4)
    row, turned, same, untouched = base[1], base.T, base.detach(), base.clone()
    storage = base.untyped_storage()
    row.share_memory_()
    for tensor in (base, row, turned, same):
        assert tensor.is_shared()
    assert not untouched.is_shared()
    assert storage.is_shared()
    assert storage == base.untyped_storage() == turned.untyped_storage()
    in_child(lambda: turned[2, 1].fill_(100))
    assert base[1, 2].item() == row[2].item() == same[1, 2].item() == 100
    assert base.stride() == (4, 1)
    assert row.storage_offset() == 4
    assert torch.equal(untouched, torch.arange(12.0).reshape(3, 4))


def test_storages_can_be_shared():
    tensor = torch.ones(3)
    assert tensor.untyped_storage().share_memory_().is_shared()
    assert tensor.is_shared()


def test_modules_are_shared_with_their_gradients_and_trained_by_children():
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    model.share_memory()
    assert all(parameter.is_shared() for parameter in model.parameters())
    weight = model.weight.detach().clone()

    def train():
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    in_child(train)
    in_child(train)
    assert torch.equal(model.weight, weight - 1 - 1)  # rounded as often


def test_odd_tensors():
    empty, number, half = torch.empty(0, 3), torch.tensor(7), torch.ones(3, dtype=torch.bfloat16)
    for tensor in (empty, number, half):
        before = tensor.clone()
        assert tensor.share_memory_().is_shared()
        assert torch.equal(tensor, before)
    assert np.shares_memory(number.numpy(), number.share_memory_().numpy())


def test_systems_without_files_in_memory(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tensor = torch.zeros(3).share_memory_()
    in_child(lambda: tensor.add_(2))
    assert tensor.tolist() == [2, 2, 2]
    assert list(tmp_path.iterdir()) == []


def test_tensors_of_transforms_have_no_memory_to_share():
    with pytest.raises(ArgumentTypeError, match=r"\[share_memory_\] a BatchTensor without memory of its own — tensors "
                                                "of transforms live within their call"):
        torch.vmap(lambda x: x.share_memory_())(torch.ones(2))


def test_shared_memory_is_given_back():
    def mapped():
        with open("/proc/self/maps") as maps:
            return sum("memfd:tensocket" in line for line in maps)

    if not os.path.exists("/proc/self/maps"):
        pytest.skip("only Linux lists what is mapped")
    before = mapped()
    tensor = torch.zeros(1000).share_memory_()
    view = tensor[5:]
    assert mapped() == before + 1
    del tensor
    assert view.sum().item() == 0
    assert mapped() == before + 1
    del view
    assert mapped() == before


def test_no_memory_to_share(without_descriptors):
    tensor = torch.ones(3)
    message = r"\[share_memory\] 12 bytes — the system gives no shared memory: Too many open files"
    with without_descriptors(), pytest.raises(OutOfMemoryError, match=message):
        tensor.share_memory_()
    assert tensor.share_memory_().tolist() == [1, 1, 1]


# ---- sending tensors


def test_a_sent_tensor_is_the_same_memory():
    context = multiprocessing.get_context("fork")
    there, back = context.SimpleQueue(), context.SimpleQueue()
    matrix = torch.arange(6.0).reshape(2, 3).T
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.note = "kept"

    def child():
        received, weight = there.get()
        received[0, 1] = 50
        back.put((received, weight, type(weight).__name__, weight.requires_grad, weight.note))
        there.get()  # the parent has received all

    process = context.Process(target=child)
    process.start()
    there.put((matrix, parameter))
    returned, weight, name, requires_grad, note = back.get()
    there.put(None)
    process.join()
    assert process.exitcode == 0
    assert matrix[0, 1].item() == 50
    assert returned.stride() == matrix.stride() == (1, 3)
    returned[2, 1] = 60
    assert matrix[2, 1].item() == 60
    assert (name, requires_grad, note) == ("Parameter", True, "kept")
    weight.data.fill_(4)
    assert parameter.tolist() == [4, 4]


def test_a_graph_is_not_sent():
    with pytest.raises(AutogradError, match="only leaf tensors are sent to other processes"):
        multiprocessing.reduction.ForkingPickler.dumps(torch.ones(2, requires_grad=True) * 2)


def test_other_tensors_are_pickled_as_usual():
    parts = torch.zeros(3, device="meta")
    assert reductions.reduce_tensor(parts)[0] is parts.__reduce_ex__(2)[0]


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_strategies_of_holding_received_memory(strategy):
    assert multiprocessing.get_sharing_strategy() == "file_descriptor"
    assert multiprocessing.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    multiprocessing.set_sharing_strategy(strategy)
    try:
        assert multiprocessing.get_sharing_strategy() == strategy
        sent = torch.arange(3.0)
        received = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(sent))
        received += 1
        assert sent.tolist() == [1, 2, 3]
        again = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(received))
        again += 1
        assert sent.tolist() == ([2, 3, 4] if strategy == "file_descriptor" else [1, 2, 3])
        assert again.tolist() == [2, 3, 4]
    finally:
        multiprocessing.set_sharing_strategy("file_descriptor")


def test_unknown_strategies():
    with pytest.raises(ArgumentError, match="the strategy is 'file_descriptor' or 'file_system'"):
        multiprocessing.set_sharing_strategy("names")


# ---- starting processes


def forked(function, *args, **options):
    return multiprocessing.start_processes(function, args, start_method="fork", **options)


def test_all_names_of_the_standard_module():
    import multiprocessing as standard

    assert set(standard.__all__) <= set(multiprocessing.__all__)
    assert multiprocessing.cpu_count() == standard.cpu_count()


def test_processes_have_numbers_and_arguments():
    seen = torch.zeros(3).share_memory_()
    assert forked(lambda index, factor: seen[index].fill_(index * factor), 10, nprocs=3) is None
    assert seen.tolist() == [0, 10, 20]


def test_processes_that_are_not_waited_for():
    context = forked(lambda index: time.sleep(0.05), nprocs=2, join=False)
    assert len(context.pids()) == 2
    assert not context.join(timeout=0)
    while not context.join():
        pass
    assert context.join()


def test_an_error_in_a_process_ends_the_others():
    def fail(index):
        if index == 1:
            raise ValueError("one is bad")
        time.sleep(600)

    with pytest.raises(multiprocessing.ProcessRaisedException) as caught:
        forked(fail, nprocs=2)
    assert "-- Process 1 terminated with the following error:\nTraceback" in str(caught.value)
    assert "ValueError: one is bad" in str(caught.value)
    assert caught.value.error_index == 1
    assert isinstance(caught.value, ProcessException)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(("leave", "text", "code", "name"), [
    (lambda index: os.kill(os.getpid(), signal.SIGKILL), "terminated with signal SIGKILL", -9, "SIGKILL"),
    (lambda index: sys.exit(3), "terminated with exit code 3", 3, None),
])
def test_processes_that_exit(leave, text, code, name):
    with pytest.raises(multiprocessing.ProcessExitedException, match="process 0 " + text) as caught:
        forked(leave)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.exit_code, error.signal_name) == (code, name)


def test_spawn_takes_one_method():
    with pytest.warns(FutureWarning, match="use start_processes"), pytest.raises(
            multiprocessing.ProcessRaisedException, match="ZeroDivisionError"):
        multiprocessing.spawn(operator.floordiv, (0,), start_method="fork")
