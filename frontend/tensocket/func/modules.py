"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tensocket.errors import ArgumentError, AutogradError, StateDictError
from tensocket.nn.modules.module import Module
from tensocket_core import Tensor, stack

State = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    Args:
        module: The module; it is as before when the call returns.
        parameter_and_buffer_dicts: Tensors by dotted name, or several such mappings without common names.
        args: A tuple of arguments, or a single one.
        kwargs: Arguments by name.
        tie_weights: Whether a tensor given for one of several names of one parameter stands for all of them.
        strict: Whether the names must be exactly the module's; otherwise other names are ignored, and the module's
            own tensors stand for names that are not given.

    Raises:
        ArgumentError: A name is given twice, or different tensors for one parameter.
        StateDictError: With ``strict``, names are missing or unknown.
    """
    given = _merged(parameter_and_buffer_dicts)
    places = _places(module)
    groups = _tied(places) if tie_weights else [{name} for name in places]
    chosen = _spread(given, groups)
    unknown, missing = sorted(given.keys() - places.keys()), sorted(places.keys() - chosen.keys())
    if strict and (unknown or missing):
        raise StateDictError("functional_call", f"unknown names {unknown}, missing names {missing}",
                             "with strict=True, the names are exactly the module's",
                             "take them from named_parameters() and named_buffers()")
    with _replaced(places, chosen):
        positional = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*positional, **(kwargs or {}))


def _merged(states: State | Sequence[State]) -> dict[str, Tensor]:
    if isinstance(states, Mapping):
        return dict(states)
    result: dict[str, Tensor] = {}
    for state in states:
        twice = sorted(result.keys() & state.keys())
        if twice:
            raise ArgumentError("functional_call", f"names {twice} in several mappings", "every name is given once",
                                "remove the repetition")
        result.update(state)
    return result


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """For every dotted name the mapping that holds the tensor, and its name there."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for prefix, child in module.named_modules(remove_duplicate=False):
        for held in (child._parameters, child._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    found[f"{prefix}.{name}" if prefix else name] = held, name
    return found


def _tied(places: dict[str, tuple[dict[str, Any], str]]) -> list[set[str]]:
    """Names grouped by the tensor that they name."""
    groups: dict[int, set[str]] = {}
    for dotted, (held, name) in places.items():
        groups.setdefault(id(held[name]), set()).add(dotted)
    return list(groups.values())


def _spread(given: dict[str, Tensor], groups: list[set[str]]) -> dict[str, Tensor]:
    """Given tensors for all names of their groups.

    Raises:
        ArgumentError: Different tensors are given for one parameter.
    """
    result: dict[str, Tensor] = {}
    for group in groups:
        tensors = [given[name] for name in sorted(group) if name in given]
        if any(tensor is not tensors[0] for tensor in tensors):
            raise ArgumentError("functional_call", f"different tensors for {sorted(group)}, which are one parameter",
                                "tied names stand for one tensor", "pass it for one of them, or tie_weights=False")
        if tensors:
            result.update(dict.fromkeys(group, tensors[0]))
    return result


@contextmanager
def _replaced(places: dict[str, tuple[dict[str, Any], str]], chosen: dict[str, Tensor]) -> Iterator[None]:
    before = {dotted: places[dotted][0][places[dotted][1]] for dotted in chosen}
    try:
        for dotted, tensor in chosen.items():
            held, name = places[dotted]
            held[name] = tensor
        yield
    finally:
        for dotted, tensor in before.items():
            held, name = places[dotted]
            held[name] = tensor


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of several modules of one class, stacked along a new first dimension.

    With ``vmap`` over ``functional_call``, the modules run as one. Parameters are new leaves that require gradients
    where those of the modules do.

    Returns:
        Parameters and buffers by dotted name.

    Raises:
        AutogradError: There are no modules, they are of several classes, some train and some do not, or a parameter
            requires a gradient in some of them only.
    """
    if len(models) == 0:
        raise _refused("no modules", "there is at least one module", "pass a list of modules")
    if len({type(model) for model in models}) > 1:
        raise _refused("modules of several classes", "all modules are of one class", "stack them by class")
    if len({model.training for model in models}) > 1:
        raise _refused("modules of which some train", "all modules train or none does", "call train() or eval() on all")
    parameters = {name: _stacked(name, [dict(model.named_parameters())[name] for model in models])
                  for name, _ in models[0].named_parameters()}
    buffers = {name: _stacked(name, [dict(model.named_buffers())[name] for model in models])
               for name, _ in models[0].named_buffers()}
    return parameters, buffers


def _stacked(name: str, tensors: list[Any]) -> Any:
    wanted = {tensor.requires_grad for tensor in tensors}
    if len(wanted) > 1:
        raise _refused(f"{name} that requires a gradient in some modules", "it does in all or none",
                       "call requires_grad_ on all modules")
    return stack([tensor.detach() for tensor in tensors]).requires_grad_(wanted.pop())


def _refused(given: str, rule: str, advice: str) -> AutogradError:
    return AutogradError("stack_module_state", given, rule, advice)
