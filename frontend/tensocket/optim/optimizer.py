"""The base class of optimizers."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from tensocket.errors import ArgumentError, ArgumentTypeError, StateDictError
from tensocket.nn.modules.module import clear_grad
from tensocket_core import Tensor, enable_grad, no_grad

ParamGroup = dict[str, Any]
ParamsT = Iterable[Tensor] | Iterable[ParamGroup] | Iterable[tuple[str, Tensor]]


class Optimizer:
    """Holds parameter groups with their options, and state for every parameter.

    Args:
        params: Tensors, (name, tensor) pairs, or groups: dicts with ``params`` and options of their own.
        defaults: Options of groups that don't set them.

    Raises:
        ArgumentTypeError: ``params`` is something else.
        ArgumentError: There are no parameters, one is not a leaf, or one appears twice.
    """

    #: Whether ``step`` was called; schedulers warn when it was not.
    _stepped = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _marking(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
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

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group: a dict with ``params`` and options; options that it doesn't set come from the defaults.

        Raises:
            ArgumentTypeError: It is no dict, or ``params`` are no tensors.
            ArgumentError: A parameter is not a leaf or is optimized already.
        """
        name = type(self).__name__
        if _lacks(param_group, "params"):
            raise ArgumentTypeError(name, f"group {type(param_group).__name__}", "a group is a dict with 'params'",
                                    "pass {'params': [...], 'lr': ...}")
        params = param_group["params"]
        if isinstance(params, (set, frozenset)):
            raise ArgumentTypeError(name, "params as a set", "parameters are ordered", "pass a list")
        members = [params] if isinstance(params, Tensor) else list(params)
        group = {**self.defaults, **param_group}
        if members and all(isinstance(member, tuple) for member in members):
            group["param_names"] = [label for label, _ in members]
            members = [member for _, member in members]
        seen = {id(p) for other in self.param_groups for p in other["params"]}
        for position, member in enumerate(members):
            _check_parameter(name, position, member, seen)
        group["params"] = members
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or, with ``set_to_none=False``, clear) the gradients of all parameters."""
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_grad(parameter, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once by their gradients.

        Args:
            closure: Computes the loss and its gradients anew; called with gradients enabled.

        Returns:
            What ``closure`` returned.
        """
        raise NotImplementedError

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """State and groups with parameters replaced by their numbers; tensors are shared, not copied."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [numbers[id(parameter)] for parameter in group["params"]]})
        state = {numbers[id(parameter)]: dict(values) for parameter, values in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the result of ``state_dict``; state moves to the dtype and device of its parameter.

        Raises:
            StateDictError: The groups or their sizes differ from the optimizer's; nothing is changed then.
        """
        name = type(self).__name__
        if _lacks(state_dict, "state", "param_groups"):
            raise StateDictError(f"{name}.load_state_dict", f"a {type(state_dict).__name__} without 'state' and "
                                 "'param_groups'", "both are needed", "pass what optimizer.state_dict() returned")
        saved = state_dict["param_groups"]
        sizes, own = [len(group["params"]) for group in saved], [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise StateDictError(f"{name}.load_state_dict", f"groups of {sizes} parameters",
                                 f"the optimizer has groups of {own} parameters",
                                 "load it into an optimizer of the same parameters")
        by_number = {number: parameter for there, here in zip(saved, self.param_groups, strict=True)
                     for number, parameter in zip(there["params"], here["params"], strict=True)}
        unknown = [number for number in state_dict["state"] if number not in by_number]
        if unknown:
            raise StateDictError(f"{name}.load_state_dict", f"state for parameters {unknown}", "no group has these "
                                 "parameters", "pass what optimizer.state_dict() returned")
        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            parameter = by_number[number]
            state[parameter] = {key: _fit(key, value, parameter) for key, value in values.items()}
        self.state = state
        self.param_groups = [{**deepcopy({k: v for k, v in there.items() if k != "params"}), "params": here["params"]}
                             for there, here in zip(saved, self.param_groups, strict=True)]

    def __repr__(self) -> str:
        lines = []
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"


def check_range(optimizer: str, name: str, value: Any, *, below: float | None = None) -> None:
    """Check that an option is a number that is not negative (and less than ``below``).

    Raises:
        ArgumentTypeError: It is no number.
        ArgumentError: It is out of range.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ArgumentTypeError(optimizer, f"{name} as {type(value).__name__}", f"{name} is a Python number",
                                f"pass {name} as a float")
    if not value >= 0 or (below is not None and not value < below):
        rule = f"{name} is not negative" if below is None else f"{name} is from 0 to less than {below:g}"
        raise ArgumentError(optimizer, f"{name}={value}", rule, "pass a number in this range")


def check_unsupported(optimizer: str, **flags: Any) -> None:
    """Refuse options that would change what ``step`` means.

    Raises:
        ArgumentError: One of them is on.
    """
    for name, value in flags.items():
        if value:
            raise ArgumentError(optimizer, f"{name}={value!r}", f"{name} is not supported", f"leave {name} out")


def evaluate(closure: Callable[[], Any] | None) -> Any:
    """Call the closure of ``step`` with gradients enabled."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def _marking(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` without recording of gradients, and with a note that it was called."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self._stepped = True
        with no_grad():
            return step(self, *args, **kwargs)

    return wrapper


def _is_collection(params: Any) -> bool:
    """Whether ``params`` may hold parameters or groups; a tensor or a single group would be iterated by mistake."""
    return isinstance(params, Iterable) and not isinstance(params, (Tensor, dict))


def _lacks(given: Any, *keys: str) -> bool:
    """Whether ``given`` is not a dict with these keys."""
    return not isinstance(given, dict) or not given.keys() >= set(keys)


def _check_parameter(name: str, position: int, member: Any, seen: set[int]) -> None:
    if not isinstance(member, Tensor):
        raise ArgumentTypeError(name, f"parameter {position} as {type(member).__name__}", "parameters are tensors",
                                "pass model.parameters()")
    if member.grad_fn is not None:
        raise ArgumentError(name, f"parameter {position} of shape {tuple(member.shape)}, which was computed",
                            "parameters are leaves of the gradient graph", "pass the leaf, or detach() it")
    if id(member) in seen:
        raise ArgumentError(name, f"parameter {position} of shape {tuple(member.shape)} a second time",
                            "a parameter is in one group once", "remove one of the two")
    seen.add(id(member))


def _fit(key: str, value: Any, parameter: Tensor) -> Any:
    """State as it suits ``parameter``: on its device and in its dtype. Step counts are Python numbers."""
    if not isinstance(value, Tensor):
        return deepcopy(value)
    if key == "step":
        return value.item()
    dtype = parameter.dtype if parameter.is_floating_point() else value.dtype
    return value.detach().to(device=parameter.device, dtype=dtype, copy=True)
