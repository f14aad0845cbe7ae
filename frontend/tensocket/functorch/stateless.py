"""Modules as functions of their parameters, by position."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from tensocket.errors import ArgumentError, AutogradError
from tensocket.func.modules import replaced
from tensocket.nn import Module, Parameter
from tensocket_operators import Tensor, empty_like, stack

Tensors = tuple[Tensor, ...]
Names = tuple[str, ...]


def _take(model: Module, tensors: Callable[..., Any], make: Callable[[Any], Any]) -> tuple[Tensors, Names,
                                                                                            dict[str, list[str]]]:
    """Replace a module's tensors by tensors without values.

    Returns:
        The tensors, each once; their names; all names of each, because modules may share a tensor.
    """
    groups: dict[int, tuple[Any, list[str]]] = {}
    for name, tensor in tensors(remove_duplicate=False):
        groups.setdefault(id(tensor), (tensor, []))[1].append(name)
    for tensor, names in groups.values():
        blank = make(empty_like(tensor, device="meta"))
        for name in names:
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, blank)
    values = list(groups.values())
    return (tuple([tensor for tensor, _ in values]), tuple([names[0] for _, names in values]),
            {names[0]: names for _, names in values})


class FunctionalModuleWithBuffers(Module):
    """A module that takes its parameters and buffers as arguments: the result of ``make_functional_with_buffers``.

    Attributes:
        stateless_model: A copy of the module without values.
        param_names: Names of the parameters, in their order.
        buffer_names: Names of the buffers.
        all_names_map: All names of a tensor by its first one.
    """

    def __init__(self, stateless_model: Module, param_names: Names, buffer_names: Names,
                 param_names_map: dict[str, list[str]], buffer_names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.buffer_names = buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(model: Module, disable_autograd_tracking: bool = False) -> tuple[
            FunctionalModuleWithBuffers, Tensors, Tensors]:
        stateless = copy.deepcopy(model)
        params, param_names, param_map = _take(stateless, stateless.named_parameters, Parameter)
        buffers, buffer_names, buffer_map = _take(stateless, stateless.named_buffers, lambda x: x)
        _track(params, disable_autograd_tracking)
        return (FunctionalModuleWithBuffers(stateless, param_names, buffer_names, param_map, buffer_map), params,
                buffers)

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with these parameters and buffers, in the order of their names."""
        with replaced(self.stateless_model, _spread(self.all_names_map, (*params, *buffers))):
            return self.stateless_model(*args, **kwargs)


class FunctionalModule(Module):
    """A module that takes its parameters as arguments: the result of ``make_functional``.

    Attributes:
        stateless_model: A copy of the module without values.
        param_names: Names of the parameters, in their order.
        names_map: All names of a parameter by its first one.
    """

    def __init__(self, stateless_model: Module, param_names: Names, names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.names_map = names_map

    @staticmethod
    def _create_from(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
        stateless = copy.deepcopy(model)
        params, names, names_map = _take(stateless, stateless.named_parameters, Parameter)
        _track(params, disable_autograd_tracking)
        return FunctionalModule(stateless, names, names_map), params

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with these parameters, in the order of their names."""
        with replaced(self.stateless_model, _spread(self.names_map, tuple(params))):
            return self.stateless_model(*args, **kwargs)


def _track(params: Tensors, disabled: bool) -> None:
    if disabled:
        for param in params:
            param.requires_grad_(False)


def _spread(names: dict[str, list[str]], tensors: Tensors) -> dict[str, Any]:
    """Return the tensors under all their names."""
    return {name: tensor for group, tensor in zip(names.values(), tensors, strict=False) for name in group}


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
    """Do the same as ``functorch.make_functional``, without its warning.

    Raises:
        AutogradError: The module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise AutogradError("make_functional", "a module with buffers", "make_functional(model): `model` has buffers. "
                            "Please use make_functional_with_buffers(model) instead.",
                            "call make_functional_with_buffers")
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model: Module, disable_autograd_tracking: bool = False) -> tuple[
        FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Do the same as ``functorch.make_functional_with_buffers``, without its warning."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def _stacked(groups: Iterable[Tensors]) -> Tensors:
    return tuple([stack(list(shards)).detach() for shards in zip(*groups, strict=True)])


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Do the same as ``functorch.combine_state_for_ensemble``, without its warning.

    Raises:
        AutogradError: The list is empty, the modules have several classes, or only some are in training mode.
    """
    if len(models) == 0:
        _refuse("no modules", "combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        _refuse("modules of which some train", "combine_state_for_ensemble: Expected all models to have the same "
                "training/eval mode.")
    if len({type(model) for model in models}) > 1:
        _refuse("modules of several classes", "combine_state_for_ensemble: Expected all models to be of the same "
                "class.")
    made = [make_functional_with_buffers(model) for model in models]
    return made[0][0], _stacked([params for _, params, _ in made]), _stacked([buffers for _, _, buffers in made])


def _refuse(given: str, rule: str) -> NoReturn:
    raise AutogradError("combine_state_for_ensemble", given, rule, "pass modules of one class and mode")


# ------------------------------------------------------------------------------------------ classes of modules


def _state(model: Module) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    function, params, buffers = make_functional_with_buffers(model)
    return function, params, buffers


def functional_init(model_class: Callable[..., Module], ensemble_shape: tuple[int, ...] = (),
                    device: Any = "cpu") -> Callable[..., Any]:
    """Return a function that makes modules of a class and returns ``(weights, function, names)``.

    Args:
        model_class: The class, of modules without buffers.
        ensemble_shape: ``()`` for one module, ``(n,)`` for the stacked weights of n of them.
        device: Device of the weights.

    Raises:
        ArgumentError: ``ensemble_shape`` has two sizes, or a size is not positive.
    """
    return _initializer(model_class, ensemble_shape, device, False)


def functional_init_with_buffers(model_class: Callable[..., Module], ensemble_shape: tuple[int, ...] = (),
                                 device: Any = "cpu") -> Callable[..., Any]:
    """Do the same as ``functional_init``, for ``(weights, buffers, function, weight_names, buffer_names)``."""
    return _initializer(model_class, ensemble_shape, device, True)


def _initializer(model_class: Callable[..., Module], ensemble_shape: tuple[int, ...], device: Any,
                 with_buffers: bool) -> Callable[..., Any]:

    def made(*args: Any, **kwargs: Any) -> Any:
        if len(ensemble_shape) > 1 or any(n <= 0 for n in ensemble_shape):
            raise ArgumentError("functional_init", f"ensemble_shape={ensemble_shape}", "an ensemble has one size, "
                                "which is positive", "pass () or (n,)")
        states = [_state(model_class(*args, **kwargs).to(device)) for _ in range(*(ensemble_shape or (1,)))]
        module = states[0][0]
        weights, buffers = states[0][1:]
        if ensemble_shape:
            weights, buffers = _stacked([w for _, w, _ in states]), _stacked([b for _, _, b in states])
        if with_buffers and (ensemble_shape or buffers):
            return (weights, buffers, lambda weights, buffers, data: module(weights, buffers, *data),
                    module.param_names, module.buffer_names)
        return weights, lambda weights, data: module(weights, buffers, *data), module.param_names

    return made
