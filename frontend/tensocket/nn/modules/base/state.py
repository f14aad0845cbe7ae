"""The state of a module: the implementation of ``state_dict`` and ``load_state_dict``."""

from __future__ import annotations

import difflib
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from tensocket.__future__ import get_swap_module_params_on_conversion
from tensocket.errors import ArgumentTypeError, StateDictError, UnsupportedOperator
from tensocket.nn.parameter import Parameter, UninitializedTensorMixin, is_lazy
from tensocket.overrides import is_tensor_like
from tensocket.utils import swap_tensors
from tensocket.utils.hooks import RemovableHandle
from tensocket_operators import Tensor, no_grad

from .hooks import Hook, add_hook
from .tree import ModuleTree

#: Name under which a module's extra state is saved.
EXTRA: Final = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """The differences between the names of a state dict and of a module."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"



class ModuleState(ModuleTree):
    """The methods of a module that save and restore its tensors."""

    #: Version of the layout of the state, which is saved with it; ``_load_from_state_dict`` may read it.
    _version: int = 1
    _state_dict_hooks: OrderedDict[int, Hook]
    _state_dict_pre_hooks: OrderedDict[int, Hook]
    _load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _load_state_dict_post_hooks: OrderedDict[int, Hook]

    # ---- saving

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """Return parameters and persistent buffers by dotted name; the tensors share storage with the module's.

        Args:
            args: The other arguments by position. Deprecated.
            destination: The mapping to add to; a new one if not given.
            prefix: Prefix of all names.
            keep_vars: Whether tensors stay attached to the gradient graph.
        """
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2)
            given: Any = (*args, *(destination, prefix, keep_vars)[len(args):])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            result = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                _nothing("state_dict post-hook", result)
            elif result is not None:
                destination = result
        return cast("OrderedDict[str, Any]", destination)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add this module's own tensors to ``destination``; subclasses may extend it."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Return extra state; a subclass that has such state defines this method and ``set_extra_state``.

        Raises:
            UnsupportedOperator: The class has no extra state.
        """
        raise self._no_extra_state("get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that ``get_extra_state`` returned.

        Raises:
            UnsupportedOperator: The class has no extra state.
        """
        raise self._no_extra_state("set_extra_state")

    def _no_extra_state(self, method: str) -> UnsupportedOperator:
        return UnsupportedOperator(method, f"a {type(self).__name__}", "the class defines no extra state",
                                   "define get_extra_state and set_extra_state")

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)``, which may change the collected state in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """Register a hook as ``register_state_dict_post_hook`` does; it may return another mapping."""
        return add_hook(self._state_dict_hooks, hook)

    # ---- loading

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values into the module's parameters and buffers.

        The module is unchanged if a tensor does not fit, unless one of its modules overrides loading or has hooks on
        loading.

        Args:
            state_dict: Tensors by dotted name, of any dtype and device.
            strict: Whether the names must be exactly the module's.
            assign: Whether the tensors replace the module's instead of being copied into them.

        Returns:
            The names that were missing and unexpected.

        Raises:
            ArgumentTypeError: ``state_dict`` is not a mapping.
            StateDictError: Names (if ``strict``) or shapes differ, or a value is not a tensor.
        """
        if not isinstance(state_dict, Mapping):
            raise ArgumentTypeError("load_state_dict", f"a {type(state_dict).__name__}", "state_dict is a mapping of "
                                    "names to tensors", "pass what module.state_dict() or tensocket.load() returned")
        found, problems = _IncompatibleKeys([], []), list[str]()
        loading = _Loading(state_dict, strict, assign, found, problems, self._loads_plainly())
        loading.run(self, loading.state, "")
        if strict:
            problems[:0] = _describe_keys(found)
        if problems:
            raise StateDictError("load_state_dict", "\n\t".join(
                [f"Error(s) in loading state_dict for {type(self).__name__}:", *problems]),
                "names and shapes must be the module's own",
                _advice(found, [name for name, _ in self.named_parameters()], strict))
        with no_grad():
            for place, name, value, current in loading.pending:
                _put(place, name, value, current, assign)
        return found

    def _upgrade_state(self, state_dict: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
        """Upgrade in place a state that an older version of the class saved."""

    def _loads_plainly(self) -> bool:
        return not get_swap_module_params_on_conversion() and all(
            type(module)._load_from_state_dict is ModuleState._load_from_state_dict
            and not module._load_state_dict_pre_hooks and not module._load_state_dict_post_hooks
            and type(module).set_extra_state is ModuleState.set_extra_state for module in self.modules())

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors; subclasses may extend it.

        Args:
            state_dict: All tensors; hooks and subclasses may change it.
            prefix: Prefix of the names of this module's tensors.
            local_metadata: Saved facts about the module, with its ``version``.
            strict: Whether missing and unexpected names are listed.
            missing_keys: List to add missing names to.
            unexpected_keys: List to add unknown names to.
            error_msgs: List to add all other errors to.
        """
        self._upgrade_state(state_dict, prefix, local_metadata)
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = {name: tensor for name, tensor in (*self._parameters.items(), *self._buffers.items())
               if tensor is not None and name not in self._non_persistent_buffers_set}
        for name, current in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            if is_lazy(current) and is_lazy(state_dict[key]):
                continue
            value, problem = _fitted(key, state_dict[key], current, assign)
            if problem:
                error_msgs.append(problem)
            elif "pending" in local_metadata:
                local_metadata["pending"].append((self, name, value, current))
            else:
                try:
                    _store(self, name, value, current, assign)
                except Exception as error:
                    action = "swapping" if get_swap_module_params_on_conversion() else "copying"
                    error_msgs.append(
                        f'While {action} the parameter named "{key}", whose dimensions in the model are '
                        f"{current.size()} and whose dimensions in the checkpoint are {value.size()}, an exception "
                        f"occurred : {error.args}.")
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        loaded = {prefix + name for name in own}
        if strict and not state_dict.keys() <= loaded:
            known = own.keys() | self._modules.keys()
            unexpected_keys += [key for key in state_dict if key not in loaded and key.startswith(prefix)
                                and key != prefix + EXTRA and not self._knows(key[len(prefix):], known)]

    def _knows(self, name: str, known: set[str]) -> bool:
        first, dot, _ = name.partition(".")
        return first in known if not dot else first in self._modules

    def _load_extra_state(
        self, state_dict: dict[str, Any], prefix: str, strict: bool, missing: list[str], unexpected: list[str]
    ) -> None:
        key = prefix + EXTRA
        if type(self).set_extra_state is not ModuleState.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook before the module's own tensors are loaded, with the module and the arguments of
        ``_load_from_state_dict``: ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)``.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, LoadHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the two lists in place."""
        return add_hook(self._load_state_dict_post_hooks, hook)


class LoadHook:
    """A hook on loading and the module to pass to it; the hook does not keep the module alive."""

    def __init__(self, hook: Hook, module: Any = None) -> None:
        self.hook = hook
        self._module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        """Call the hook.

        Raises:
            StateDictError: Its module no longer exists.
        """
        if self._module is None:
            return self.hook(*args)
        module = self._module()
        if module is None:
            raise StateDictError("load_state_dict", "a hook on loading", "You are trying to call the hook of a dead "
                                 "Module!", "keep the module as long as its hooks are called")
        return self.hook(module, *args)

    def __getstate__(self) -> tuple[Hook, Any]:
        return self.hook, None if self._module is None else self._module()

    def __setstate__(self, state: tuple[Hook, Any]) -> None:
        self.__init__(*state)  # type: ignore[misc]


class _Loading:
    """One call of ``load_state_dict``."""

    def __init__(
        self, state: Mapping[str, Any], strict: bool, assign: bool, found: _IncompatibleKeys, problems: list[str],
        plain: bool,
    ) -> None:
        self.metadata = getattr(state, "_metadata", None) or {}
        self.state = OrderedDict(state)
        self.state._metadata = self.metadata  # type: ignore[attr-defined]
        self.strict, self.assign, self.found, self.problems, self.plain = strict, assign, found, problems, plain
        self.pending: list[tuple[ModuleTree, str, Tensor, Tensor]] = []

    def run(self, module: Any, state: dict[str, Any], prefix: str) -> None:
        """Load a module and all modules below it; a submodule gets only the tensors of its own prefix."""
        metadata = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            metadata["assign_to_params_buffers"] = True
        if self.plain:
            metadata["pending"] = self.pending
        # Names that do not fit are always listed for the result; ``run``'s caller decides whether they are errors.
        module._load_from_state_dict(state, prefix, metadata, True, *self.found, self.problems)
        children = {name: child for name, child in module._modules.items() if child is not None}
        parts: dict[str, dict[str, Any]] = {name: {} for name in children}
        for key, value in state.items() if parts else ():
            name, dot, _ = key[len(prefix):].partition(".")
            if dot and name in parts and key.startswith(prefix):
                parts[name][key] = value
        for name, child in children.items():
            self.run(child, parts[name], f"{prefix}{name}.")
        for hook in tuple(module._load_state_dict_post_hooks.values()):
            _nothing("load_state_dict post-hook", hook(module, self.found))


def _nothing(kind: str, result: Any) -> None:
    if result is not None:
        raise StateDictError(kind, f"a {type(result).__name__} from a hook", "the hook returns None",
                             "change the values that it is given in place")


def _fitted(key: str, value: Any, current: Tensor, assign: bool) -> tuple[Any, str]:
    """Return the value to store, and an error message if it does not fit."""
    if not is_tensor_like(value):
        return value, (f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                       f"checkpoint but received {type(value)}")
    if isinstance(value, UninitializedTensorMixin):
        return value, (f'While copying the parameter named "{key}", the checkpoint has an uninitialized one; call the '
                       "module that was saved once to give it a shape")
    if current.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
        # Older versions saved scalars as vectors of one element.
        value = value[0]
    if value.shape != current.shape:
        return value, (f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape "
                       f"in current model is {current.shape}.")
    if current.is_meta and not value.is_meta and not assign:
        warnings.warn(f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
                      "current model, which is a no-op. (Did you mean to pass `assign=True`?)", stacklevel=6)
    return value, ""


def _store(place: ModuleTree, name: str, value: Tensor, current: Tensor, assign: bool) -> None:
    with no_grad():
        _put(place, name, value, current, assign)


def _put(place: ModuleTree, name: str, value: Tensor, current: Tensor, assign: bool) -> None:
    if get_swap_module_params_on_conversion():
        _swap(value, current, assign)
    elif assign:
        setattr(place, name, _as_parameter(value, current))
    else:
        current.copy_(value)


def _swap(value: Tensor, current: Tensor, assign: bool) -> None:
    loaded = current.module_load(value, assign=assign)
    if loaded is value or loaded is current:
        raise StateDictError("load_state_dict", f"module_load of {type(current).__name__}", "module_load returned one "
                             "of self or other", "please .detach() the result")
    swap_tensors(current, _as_parameter(loaded, current))


def _as_parameter(value: Tensor, current: Tensor) -> Tensor:
    """Return ``value``, as a parameter if ``current`` is one."""
    if not isinstance(current, Parameter):
        return value
    if isinstance(value, Parameter):
        return value.requires_grad_(current.requires_grad)
    return Parameter(value, requires_grad=current.requires_grad)


def _describe_keys(found: _IncompatibleKeys) -> list[str]:
    """Return lines about names, as PyTorch writes them."""
    kinds = (("Missing", found.missing_keys), ("Unexpected", found.unexpected_keys))
    return [f"{kind} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + ". "
            for kind, names in kinds if names]


def _advice(found: _IncompatibleKeys, own: list[str], strict: bool) -> str:
    advice = "load the state of a module with the same architecture"
    if not strict or not (found.missing_keys or found.unexpected_keys):
        return advice
    close = []
    for name in found.unexpected_keys[:20]:
        match = difflib.get_close_matches(name, found.missing_keys or own, n=1)
        close += [f"{name!r} may be {match[0]!r}"] if match else []
    if close:
        advice += f" ({', '.join(close)})"
    return advice + ", or pass strict=False to skip missing and unexpected names"


__all__ = ["EXTRA", "LoadHook", "ModuleState"]
