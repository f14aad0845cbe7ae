"""Names of PyTorch's distributed modules that libraries for training use, for one process."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tensocket as torch
from tensocket import distributed as dist
from tensocket import nn
from tensocket.distributed import distributed_c10d, fsdp, optim, pipelining, rpc
from tensocket.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from tensocket.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from tensocket.distributed.algorithms.model_averaging import averagers
from tensocket.distributed.fsdp.wrap import enable_wrap, wrap
from tensocket.distributed.launcher import api as launcher
from tensocket.distributed.tensor import DTensor, experimental, parallel
from tensocket.distributed.tensor.experimental import _attention
from tensocket.errors import ArgumentError, ProcessGroupError, UnsupportedOperator


@pytest.fixture
def group():
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x).tanh()


@pytest.mark.parametrize(("wrapper", "calls"), [
    (wrappers.checkpoint_wrapper, 2), (wrappers.offload_wrapper, 1),
    (lambda m: wrappers.checkpoint_wrapper(m, wrappers.CheckpointImpl.REENTRANT), 2)])
def test_wrapped_modules_have_the_same_gradients(wrapper, calls):
    plain = Counting()
    wrapped = wrapper(copy.deepcopy(plain))
    x = torch.tensor(np.linspace(-1, 1, 6).reshape(2, 3), dtype=torch.float32, requires_grad=True)
    plain(x).sum().backward()
    expected = plain.linear.weight.grad.clone()
    wrapped(x).sum().backward()
    np.testing.assert_allclose(wrapped.linear.weight.grad.numpy(), expected.numpy(), rtol=1e-6)
    assert wrapped.calls == calls


def test_wrapped_modules_have_the_names_of_the_modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1), nn.ReLU()))
    names = list(model.state_dict())
    saved = copy.deepcopy(model.state_dict())
    wrappers.apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, nn.Linear))
    assert [isinstance(part, wrappers.CheckpointWrapper) for part in model] == [True, False]
    assert list(model.state_dict()) == names
    assert [name for name, _ in model[0].named_parameters()] == ["weight", "bias"]
    assert model.load_state_dict({name: value + 1 for name, value in saved.items()}).missing_keys == []
    assert model[0].weight.tolist() == (saved["0.weight"] + 1).tolist()


def test_a_policy_chooses_the_wrapped_modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 50))
    wrappers.apply_activation_checkpointing(
        model, auto_wrap_policy=lambda module, recurse, nonwrapped_numel: nonwrapped_numel > 100)
    assert [isinstance(part, wrappers.CheckpointWrapper) for part in model] == [False, True]
    inner = wrappers.checkpoint_wrapper(nn.Sequential(nn.ReLU()))
    assert isinstance(inner[0], nn.ReLU)


def test_fully_sharded_modules_give_their_state(group):
    inner = fsdp.FullyShardedDataParallel(nn.Linear(2, 1))
    model = fsdp.FullyShardedDataParallel(nn.Sequential(nn.Linear(2, 2), inner))
    assert fsdp.FullyShardedDataParallel.fsdp_modules(model) == [model, inner]
    assert fsdp.FullyShardedDataParallel.fsdp_modules(model, root_only=True) == [model]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    with fsdp.FullyShardedDataParallel.state_dict_type(model, fsdp.StateDictType.FULL_STATE_DICT):
        saved = fsdp.FullyShardedDataParallel.optim_state_dict(model, optimizer)
    names = [name for name, _ in model.named_parameters()]
    assert sorted(saved["state"]) == sorted(names) == sorted(saved["param_groups"][0]["params"])
    other = torch.optim.Adam(model.parameters(), lr=0.5)
    fsdp.FullyShardedDataParallel.optim_state_dict_to_load(model, other, saved, load_directly=True)
    assert other.param_groups[0]["lr"] == 0.1
    parameter = next(model.parameters())
    assert other.state[parameter]["exp_avg"].tolist() == optimizer.state[parameter]["exp_avg"].tolist()


def test_modules_are_wrapped_within_a_block():
    class Wrapper(nn.Module):
        def __init__(self, module, factor):
            super().__init__()
            self.module, self.factor = module, factor

    inside = nn.ReLU()
    assert wrap(inside) is inside
    with enable_wrap(wrapper_cls=Wrapper, factor=2):
        assert [wrap(inside).factor, wrap(inside, factor=3).factor] == [2, 3]
    assert wrap(inside) is inside


def test_averages_of_one_process_change_nothing(group):
    parameter = nn.Parameter(torch.ones(2))
    averager = averagers.PeriodicModelAverager(period=2)
    averager.average_parameters([parameter])
    assert (averager.step, parameter.tolist()) == (1, [1.0, 1.0])
    with pytest.raises(ArgumentError, match=r"\[PeriodicModelAverager\] period=0 — Arg ``period`` must be a positive "
                       "value. — pass 1 or more"):
        averagers.PeriodicModelAverager(period=0)
    with pytest.raises(ArgumentError, match=r"\[PeriodicModelAverager\] warmup_steps=-1 — Arg ``warmup_steps`` must be "
                       "a non-negative number. — pass 0 or more"):
        averagers.PeriodicModelAverager(period=1, warmup_steps=-1)


def test_messages_go_to_other_processes(group):
    message = dist.P2POp(dist.isend, torch.ones(1), 1)
    assert dist.batch_isend_irecv([]) == []
    for call in (lambda: dist.batch_isend_irecv([message]), lambda: dist.send_object_list([1], 1)):
        with pytest.raises(ProcessGroupError, match=r"\[send\] rank 1 — messages go to another process, and there is 1 "
                           r"process — send only if get_world_size\(\) > 1"):
            call()


def test_groups_know_their_members(group):
    assert distributed_c10d._rank_not_in_group(dist.GroupMember.NON_GROUP_MEMBER)
    assert not distributed_c10d._rank_not_in_group(dist.group.WORLD)
    assert dist.Backend.default_device_backend_map["cpu"] == "gloo"
    assert distributed_c10d.default_pg_timeout.total_seconds() == 1800


@pytest.mark.parametrize(("call", "message"), [
    (lambda: default_hooks.fp16_compress_hook(None, None),
     r"\[distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook\] a call — one process exchanges no "
     "gradients — leave the hook out"),
    (lambda: powerSGD_hook.PowerSGDState(None), "powerSGD_hook.PowerSGDState. a call — one process exchanges no"),
    (lambda: post_localSGD_hook.PostLocalSGDState(), "post_localSGD_hook.PostLocalSGDState. a call — one process"),
    (lambda: launcher.elastic_launch(None), r"\[distributed.launcher.api.elastic_launch\] a call — programs run as 1 "
     "process — start the program once, with WORLD_SIZE=1"),
    (lambda: pipelining.pipeline(None), r"\[distributed.pipelining.pipeline\] a call — the stages of a pipeline run in "
     "several processes, and programs run as 1 process — call the whole model"),
    (lambda: parallel.ColwiseParallel(), r"\[distributed.tensor.parallel.ColwiseParallel\] a call — one process has "
     "its tensors whole — use the tensors and modules themselves"),
    (lambda: experimental.implicit_replication(), "tensor.experimental.implicit_replication. a call — one process"),
    (lambda: _attention.set_rotate_method(""), "experimental._attention.set_rotate_method. a call — one process"),
    (lambda: rpc.RRef(1), r"\[distributed.rpc.RRef\] a call — a program is one process — call the "
     "function, or exchange data through multiprocessing.Queue"),
    (lambda: optim.PostLocalSGDOptimizer(None, None), r"\[distributed.optim.PostLocalSGDOptimizer\] a call — "
     "programs run as 1 process — use the optimizer itself"),
])
def test_parts_for_several_processes_say_so(call, message):
    with pytest.raises(UnsupportedOperator, match=message):
        call()


def test_the_command_for_several_processes_says_so():
    from tensocket.distributed import run

    with pytest.raises(UnsupportedOperator, match=r"\[distributed.run.main\] a call — programs run as 1 process"):
        run.main([])
    assert pipelining.SplitPoint.BEGINNING.value == 1
    fsdp.register_fsdp_forward_method(nn.ReLU(), "forward")
    with pytest.raises(ProcessGroupError, match="one process has its tensors whole"):
        DTensor.from_local(torch.ones(1))
