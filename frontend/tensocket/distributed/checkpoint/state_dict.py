"""State of models and optimizers by names of parameters, so that it does not depend on how parameters are grouped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.nn import Module
from tensocket.optim import Optimizer
from tensocket_operators import Tensor


@dataclass
class StateDictOptions:
    """Settings of the state.

    Attributes:
        full_state_dict: Whether tensors are whole, which they always are in one process.
        cpu_offload: Whether tensors are copied to the host.
        ignore_frozen_params: Whether parameters that require no gradient are left out.
        keep_submodule_prefixes: Accepted as in PyTorch, like ``broadcast_from_rank0``.
        strict: Whether a model's state must have all names, and no others.
        broadcast_from_rank0: See above.
        flatten_optimizer_state_dict: Whether the state of an optimizer is a flat dict.
        dsd_fqn_modifiers: Accepted as in PyTorch.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _placed(value: Any, options: StateDictOptions) -> Any:
    return value.detach().to("cpu", copy=True) if options.cpu_offload and isinstance(value, Tensor) else value


def get_model_state_dict(model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
                         ) -> dict[str, Any]:
    """Return the parameters and buffers of a model by name.

    Args:
        model: The model.
        submodules: Accepted as in PyTorch, where it is deprecated.
        options: Settings.
    """
    chosen = options or StateDictOptions()
    left_out = {name for name, p in model.named_parameters() if chosen.ignore_frozen_params and not p.requires_grad}
    return {name: _placed(value, chosen) for name, value in model.state_dict().items() if name not in left_out}


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
                         ) -> Any:
    """Load what ``get_model_state_dict`` returned; return the missing and unexpected names."""
    return model.load_state_dict(model_state_dict, strict=(options or StateDictOptions()).strict)


def _optimizers(given: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    return [given] if isinstance(given, Optimizer) else list(given)


def _names(model: Module, optimizer: Optimizer) -> list[list[str]]:
    """Return the names of an optimizer's parameters, by group.

    Raises:
        ArgumentError: The model does not have one of them.
    """
    names = {id(p): name for name, p in model.named_parameters()}
    try:
        return [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]
    except KeyError:
        raise ArgumentError("get_optimizer_state_dict", "an optimizer of other parameters", "all parameters of the "
                            "optimizer belong to the model", "pass the model that it was made for") from None


def get_optimizer_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: Any = None,
                             options: StateDictOptions | None = None) -> dict[str, Any]:
    """Return the state of optimizers: ``state`` by names of parameters, and ``param_groups`` with names.

    With ``flatten_optimizer_state_dict``: ``state.<name>.<entry>`` and ``param_groups.<name>.<setting>``.

    Args:
        model: The model whose parameters they optimize.
        optimizers: One, or several.
        submodules: Accepted as in PyTorch, where it is deprecated.
        options: Settings.

    Raises:
        ArgumentError: An optimizer has parameters of another model.
    """
    chosen = options or StateDictOptions()
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _optimizers(optimizers):
        names = _names(model, optimizer)
        for group, inside in zip(optimizer.param_groups, names, strict=True):
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": inside})
            for p, name in zip(group["params"], inside, strict=True):
                if p in optimizer.state:
                    state[name] = {k: _placed(v, chosen) for k, v in optimizer.state[p].items()}
    if not chosen.flatten_optimizer_state_dict:
        return {"state": state, "param_groups": groups}
    flat = {f"state.{name}.{k}": v for name, entries in state.items() for k, v in entries.items()}
    return flat | {f"param_groups.{name}.{k}": v for group in groups for name in group["params"]
                   for k, v in group.items() if k != "params"}


def _unflattened(flat: dict[str, Any], names: list[list[str]]) -> dict[str, Any]:
    """Return nested state from a flat dict, with the groups of an optimizer."""
    def of(kind: str, name: str) -> dict[str, Any]:
        start = f"{kind}.{name}."
        # A longer name of a parameter may begin with this one; entries have no dots.
        return {k[len(start):]: v for k, v in flat.items() if k.startswith(start) and "." not in k[len(start):]}

    return {"state": {name: found for inside in names for name in inside if (found := of("state", name))},
            "param_groups": [{**(of("param_groups", inside[0]) if inside else {}), "params": inside}
                             for inside in names]}


def set_optimizer_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer],
                             optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> None:
    """Load what ``get_optimizer_state_dict`` returned, also into other groups of the same parameters.

    Raises:
        ArgumentError: An optimizer has parameters of another model, or the state lacks the settings of a group.
    """
    for optimizer in _optimizers(optimizers):
        names = _names(model, optimizer)
        given = optim_state_dict if "param_groups" in optim_state_dict else _unflattened(optim_state_dict, names)
        settings = {name: group for group in given["param_groups"] for name in group["params"]}
        numbers = {name: k for k, name in enumerate(name for inside in names for name in inside)}
        groups = []
        for inside in names:
            if inside and inside[0] not in settings:
                raise ArgumentError("set_optimizer_state_dict", f"state without a group for {inside[0]!r}",
                                    "the state has the parameters of the optimizer", "save it from the same model")
            group = {k: v for k, v in settings[inside[0]].items() if k != "params"} if inside else {}
            groups.append({**group, "params": [numbers[name] for name in inside]})
        state = {numbers[name]: dict(value) for name, value in given["state"].items() if name in numbers}
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def get_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: Any = None,
                   options: StateDictOptions | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state of a model, and that of its optimizers."""
    return (get_model_state_dict(model, options=options),
            get_optimizer_state_dict(model, optimizers, options=options))


def set_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer], *, model_state_dict: dict[str, Any],
                   optim_state_dict: dict[str, Any], options: StateDictOptions | None = None) -> Any:
    """Load the state of a model and of its optimizers; return the missing and unexpected names of the model."""
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


__all__ = ["StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
           "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict"]
