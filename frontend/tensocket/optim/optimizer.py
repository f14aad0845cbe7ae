"""The base class of optimizers."""

from __future__ import annotations

import functools
import types
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from itertools import chain
from typing import Any, Final

from tensocket.errors import ArgumentError, ArgumentTypeError, StateDictError
from tensocket.nn import Parameter
from tensocket.nn.modules.module import clear_grads
from tensocket.utils.hooks import RemovableHandle
from tensocket_compiler.calls.intercept import INTERCEPTED, THREAD
from tensocket_operators import Tensor, enable_grad, float32, float64, get_default_dtype, set_grad_enabled
from tensocket_plugins.contract.value_observers import note_read

ParamGroup = dict[str, Any]
ParamsT = Iterable[Tensor] | Iterable[ParamGroup] | Iterable[tuple[str, Tensor]]
Hooks = OrderedDict[int, Callable[..., Any]]


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the types of devices whose steps can be recorded: those of backends called ``cuda``."""
    return ["cuda"]


def _default_to_fused_or_foreach(params: list[Any], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Whether an optimizer runs fused, and over lists, unless a program says so; never fused.

    Args:
        params: The parameters.
        differentiable: Whether gradients flow through the step, which lists do not support.
        use_fused: Whether to prefer a fused step.
    """
    own = (Tensor, Parameter)
    lists = not differentiable and all(p is None or (type(p) in own and p.device.type == "cuda") for p in params)
    return False, lists


class _Required:
    """The marker of an option without default: every group must set it."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: Final = _Required()
_before_every_step: Final[Hooks] = OrderedDict()
_after_every_step: Final[Hooks] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer."""
    return _register(_before_every_step, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
    return _register(_after_every_step, hook)


class Optimizer:
    """A collection of parameter groups with their options, and a state for every parameter.

    Args:
        params: Tensors, (name, tensor) pairs, or groups: dicts with ``params`` and their own options.
        defaults: Options of groups that do not set them.

    Attributes:
        defaults: Options of groups that do not set them.
        param_groups: A dict for each group, with ``params`` and all options.
        state: The optimizer's state, by parameter.

    Raises:
        ArgumentTypeError: ``params`` has another type.
        ArgumentError: ``params`` is empty, a parameter is not a leaf, or one appears in two groups.
    """

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[ParamGroup] = []
        name = type(self).__name__
        if not _is_collection(params):
            raise ArgumentTypeError(name, f"params as {type(params).__name__}", "params is an iterable of tensors or "
                                    "of dicts", "pass model.parameters() or a list")
        groups: list[Any] = list(params)
        if not groups:
            raise ArgumentError(name, "an empty parameter list", "an optimizer needs parameters",
                                "pass model.parameters() of a module that has some; a generator is used up by one pass")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """Set attributes that neither a pickle nor a state dict holds."""
        #: Whether ``step`` was called; schedulers warn if it was not.
        self._opt_called = False
        self._before_step: Hooks = OrderedDict()
        self._after_step: Hooks = OrderedDict()
        self._before_saving: Hooks = OrderedDict()
        self._after_saving: Hooks = OrderedDict()
        self._before_loading: Hooks = OrderedDict()
        self._after_loading: Hooks = OrderedDict()
        cls: Any = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group: a dict with ``params`` and options; options that it doesn't set come from the defaults.

        Raises:
            ArgumentTypeError: It is not a dict, or ``params`` are not tensors.
            ArgumentError: A parameter is not a leaf or is in another group, or an option is missing.
        """
        name = type(self).__name__
        if _lacks(param_group, "params"):
            raise ArgumentTypeError(name, f"group {type(param_group).__name__}", "a group is a dict with 'params'",
                                    "pass {'params': [...], 'lr': ...}")
        params = param_group["params"]
        if isinstance(params, (set, frozenset)):
            raise ArgumentTypeError(name, "params as a set", "parameters are ordered", "pass a list")
        members = [params] if isinstance(params, Tensor) else list(params)
        # The dict itself becomes the group, so its owner sees the changes of schedules.
        group = param_group
        group["params"] = members
        for option, value in self.defaults.items():
            group.setdefault(option, value)
        missing = [key for key, value in group.items() if value is required]
        if missing:
            raise ArgumentError(name, f"a group without {', '.join(missing)}", "an option without default is set by "
                                "every group", f"pass {missing[0]}")
        _name_members(name, group)
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ArgumentError(name, "a group with names and one without", "all groups have names, or none has",
                                "pass named_parameters() for all groups or for none")
        self._check_members(group["params"])
        self.param_groups.append(group)

    def _check_members(self, members: list[Any]) -> None:
        name, taken = type(self).__name__, {id(p) for group in self.param_groups for p in group["params"]}
        for position, member in enumerate(members):
            if not isinstance(member, Tensor):
                raise ArgumentTypeError(name, f"parameter {position} as {type(member).__name__}",
                                        "parameters are tensors", "pass model.parameters()")
            if not (self.defaults.get("differentiable") or member.is_leaf or member.retains_grad):
                raise ArgumentError(name, f"parameter {position} of shape {tuple(member.shape)}, which was computed",
                                    "parameters are leaves of the gradient graph", "pass the leaf, or detach() it")
            if id(member) in taken:
                raise ArgumentError(name, f"parameter {position} of shape {tuple(member.shape)} a second time",
                                    "a parameter is in one group once", "remove one of the two")
        if len({id(member) for member in members}) < len(members):
            warnings.warn("optimizer contains a parameter group with duplicate parameters, which are changed once for "
                          "each time they are in it", UserWarning, stacklevel=4)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or, with ``set_to_none=False``, set to zero) the gradients of all parameters."""
        clear_grads((parameter for group in self.param_groups for parameter in group["params"]), set_to_none)

    def _patch_step_function(self) -> None:
        """Do nothing: every step runs its hooks without a change of the class."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once, by their gradients.

        Args:
            closure: A function that recomputes the loss and its gradients; called with gradients enabled.

        Returns:
            The result of ``closure``.
        """
        raise NotImplementedError

    def _members(self) -> list[Any]:
        """Return all parameters."""
        return [x for group in self.param_groups for x in group["params"]]

    # ---- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step; it may return new ``(args, kwargs)``."""
        return _register(self._before_step, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return _register(self._after_step, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``."""
        return _register(self._before_saving, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` with the result of ``state_dict``; it may return another one."""
        return _register(self._after_saving, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; it may return another state dict."""
        return _register(self._before_loading, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return _register(self._after_loading, hook, prepend)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return states and groups, with parameters replaced by their numbers; tensors are shared, not copied."""
        note_read(self.param_groups)
        for hook in self._before_saving.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [numbers[id(parameter)] for parameter in group["params"]]})
        state = {numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._after_saving.values():
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``; states move to the dtype and device of their parameters.

        Raises:
            StateDictError: The groups or their sizes differ from the optimizer's; in that case nothing changes.
        """
        state_dict = copy(state_dict)
        for hook in self._before_loading.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        self._check_state(state_dict)
        saved = deepcopy(state_dict["param_groups"])
        owners = {number: (parameter, there) for there, here in zip(saved, self.param_groups, strict=True)
                  for number, parameter in zip(there["params"], here["params"], strict=True)}
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            if number in owners:
                parameter, options = owners[number]
                state[parameter] = _fit(values, parameter, options)
            else:
                state[number] = values
        groups = []
        for there, here in zip(saved, self.param_groups, strict=True):
            names = {"param_names": here["param_names"]} if "param_names" in here else {}
            groups.append({**names, **there, "params": here["params"]})
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._after_loading.values():
            hook(self)

    def _check_state(self, state_dict: Any) -> None:
        name = type(self).__name__
        if _lacks(state_dict, "state", "param_groups"):
            raise StateDictError(f"{name}.load_state_dict", f"a {type(state_dict).__name__} without 'state' and "
                                 "'param_groups'", "both are needed", "pass what optimizer.state_dict() returned")
        sizes = [len(group["params"]) for group in state_dict["param_groups"]]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise StateDictError(f"{name}.load_state_dict", f"groups of {sizes} parameters",
                                 f"the optimizer has groups of {own} parameters",
                                 "load it into an optimizer of the same parameters")

    def __getstate__(self) -> dict[str, Any]:
        note_read(self.param_groups)
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_before_step" not in self.__dict__:
            self._prepare()
        for group in self.param_groups:
            for option, value in self.defaults.items():
                # Checkpoints of older versions lack newer options.
                if value is not required:
                    group.setdefault(option, value)

    def __repr__(self) -> str:
        note_read(self.param_groups)
        lines = []
        for number, group in enumerate(self.param_groups):
            lines += [""] * bool(number) + [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"


def evaluate(closure: Callable[[], Any] | None) -> Any:
    """Call the closure of ``step`` with gradients enabled."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``step`` so that it records gradients only if the optimizer was made with ``differentiable``."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return step(self, *args, **kwargs)

    return wrapper


def _get_value(x: Any) -> Any:
    """Return a tensor of one element as a number; other values unchanged."""
    return x.item() if isinstance(x, Tensor) else x


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """Return the dtype of step counts."""
    return float64 if get_default_dtype() is float64 and not is_fused else float32


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``step`` with its hooks and a mark that it was called; a compiled function may take it over."""

    @functools.wraps(step)
    def taken(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        take = THREAD.take if INTERCEPTED else None
        if take is None or args or kwargs:
            return hooked(self, *args, **kwargs)
        gradients = [x._grad for x in self._members()]
        return take(self, types.MethodType(with_gradients, self), (gradients,), {}, self._members)

    def with_gradients(self: Optimizer, gradients: list[Any]) -> Any:
        return hooked(self)

    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        if not (_before_every_step or _after_every_step or self._before_step or self._after_step):
            return step(self, *args, **kwargs)
        given: tuple[Any, ...] = (self, *args)
        for hook in chain(_before_every_step.values(), self._before_step.values()):
            result = hook(self, given, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise ArgumentError(f"{type(self).__name__}.step", f"a hook that returned a {type(result).__name__}",
                                    "a hook before the step returns None or new (args, kwargs)",
                                    "return None if the arguments stay as they are")
            given, kwargs = result
        outcome = step(*given, **kwargs)
        for hook in chain(self._after_step.values(), _after_every_step.values()):
            hook(self, given, kwargs)
        return outcome

    # Schedules check the mark: a step that a program substituted cannot say whether it was called.
    taken.hooked = taken._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    return taken


def _register(hooks: Hooks, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _is_collection(params: Any) -> bool:
    """Whether ``params`` may hold parameters or groups; a tensor or a single group would be a mistake."""
    return isinstance(params, Iterable) and not isinstance(params, (Tensor, dict))


def _lacks(given: Any, *keys: str) -> bool:
    """Whether ``given`` is not a dict with these keys."""
    return not isinstance(given, dict) or not given.keys() >= set(keys)


def _name_members(name: str, group: ParamGroup) -> None:
    """Split (name, tensor) pairs into ``param_names`` and ``params``."""
    named = [isinstance(member, tuple) for member in group["params"]]
    if not any(named):
        return
    if not all(named):
        raise ArgumentError(name, "parameters with and without names", "all parameters of a group have names, or none "
                            "has", "pass model.named_parameters() or model.parameters()")
    group["param_names"] = [label for label, _ in group["params"]]
    group["params"] = [member for _, member in group["params"]]


def _fit(value: Any, parameter: Tensor, options: ParamGroup, key: str = "") -> Any:
    """Move a state to the device and dtype of ``parameter``. Step counts stay on their device."""
    if isinstance(value, Tensor):
        if key == "step":
            beside = parameter if options.get("capturable") or options.get("fused") else value
            return value.detach().to(device=beside.device, dtype=_get_scalar_dtype(), copy=True)
        dtype = parameter.dtype if parameter.is_floating_point() else value.dtype
        return value.detach().to(device=parameter.device, dtype=dtype, copy=True)
    if isinstance(value, dict):
        return {name: _fit(item, parameter, options, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fit(item, parameter, options) for item in value)
    return deepcopy(value)


__all__ = [
    "Optimizer",
    "ParamsT",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]
