"""Names without documentation that libraries take from PyTorch: parts of models and of their state, in one process."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import errors, nn


@pytest.fixture
def one_process():
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, init_method="tcp://localhost:0")
    yield
    torch.distributed.destroy_process_group()


def test_parts_of_tensors_by_placement():
    from tensocket.distributed.tensor._utils import compute_local_shape_and_global_offset
    from tensocket.distributed.tensor.placement_types import Shard, _StridedShard

    parts = [Shard.local_shard_size_and_offset(10, 4, rank) for rank in range(5)]
    assert parts == [(3, 0), (3, 3), (3, 6), (1, 9), (0, 10)]

    class Mesh:
        def size(self, dim):
            return (2, 3)[dim]

        def get_local_rank(self, dim):
            return 1

    places = [Shard(1), Shard(1)]
    assert compute_local_shape_and_global_offset((4, 12), Mesh(), places) == ((4, 2), (0, 8))
    assert _StridedShard(0, split_factor=2).is_shard(0)
    with pytest.raises(errors.ProcessGroupError):
        torch.distributed.tensor.distribute_tensor(torch.ones(2))


@pytest.mark.usefixtures("one_process")
def test_modules_are_divided_among_one_process():
    from tensocket.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard

    model = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    wanted = model(x).tolist()
    assert fully_shard(model, offload_policy=CPUOffloadPolicy()) is model
    assert isinstance(model, FSDPModule)
    assert isinstance(model, nn.Linear)
    assert model(x).tolist() == wanted
    for call in (model.reshard, model.unshard, lambda: model.set_requires_gradient_sync(False)):
        assert call() is None
    with pytest.raises(errors.ArgumentError, match="the module computes in its own dtypes"):
        fully_shard(nn.Linear(1, 1), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))


def test_policies_choose_modules():
    from tensocket.distributed.fsdp import wrap

    layer, attention = nn.Linear(2, 2), nn.MultiheadAttention(4, 2)
    assert wrap.transformer_auto_wrap_policy(layer, False, 0, {nn.Linear})
    assert not wrap.transformer_auto_wrap_policy(attention, False, 0, {nn.Linear})
    assert wrap.transformer_auto_wrap_policy(attention, True, 0, {nn.Linear})
    assert wrap.lambda_auto_wrap_policy(layer, False, 0, lambda m: m is layer)
    assert wrap.size_based_auto_wrap_policy(layer, False, 10, min_num_params=10)
    assert not wrap.size_based_auto_wrap_policy(layer, False, 9, min_num_params=10)
    assert not wrap.size_based_auto_wrap_policy(attention, True, 10, min_num_params=10)
    assert not wrap.size_based_auto_wrap_policy(nn.ModuleList(), False, 10, min_num_params=10)
    assert wrap.ModuleWrapPolicy({nn.Linear})(layer, False)
    assert not wrap.ModuleWrapPolicy({nn.Linear})(attention, False)
    assert wrap.CustomPolicy(lambda m: {"a": 1})(layer, False)
    assert not wrap.CustomPolicy(lambda m: False)(layer, False)
    never = wrap.ModuleWrapPolicy({nn.GRU})
    assert wrap._or_policy(layer, False, 0, [never, wrap.always_wrap_policy])
    assert not wrap._or_policy(layer, False, 0, [never])


@pytest.mark.parametrize("flat", [False, True])
def test_state_by_names_of_parameters(flat):
    from tensocket.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

    def make(groups):
        torch.manual_seed(groups)
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        parameters = list(model.parameters())
        cut = [parameters] if groups == 1 else [parameters[:1], parameters[1:]]
        return model, torch.optim.Adam([{"params": p, "lr": 0.1} for p in cut])

    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        return [p.detach().tolist() for p in model.parameters()]

    first, second = make(1), make(2)
    step(*first)
    options = StateDictOptions(flatten_optimizer_state_dict=flat, cpu_offload=True)
    state, optimizer_state = get_state_dict(*first, options=options)
    assert state.keys() == first[0].state_dict().keys()
    assert ("state.0.weight.exp_avg" in optimizer_state) is flat
    set_state_dict(*second, model_state_dict=state, optim_state_dict=optimizer_state)
    assert step(*first) == step(*second)


def test_errors_of_states():
    from tensocket.distributed.checkpoint import state_dict as s

    model, other = nn.Linear(1, 1), nn.Linear(1, 1)
    optimizer = torch.optim.SGD(other.parameters(), lr=1.0)
    with pytest.raises(errors.ArgumentError, match="all parameters of the optimizer belong to the model"):
        s.get_optimizer_state_dict(model, optimizer)
    with pytest.raises(errors.ArgumentError, match="the state has the parameters of the optimizer"):
        s.set_optimizer_state_dict(other, optimizer, {"state": {}, "param_groups": []})
    model.bias.requires_grad_(False)
    assert list(s.get_model_state_dict(model, options=s.StateDictOptions(ignore_frozen_params=True))) == ["weight"]


def test_checkpoints_in_parts_are_refused():
    from importlib import import_module

    names = {"default_planner": "DefaultLoadPlanner DefaultSavePlanner",
             "filesystem": "FileSystemReader FileSystemWriter",
             "format_utils": "_EmptyStateDictLoadPlanner dcp_to_torch_save torch_save_to_dcp",
             "hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
             "optimizer": "load_sharded_optimizer_state_dict", "state_dict_loader": "load", "state_dict_saver": "save"}
    package = import_module("tensocket.distributed.checkpoint")
    for module, listed in names.items():
        for name in listed.split():
            refused = getattr(import_module(f"{package.__name__}.{module}"), name)
            assert getattr(package, name, refused) is refused
            assert refused.__module__ == f"{package.__name__}.{module}"
            message = (rf"^\[distributed\.checkpoint\.{name}\] a checkpoint in parts — one process has whole tensors, "
                       "and writes one file — save the state dict with tensocket.save")
            with pytest.raises(errors.UnsupportedOperator, match=message):
                refused("x")


def test_functions_of_one_process_copy():
    from tensocket.distributed import _functional_collectives as collectives

    x = torch.ones(2, requires_grad=True)
    for call in (lambda: collectives.broadcast(x, 0, None),
                 lambda: collectives.all_to_all_single_autograd(x, None, None, None)):
        made = call()
        assert made is not x
        assert made.tolist() == [1, 1]
        assert made.requires_grad
