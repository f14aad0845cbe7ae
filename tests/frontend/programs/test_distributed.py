"""Programs for several processes run as one."""

from __future__ import annotations

import pytest

import tensocket as torch
import tensocket.distributed as dist
from tensocket import errors, nn, notices
from tensocket.distributed import _functional_collectives
from tensocket.distributed.algorithms import Join, Joinable, JoinHook
from tensocket.distributed.device_mesh import init_device_mesh
from tensocket.distributed.fsdp import FullyShardedDataParallel
from tensocket.distributed.tensor import DTensor, Partial, Replicate, Shard
from tensocket.nn.parallel import DataParallel, DistributedDataParallel, data_parallel, gather, parallel_apply, scatter


@pytest.fixture
def world(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    dist.init_process_group("nccl", init_method="env://")
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_nothing_is_there_before():
    assert dist.is_available()
    assert not dist.is_initialized()
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, dist.destroy_process_group,
                 lambda: dist.all_reduce(torch.ones(1)), lambda: DistributedDataParallel(nn.Linear(1, 1))):
        with pytest.raises(ValueError, match="the default process group has not been initialized"):
            call()


def test_the_world_has_one_process(world):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "nccl")
    assert dist.get_process_group_ranks(dist.group.WORLD) == [0]
    assert dist.get_global_rank(dist.group.WORLD, 0) == dist.get_group_rank(dist.group.WORLD, 0) == 0
    with pytest.raises(errors.ProcessGroupError, match="there is one default process group"):
        dist.init_process_group()
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_larger_worlds_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(errors.ProcessGroupError, match="programs run as 1 process"):
        dist.init_process_group("gloo")
    with pytest.raises(errors.ProcessGroupError, match="programs run as 1 process"):
        dist.init_process_group("gloo", world_size=1, rank=1)
    assert not dist.is_initialized()


def test_groups(world):
    group = dist.new_group([0], backend="gloo")
    assert (dist.get_rank(group), group.size(), dist.get_backend(group)) == (0, 1, "gloo")
    assert dist.get_rank(dist.new_group([])) == dist.get_world_size(dist.new_group([])) == -1
    assert dist.new_subgroups()[1][0].size() == 1
    dist.destroy_process_group(group)
    with pytest.raises(errors.ProcessGroupError, match="the group has 1 process, of rank 0"):
        dist.new_group([0, 1])


def test_collectives_keep_or_copy(world):
    x = torch.tensor([1.0, 2.0])
    for op in dist.ReduceOp:
        dist.all_reduce(x, op)
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    assert x.tolist() == [1, 2]
    work = dist.all_reduce(x, async_op=True)
    assert work.wait()
    assert work.is_completed()
    assert work.get_future().value()[0] is x
    results = [torch.zeros(2) for _ in range(6)]
    dist.all_gather([results[0]], x)
    dist.all_gather_into_tensor(results[1], x)
    dist.gather(x, [results[2]])
    dist.scatter(results[3], [x])
    dist.reduce_scatter(results[4], [x])
    dist.all_to_all_single(results[5], x)
    assert all(result.equal(x) for result in results)
    dist.all_to_all([results[0]], [x + 1])
    dist.reduce_scatter_tensor(results[1], x + 1)
    assert results[0].tolist() == results[1].tolist() == [2, 3]
    dist.barrier()
    dist.monitored_barrier()


def test_objects(world):
    lists = [[None] for _ in range(3)]
    dist.all_gather_object(lists[0], {"a": 1})
    dist.gather_object({"a": 1}, lists[1])
    dist.scatter_object_list(lists[2], [{"a": 1}])
    dist.broadcast_object_list(lists[0])
    assert lists == [[{"a": 1}]] * 3


def test_wrong_ranks_and_lists(world):
    with pytest.raises(errors.ProcessGroupError, match="the group has 1 process, of rank 0"):
        dist.broadcast(torch.ones(1), 1)
    with pytest.raises(errors.ProcessGroupError, match="there is one tensor for each of the 1 processes"):
        dist.all_gather([torch.ones(1), torch.ones(1)], torch.ones(1))
    with pytest.raises(errors.ProcessGroupError, match="messages go to another process, and there is 1 process"):
        dist.send(torch.ones(1), 1)


def test_local_rank(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert dist.get_node_local_rank() == 3
    monkeypatch.delenv("LOCAL_RANK")
    assert dist.get_node_local_rank(1) == 1
    with pytest.raises(errors.ProcessGroupError, match="the environment tells the local rank"):
        dist.get_node_local_rank()


def test_names_of_what_is_not_there():
    assert dist.is_gloo_available()
    assert not (dist.is_nccl_available())
    assert not (dist.is_mpi_available())
    assert not (dist.is_torchelastic_launched())
    assert dist.is_backend_available("gloo")


def test_collectives_with_gradients(world):
    x = torch.ones(2, requires_grad=True)
    (dist.nn.all_reduce(x) * 2 + dist.nn.all_gather(x)[0] + dist.nn.broadcast(x, 0) + dist.nn.reduce(x, 0)
     ).sum().backward()
    assert x.grad.tolist() == [5, 5]
    for call in (_functional_collectives.all_reduce, ):
        assert call(x, "sum", dist.group.WORLD).equal(x)
    assert _functional_collectives.wait_tensor(x) is x


def test_meshes(world):
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    assert (mesh.ndim, mesh.size(), mesh.get_rank(), mesh["data"].get_local_rank()) == (2, 1, 0, 0)
    assert mesh.get_group("data") is dist.group.WORLD
    with pytest.raises(errors.ProcessGroupError, match="a mesh has one element for each of the 1 processes"):
        init_device_mesh("cpu", (2,))


def test_distributed_modules(world):
    model = nn.Linear(2, 1)
    wrapped = DistributedDataParallel(model, device_ids=None, find_unused_parameters=True)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with wrapped.no_sync():
        wrapped(torch.ones(1, 2)).sum().backward()
        assert not wrapped.require_backward_grad_sync
    assert wrapped.require_backward_grad_sync
    with wrapped.join():
        wrapped(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[2, 2]]
    wrapped.register_comm_hook(None, print)


def test_parallel_modules(monkeypatch):
    notices.reset_notices()
    model = nn.Linear(2, 1)
    wrapped = nn.DataParallel(model)
    assert isinstance(wrapped, DataParallel)
    assert wrapped.module is model
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert wrapped(torch.ones(3, 2)).equal(model(torch.ones(3, 2)))
    assert data_parallel(model, torch.ones(3, 2), ["cpu"]).equal(model(torch.ones(3, 2)))
    monkeypatch.setattr("tensocket.cuda.is_available", lambda: True)
    assert DataParallel(model, ["cpu", "cpu"])(torch.ones(3, 2)).shape == (3, 1)
    assert [notice.subject for notice in notices.notices()] == ["DataParallel"]


def test_parts_of_batches():
    x = torch.arange(6.0).reshape(3, 2)
    parts = scatter(([x], {"y": x, "n": 1}), ["cpu", "cpu"])
    assert [part[0][0].shape for part in parts] == [(2, 2), (1, 2)]
    assert parts[1][1]["n"] == 1
    assert gather([part[0][0] for part in parts], "cpu").equal(x)
    assert gather([{"a": (x,)}, {"a": (x,)}], "cpu")["a"][0].shape == (6, 2)
    assert gather([torch.tensor(1.0), torch.tensor(2.0)], "cpu").tolist() == [1, 2]
    assert gather([None, None], "cpu") is None
    model = nn.Linear(2, 1)
    assert len(parallel_apply(nn.parallel.replicate(model, ["cpu", "cpu"]), [(x,), x])) == 2


def test_optimizers_of_one_process(world):
    from tensocket.distributed.optim import ZeroRedundancyOptimizer

    model = nn.Linear(2, 1)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.5, momentum=0.9)
    before = model.bias.item()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert model.bias.item() == pytest.approx(before - 0.5)
    optimizer.zero_grad()
    assert model.bias.grad is None
    optimizer.consolidate_state_dict()
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert dist.distributed_c10d._get_default_group() is dist.group.WORLD


def test_named_arguments_are_divided_too():
    x = torch.arange(4.0)
    positional, named = nn.parallel.scatter_gather.scatter_kwargs((x,), {"y": x[:2]}, ["cpu", "cpu"])
    assert [part[0].tolist() for part in positional] == [[0, 1], [2, 3]]
    assert [part["y"].tolist() for part in named] == [[0], [1]]


def test_one_process_joins_as_the_last(world):
    joined = []

    class Hook(JoinHook):
        def post_hook(self, is_last_joiner):
            joined.append(is_last_joiner)

    class Counter(Joinable):
        join_device = torch.device("cpu")
        join_process_group = dist.group.WORLD

        def join_hook(self, **kwargs):
            assert kwargs == {"scale": 2}
            return Hook()

    model, counter = DistributedDataParallel(nn.Linear(2, 1)), Counter()
    with Join([counter], scale=2):
        assert Join.notify_join_context(counter) is None
        assert not joined
    assert joined == [True]
    with Join([counter], enable=False, scale=2):
        pass
    with Join([model]):
        model(torch.ones(1, 2)).sum().backward()
    assert joined == [True]
    assert model.join_device.type == "cpu"
    assert isinstance(model, Joinable)
    with pytest.raises(errors.ArgumentError, match="a block joins at least one object"):
        Join([])
    counter.join_process_group = None
    with pytest.raises(errors.ArgumentError, match="the objects share one group"):
        Join([model, counter])


def test_no_tensor_is_spread():
    spread = Shard(1)
    assert spread.is_shard()
    assert spread.is_shard(1)
    assert not spread.is_shard(0)
    assert not spread.is_replicate()
    assert Replicate().is_replicate()
    assert Partial().is_partial("sum")
    assert not Partial("max").is_partial("sum")
    assert not isinstance(torch.ones(1), DTensor)
    with pytest.raises(errors.ProcessGroupError, match="one process has its tensors whole"):
        DTensor(torch.ones(1), None)


def test_one_process_has_all_parameters(world):
    model = nn.Linear(2, 1)
    sharded = FullyShardedDataParallel(model, sync_module_states=True)
    with sharded.no_sync(), FullyShardedDataParallel.summon_full_params(sharded, writeback=False):
        sharded(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[1, 1]]
    assert sharded.clip_grad_norm_(0.5).item() == pytest.approx(3**0.5)
    assert model.bias.grad.item() == pytest.approx(0.5 / 3**0.5, rel=1e-5)
    with pytest.raises(errors.ArgumentError, match="the module computes in its own dtypes"):
        FullyShardedDataParallel(model, mixed_precision=torch.float16)
