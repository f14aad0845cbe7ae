"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Final

from tensocket.errors import ArgumentError, ArgumentTypeError, AutogradError, ModuleAttributeError, StateDictError
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor, stack

State = Mapping[str, Tensor]
#: The marker of an attribute that does not exist.
_NOTHING: Final = object()


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors instead of its parameters and buffers.

    Args:
        module: The module; the call restores it.
        parameter_and_buffer_dicts: Tensors by dotted name, or several such mappings without common names.
        args: A tuple of arguments, or a single one.
        kwargs: Arguments by name.
        tie_weights: Whether a tensor for one of several names of a parameter replaces all of them.
        strict: Whether the names must be exactly the module's; otherwise unknown names are ignored, and missing names
            mean the module's own tensors.

    If the module replaces a given tensor during the call, the mapping gets the new one.

    Raises:
        ArgumentError: A name is given twice, or different tensors for one parameter.
        ArgumentTypeError: A value, or the attribute that it replaces, is not a tensor.
        ModuleAttributeError: A submodule in a name does not exist.
        StateDictError: With ``strict``, names are missing or unknown; or the module is a script.
    """
    _check_kind(module)
    given = parameter_and_buffer_dicts if isinstance(parameter_and_buffer_dicts, dict) else _merged(
        parameter_and_buffer_dicts)
    chosen = _spread(given, _tied(_named(module))) if tie_weights else dict(given)
    if strict:
        _check_names(module, _named(module).keys(), chosen.keys())
    with replaced(module, chosen) as left:
        positional = () if args is None else args if isinstance(args, tuple) else (args,)
        result = module(*positional, **(kwargs or {}))
    if isinstance(given, dict):
        given.update({name: left[name] for name in given if name in left and left[name] is not given[name]})
    return result


def _check_kind(module: Module) -> None:
    # Scripts can exist only if their module was imported.
    scripts = sys.modules.get("tensocket.jit.modules")
    if scripts is not None and isinstance(module, scripts.ScriptModule):
        raise StateDictError("functional_call", f"a script of {module.original_name}",
                             "The stateless API can't be used with Jitted modules", "pass the module before jit.script")


def _check_names(module: Module, own: Set[str], given: Set[str]) -> None:
    kinds = (("Unexpected", given - own), ("Missing", own - given))
    lines = [f"{kind} key(s): {', '.join(map(repr, sorted(names)))}." for kind, names in kinds if names]
    if lines:
        listed = "\n\t".join(lines)
        raise StateDictError("functional_call", "strict=True",
                             f"Error(s) in reparametrizing for {type(module).__name__}:\n\t{listed}",
                             "take the names from named_parameters() and named_buffers()")


def _merged(states: State | Sequence[State]) -> dict[str, Tensor]:
    if isinstance(states, Mapping):
        return dict(states)
    result: dict[str, Tensor] = {}
    for state in states:
        twice = sorted(result.keys() & state.keys())
        if twice:
            raise ArgumentError("functional_call", f"{len(states)} mappings", f"{twice} appeared in multiple "
                                "dictionaries", "give every name once")
        result.update(state)
    return result


def _named(module: Module) -> dict[str, Tensor]:
    """Return parameters and buffers under all their names."""
    return dict((*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)))


def _tied(tensors: dict[str, Tensor]) -> list[set[str]]:
    """Return the names, grouped by their tensor."""
    groups: dict[int, set[str]] = {}
    for name, tensor in tensors.items():
        groups.setdefault(id(tensor), set()).add(name)
    return list(groups.values())


def _spread(given: State, groups: list[set[str]]) -> dict[str, Tensor]:
    """Return the given tensors, also under the other names of their groups.

    Raises:
        ArgumentError: Different tensors are given for one parameter.
    """
    result = dict(given)
    for group in groups:
        if len(group) > 1:
            names = sorted(group)
            tensors = [given[name] for name in names if name in given]
            if any(tensor is not tensors[0] for tensor in tensors):
                raise ArgumentError("functional_call", f"different tensors for {names}", "functional_call got multiple "
                                    f"values for keys {names}, which are tied",
                                    "pass a tensor for one of them, or tie_weights=False")
            if tensors:
                result.update(dict.fromkeys(group, tensors[0]))
    return result


@contextmanager
def replaced(module: Module, chosen: State) -> Iterator[dict[str, Any]]:
    """Replace tensors by name; at the end, store the module's current tensors in the mapping."""
    before: dict[str, Any] = {}
    left: dict[str, Any] = {}
    try:
        for name, tensor in chosen.items():
            before[name] = _exchange(module, name, tensor)
        yield left
    finally:
        for name, value in before.items():
            left[name] = _exchange(module, name, value)


def _exchange(module: Any, dotted: str, value: Any) -> Any:
    """Replace a value in the tree and return the old one; ``_NOTHING`` means none."""
    path, _, name = dotted.rpartition(".")
    for part in path.split(".") if path else ():
        owner, module = module, getattr(module, part, None)
        if module is None:
            raise ModuleAttributeError("functional_call", repr(dotted), f"{type(owner).__name__} has no attribute "
                                       f"`{part}`", "take names from named_parameters() and named_buffers()")
        if not isinstance(module, Module):
            raise _no_tensor(dotted, f"attribute `{part}`: {module!r} is not an instance of torch.nn.Module")
    if not (value is None or value is _NOTHING or isinstance(value, Tensor)):
        raise _no_tensor(dotted, f"{value!r} is not an instance of torch.Tensor")
    for table in (module._parameters, module._buffers):
        if name in table:
            old = table.pop(name) if value is _NOTHING else table[name]
            if value is not _NOTHING:
                table[name] = value
            return old
    old = getattr(module, name, _NOTHING)
    if not (old is None or old is _NOTHING or isinstance(old, Tensor)):
        raise _no_tensor(dotted, f"attribute `{name}`: {old!r} is not an instance of torch.Tensor")
    if value is not _NOTHING:
        setattr(module, name, value)
    elif old is not _NOTHING:
        delattr(module, name)
    return old


def _no_tensor(name: str, rule: str) -> ArgumentTypeError:
    return ArgumentTypeError("functional_call", repr(name), rule, "pass tensors for parameters and buffers")


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stack parameters and buffers of several modules of one class along a new first dimension.

    With ``vmap`` over ``functional_call``, the modules run as one. Parameters are new leaves that require gradients if
    those of the modules do.

    Returns:
        Parameters and buffers by dotted name.

    Raises:
        AutogradError: The list is empty, the modules have several classes, only some of them are in training mode, or a
            parameter requires a gradient in only some of them.
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
