"""Replacing functions while a program is recorded, and what they are replaced by.

Calls of operators with a proxy reach its ``__torch_function__`` on their own. Three kinds of calls do not: functions
that programs wrap, functions of this package that look at their arguments before they call an operator, and those that
make tensors from numbers. While a tracer runs, each of them is replaced, in its module and in the modules of the
program, by one that records a call with a proxy. As all replacements, this is for one thread.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from tensocket.errors import ArgumentError
from tensocket.overrides import resolve_name
from tensocket_compiler.graph.names import PUBLIC
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators import Tensor
from tensocket_operators.creation.record import Factory
from tensocket_operators.namespaces import OpOverloadPacket

from .node import map_aggregate
from .proxy import Proxy

#: Functions to replace: id of the namespace and name, to the namespace. Filled by ``wrap``.
_wrapped_fns_to_patch: Final[dict[tuple[int, str], dict[str, Any]]] = {}
#: Methods to replace: class and name.
_wrapped_methods_to_patch: Final[list[tuple[type, str]]] = []
#: Modules whose functions are replaced.
_SPACES: Final = ("", ".nn.functional", ".linalg", ".fft", ".special", ".functional", ".nn.init", ".nn.utils.rnn")
#: Methods of tensors that look at sizes, of which some may be proxies.
_METHODS_WITH_SIZES: Final = ("expand", "narrow", "new_empty", "new_full", "new_ones", "new_zeros", "permute", "repeat",
                              "reshape", "sum", "mean", "tile", "unflatten", "view")
#: Functions whose records hand all arguments to a proxy in one form; a recorded call would keep the caller's.
_LEFT_ALONE: Final = frozenset({"einsum"})
#: Functions that answer about Python objects, or change settings: proxies are ordinary objects for them.
_ORDINARY: Final = frozenset({
    "is_tensor", "is_storage", "typename", "compile", "save", "load", "vmap", "import_module", "get_device_module",
    "set_default_dtype", "set_default_device", "set_default_tensor_type", "set_printoptions", "set_grad_enabled",
    "set_warn_always", "wraps", "cast", "dataclass", "cond", "while_loop", "no_grad", "enable_grad", "manual_seed",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "handle_torch_function"})


def _find_proxy(*objects_to_search: Any) -> Proxy | None:
    """Return a proxy among arguments and their containers, or None."""
    found: list[Proxy] = []

    def note(leaf: Any) -> Any:
        if isinstance(leaf, Proxy):
            found.append(leaf)
        return leaf

    map_aggregate(objects_to_search, note)
    return found[-1] if found else None


def _create_wrapped_func(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that records its calls with proxies as calls of the original."""
    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    """Return a method that records its calls with proxies."""
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


# ---- functions of this package


@cache
def _own_functions() -> dict[int, tuple[Callable[..., Any], Callable[..., Any]]]:
    """Return the public functions that take tensors, and their replacements, by the id of the function.

    The key is a function's identity; the table holds the functions, and stays for the process.
    """
    found: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}
    for space in _SPACES:
        for name, function in vars(import_module("tensocket" + space)).items():
            if _is_recordable(name, function) and id(function) not in found:
                found[id(function)] = (function, _recording(function))
    return found


def _is_recordable(name: str, function: Any) -> bool:
    module = str(getattr(function, "__module__", ""))
    return (callable(function) and not isinstance(function, type) and inspect.isroutine(function)
            and module.partition(".")[0] in ("tensocket", "tensocket_operators", "tensocket_core")
            and not module.startswith("tensocket.fx") and name not in _ORDINARY | _LEFT_ALONE
            and (not name.startswith("_") or name == "_assert"))


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that lets a proxy among the arguments handle the call."""
    named = str(function.__module__).startswith("tensocket.nn") or id(function) in _handed_by_name()

    @functools.wraps(function)
    def recording(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        if named:
            args, kwargs = _by_name(function, args, kwargs)
        return type(proxy).__torch_function__(function, (type(proxy),), args, kwargs)

    return recording


@cache
def _handed_by_name() -> frozenset[int]:
    """Return the ids of the functions whose handlers receive arguments that have a default by name."""
    records = (*OPERATORS.values(), *COMPOSITES.values())
    return frozenset([id(record.public) for record in records if record.hands_by_name])


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature; the key is the function, and there are as many as functions of ``nn``."""
    return inspect.signature(function)


def _by_name(function: Callable[..., Any], args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with those that have a default as keywords, which passes of programs look up."""
    signature = _signature(function)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.parameters.values()):
        return args, kwargs
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        required = parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY
        if required:
            positional.append(value)
        elif not name.startswith("_") or name in kwargs:
            keywords[name] = value
    return tuple(positional), keywords


# ---- replacing


class _PatchedFn(NamedTuple):
    """A replacement: where, what was there, and what is there now."""

    frame_dict: Any
    fn_name: str
    orig_fn: Any
    new_fn: Any

    def revert(self) -> None:
        """Undo it."""
        raise NotImplementedError

    def patch(self) -> None:
        """Do it again."""
        raise NotImplementedError


class _PatchedFnSetItem(_PatchedFn):
    """A replaced global."""

    def revert(self) -> None:
        self.frame_dict[self.fn_name] = self.orig_fn

    def patch(self) -> None:
        self.frame_dict[self.fn_name] = self.new_fn


class _PatchedFnDel(_PatchedFn):
    """A global that hides a builtin."""

    def revert(self) -> None:
        del self.frame_dict[self.fn_name]

    def patch(self) -> None:
        self.frame_dict[self.fn_name] = self.new_fn


class _PatchedFnSetAttr(_PatchedFn):
    """A replaced method."""

    def revert(self) -> None:
        setattr(self.frame_dict, self.fn_name, self.orig_fn)

    def patch(self) -> None:
        setattr(self.frame_dict, self.fn_name, self.new_fn)


class _PatchedFnDelAttr(_PatchedFn):
    """A method that hides an inherited one."""

    def revert(self) -> None:
        delattr(self.frame_dict, self.fn_name)

    def patch(self) -> None:
        setattr(self.frame_dict, self.fn_name, self.new_fn)


class _Patcher:
    """A block of replacements, which ends by undoing them."""

    def __init__(self) -> None:
        self.patches_made: list[_PatchedFn] = []
        self.visited: set[int] = set()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Callable[..., Any],
              deduplicate: bool = True) -> None:
        """Replace a global of a module.

        Args:
            frame_dict: The module's globals.
            name: The name.
            new_fn: The new value.
            deduplicate: Whether a global that has been replaced already is left alone.
        """
        setattr(new_fn, "__fx_already_patched", deduplicate)
        if name not in frame_dict and hasattr(builtins, name):
            self.patches_made.append(_PatchedFnDel(frame_dict, name, None, new_fn))
        elif getattr(frame_dict[name], "__fx_already_patched", False):
            return
        else:
            self.patches_made.append(_PatchedFnSetItem(frame_dict, name, frame_dict[name], new_fn))
        frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
        """Replace a method of a class."""
        setattr(new_fn, "__fx_already_patched", deduplicate)
        orig_fn = getattr(cls, name)
        if getattr(orig_fn, "__fx_already_patched", False):
            return
        kind = _PatchedFnSetAttr if name in vars(cls) else _PatchedFnDelAttr
        self.patches_made.append(kind(cls, name, vars(cls).get(name), new_fn))
        setattr(cls, name, new_fn)

    def visit_once(self, thing: Any) -> bool:
        """Whether this is the first visit of an object."""
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def revert_all_patches(self) -> list[_PatchedFn]:
        """Undo all replacements, newest first, and return them."""
        for patch in reversed(self.patches_made):
            patch.revert()
        return self.patches_made

    def reapply_all_patches(self) -> list[_PatchedFn]:
        """Do all replacements again, and return them."""
        for patch in self.patches_made:
            patch.patch()
        return self.patches_made

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: object) -> None:
        while self.patches_made:
            self.patches_made.pop().revert()
        self.visited.clear()


CURRENT_PATCHER: _Patcher | None = None


@contextmanager
def _new_patcher() -> Iterator[_Patcher]:
    """Provide the replacements of one recording."""
    global CURRENT_PATCHER
    earlier = CURRENT_PATCHER
    try:
        with _Patcher() as patcher:
            CURRENT_PATCHER = patcher
            yield patcher
    finally:
        CURRENT_PATCHER = earlier


@contextmanager
def _maybe_revert_all_patches() -> Iterator[None]:
    """Undo the replacements of the recording that runs, if one does, in a block."""
    patcher = CURRENT_PATCHER
    if patcher is not None:
        patcher.revert_all_patches()
    try:
        yield
    finally:
        if patcher is not None:
            patcher.reapply_all_patches()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Replace the functions and methods that programs have wrapped."""
    for (_, name), frame_dict in list(_wrapped_fns_to_patch.items()):
        orig_fn = frame_dict.get(name, getattr(builtins, name, None))
        if orig_fn is not None:
            patcher.patch(frame_dict, name, _create_wrapped_func(orig_fn))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _load_tables() -> None:
    """Make the tables of the original functions. They import modules, which must not see replacements."""
    resolve_name(len)
    PUBLIC.name_of(len)
    _own_functions()


def _patch_own_functions(patcher: _Patcher) -> None:
    """Replace the functions of this package in their modules."""
    for space in _SPACES:
        _autowrap_check(patcher, vars(import_module("tensocket" + space)), set())
    for name in _METHODS_WITH_SIZES:
        patcher.patch_method(Tensor, name, _create_wrapped_method(Tensor, name))
    for kind in (Operator, Factory, OpOverloadPacket):
        patcher.patch_method(kind, "__call__", _record_call(kind.__call__), deduplicate=False)


def _record_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of packets or records, ``torch.ops.aten.add.Tensor``, that records calls with proxies."""
    @functools.wraps(original)
    def call(record: Any, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        # Functions of this package that call records call them for a public function, which reaches the proxy as such.
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if proxy is None or caller.startswith(("tensocket_operators", "tensocket_core")):
            return original(record, *args, **kwargs)
        return type(proxy).__torch_function__(record, (type(proxy),), args, kwargs)

    return call


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Replace, in a module's globals, functions of this package and those with the given ids."""
    if not patcher.visit_once(frame_dict):
        return
    own = _own_functions()
    for name, value in list(frame_dict.items()):
        if id(value) in own and own[id(value)][0] is value:
            patcher.patch(frame_dict, name, own[id(value)][1])
        elif not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, _create_wrapped_func(value))


# ---- functions of programs


class WrapPlaceError(ArgumentError, NotImplementedError):
    """A call of ``wrap`` inside of a function."""


def wrap(fn_or_name: Any) -> Any:
    """Record calls of a function with proxies as one node, without looking into it.

    Call it at the top of a module, with the name of one of its functions or of a builtin, or as a decorator.

    Args:
        fn_or_name: The function, or its name in the calling module.

    Returns:
        The argument.

    Raises:
        ArgumentError: It is neither a function nor a name.
        WrapPlaceError: The caller is not a module.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise ArgumentError("wrap", f"a {type(fn_or_name).__name__}", "Unsupported type for global function! Must be "
                            "either a callable or string name", "pass the function")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise WrapPlaceError("wrap", f"a call for {name} in {caller.f_code.co_name if caller else 'C code'}",
                             "wrap must be called at the top level of a module", "move the call out of the function")
    _wrapped_fns_to_patch[(id(caller.f_globals), name)] = caller.f_globals
    return fn_or_name
