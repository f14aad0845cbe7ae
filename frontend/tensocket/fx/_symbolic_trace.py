"""Recording a module's ``forward``, or a function, as a graph: it runs once on proxies."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeVar

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket.nn import Module, Parameter, Sequential
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_operators import Tensor

from ._compatibility import compatibility as compatibility
from ._lazy_graph_module import _LazyGraphModule, _make_graph_module
from ._patching import (
    _autowrap_check,
    _create_wrapped_func,
    _create_wrapped_method,
    _find_proxy,
    _load_tables,
    _maybe_revert_all_patches,
    _new_patcher,
    _patch_own_functions,
    _patch_wrapped_functions,
    _PatchedFn,
    _PatchedFnDel,
    _PatchedFnSetAttr,
    _PatchedFnSetItem,
    _Patcher,
    _wrapped_fns_to_patch,
    _wrapped_methods_to_patch,
    wrap,
)
from ._placeholders import HAS_VARSTUFF, PH, PHBase, PHWithMeta, _assert_is_none, _patch_function, make_placeholder
from .graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from .graph_module import GraphModule
from .node import Argument, Node
from .proxy import ParameterProxy, Scope, ScopeContextManager, TracerBase

Function = TypeVar("Function", bound=Callable[..., Any])

_orig_module_call: Callable[..., Any] = Module.__call__
_orig_module_getattr: Callable[..., Any] = Module.__getattr__
_proxyable_classes: Final[dict[type, None]] = {}
_is_fx_tracing_flag: bool = False


class ParameterMembershipError(ArgumentError, NameError):
    """A parameter or module that the recorded root does not contain."""


def is_fx_tracing() -> bool:
    """Whether a tracer records."""
    return _is_fx_tracing_flag


def is_fx_symbolic_tracing() -> bool:
    """Whether a tracer records symbolically, which is the only way here."""
    return _is_fx_tracing_flag


class ProxyableClassMeta(type):
    """A metaclass of classes whose construction from proxies is recorded as a call of the class."""

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance; with a proxy among the arguments, record that one is made."""
        proxy = _find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class Tracer(TracerBase):
    """Records a module's ``forward``, or a function, as a graph. Subclasses change what is recorded.

    Args:
        autowrap_modules: Modules whose functions are recorded as calls if a proxy is among the arguments.
        autowrap_functions: Functions that are.
        param_shapes_constant: Whether shapes of parameters are constants, not recorded.

    Attributes:
        root: The module whose ``forward`` is recorded.
    """

    def __init__(self, autowrap_modules: tuple[ModuleType, ...] = (math,),
                 autowrap_functions: tuple[Callable[..., Any], ...] = (), param_shapes_constant: bool = False) -> None:
        super().__init__()
        self._autowrap_function_ids: set[int] = {
            id(value) for module in autowrap_modules for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)} | {id(function) for function in autowrap_functions}
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self.tensor_attrs: dict[Any, str] = {}

    # ---- arguments

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return the name of an attribute that the root does not have yet: ``prefix`` and a number."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """Return an argument as a node holds it: parameters, buffers, modules and tensors are read from the root.

        Raises:
            ParameterMembershipError: A parameter is not one of the root.
        """
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise ParameterMembershipError("symbolic_trace", f"a parameter of shape {tuple(a.shape)}",
                                           "parameter is not a member of this module", "register it in the root module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            path = self.tensor_attrs.get(id(a))
            if path is None:
                path = self._keep("_tensor_constant", a)
                self.tensor_attrs[id(a)] = path
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes:
            return self.create_node("get_attr", self._keep(f"_{type(a).__name__}_constant_", a), (), {})
        return super().create_arg(a)

    def _keep(self, prefix: str, value: Any) -> str:
        """Assign a constant to the root, and return its name."""
        name = self.get_fresh_qualname(prefix)
        setattr(self.root, name, value)
        return name

    # ---- modules

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of a module is one node; by default all of ``nn`` but ``Sequential`` are.

        Args:
            m: The module.
            module_qualified_name: Its path below the root.
        """
        return m.__module__.startswith(("tensocket.nn", "torch.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a module below the root.

        Raises:
            ParameterMembershipError: The root does not contain it.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is not None:
                return path
        else:
            for name, module in self.root.named_modules():
                if module is mod:
                    return name
        raise ParameterMembershipError("symbolic_trace", f"a call of a {type(mod).__name__}", "module is not "
                                       "installed as a submodule", "assign the module to an attribute of the root")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a module: as a node if it is a leaf, else by running ``forward``."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            count = self.num_calls.get(path, 0)
            self.num_calls[path] = count + 1
            key = f"{scope.module_path}@{count}" if count else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return a module's attribute as the program gets it: parameters and, if asked, buffers are proxies.

        Args:
            attr: Name of the attribute.
            attr_val: Its value.
            parameter_proxy_cache: Proxies by path; one recording fills it, and it ends with the recording.
        """
        if isinstance(attr_val, Parameter):
            found = self._attribute_proxy(attr_val, self.root.named_parameters(), parameter_proxy_cache,
                                          self.param_shapes_constant)
            return attr_val if found is None else found
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self._attribute_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache, False)
            return attr_val if found is None else found
        return attr_val

    def _attribute_proxy(self, value: Any, members: Iterator[tuple[str, Any]], known: dict[str, Any],
                         is_shape_known: bool) -> Any:
        for name, member in members:
            if member is value:
                if name not in known:
                    make = functools.partial(_parameter_proxy, self, name, value) if is_shape_known else None
                    known[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)
                return known[name]
        return None

    # ---- recording

    def create_args_for_root(self, root_fn: Callable[..., Any], is_module: bool,
                             concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
                             ) -> tuple[Callable[..., Any], list[Any]]:
        """Record the placeholders of a function.

        Args:
            root_fn: The function; of a module, that of the class.
            is_module: Whether the first argument is the root.
            concrete_args: Values or structures of some arguments.

        Returns:
            The function to call, and its arguments.

        Raises:
            ArgumentError: ``concrete_args`` is a tuple of another length than the arguments.
        """
        code: CodeType = inspect.unwrap(root_fn).__code__
        total = code.co_argcount + code.co_kwonlyargcount
        original = list(code.co_varnames)
        names = iter(code.co_varnames)
        args: list[Any] = []
        skip = 0
        if is_module:
            if total == 0:
                raise ArgumentError("symbolic_trace", f"a {type(self.root).__name__}", "`self` argument cannot be "
                                    "part of *args expansion!", "define forward(self, ...)")
            skip = 1
            next(names)
            args.append(self.root)
        concrete = self._by_name(concrete_args, original[skip:total], bool(code.co_flags & inspect.CO_VARARGS))
        signature = inspect.signature(inspect.unwrap(root_fn))
        args += [make_placeholder(self, next(names), concrete, signature, root_fn) for _ in range(skip, total)]
        if code.co_kwonlyargcount > 0 or code.co_flags & HAS_VARSTUFF:
            stars = (code.co_flags & inspect.CO_VARARGS and "*", code.co_flags & inspect.CO_VARKEYWORDS and "**")
            args += [make_placeholder(self, star + next(names), concrete, signature, root_fn) for star in stars if star]
            root_fn = _patch_function(root_fn, len(args))
        flat, in_spec = tree_flatten(tuple(args))
        if not concrete or all(child.is_leaf() for child in in_spec.children()):
            return root_fn, args
        return self._flattening(root_fn, flat, in_spec, original[:total])

    def _by_name(self, concrete: Any, names: list[str], collects: bool) -> dict[str, Any]:
        if not isinstance(concrete, tuple):
            return dict(concrete or {})
        if len(concrete) != len(names) and not (collects and len(concrete) > len(names)):
            raise ArgumentError("symbolic_trace", f"{len(concrete)} concrete_args", "Tracing expected to get "
                                f"{len(names)} arguments but got {len(concrete)} concrete arguments",
                                "pass a value or PH for each argument, or a dict")
        return dict(zip(names, concrete, strict=False))

    def _flattening(self, root_fn: Callable[..., Any], flat: list[Any], in_spec: Any,
                    names: list[str]) -> tuple[Callable[..., Any], list[Any]]:
        """Return a function of the leaves of the arguments that returns the leaves of the result."""
        info = _PyTreeInfo(names, in_spec, None)
        self.graph._codegen = _PyTreeCodeGen(info)

        def run_flat(*leaves: Any) -> Any:
            result, out_spec = tree_flatten(root_fn(*tree_unflatten(list(leaves), in_spec)))
            assert isinstance(self.graph._codegen, _PyTreeCodeGen)
            self.graph._codegen.pytree_info = info._replace(out_spec=out_spec)
            return result

        return run_flat, flat

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
              ) -> Graph:
        """Record a module or function.

        Args:
            root: The module, whose ``forward`` is recorded, or the function.
            concrete_args: Values of arguments, by name or in order, that are not placeholders; within structures,
                ``PH`` stands for a placeholder.

        Returns:
            The graph; its attributes are those of ``self.root``.

        Raises:
            TraceError: The program depends on values that are not known.
        """
        global _is_fx_tracing_flag
        earlier, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            function = self._prepare(root)
            function, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
            with self._patched(function):
                result = self.create_arg(function(*args))
            self.create_node("output", "output", (result,), {},
                             type_expr=getattr(function, "__annotations__", {}).get("return"))
            self.submodule_paths = None
        finally:
            _is_fx_tracing_flag = earlier
        return self.graph

    def _prepare(self, root: Module | Callable[..., Any]) -> Callable[..., Any]:
        """Set the root and an empty graph, and return the function to record."""
        function: Any
        if isinstance(root, Module):
            for module in root.modules():
                if isinstance(module, GraphModule):
                    _LazyGraphModule.force_recompile(module)
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            function = root
        tracer_cls: type[Tracer] | None = getattr(self, "__class__", None)
        self.graph = Graph(tracer_cls=tracer_cls)
        if "<locals>" in type(self).__qualname__:
            self.graph._tracer_cls = None  # a local class cannot be pickled
        code = getattr(function, "__code__", None)
        if code is not None:
            self.graph._co_fields = {"co_name": code.co_name, "co_filename": code.co_filename,
                                     "co_firstlineno": code.co_firstlineno}
        self.tensor_attrs = {}
        _collect_tensors(self.root, [], self.tensor_attrs)
        if not isinstance(function, FunctionType) and not hasattr(inspect.unwrap(function), "__code__"):
            raise ArgumentTypeError("symbolic_trace", f"a {type(root).__name__}", "a module or a Python function is "
                                    "recorded", "wrap the object in a function")
        return function  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def _patched(self, function: Callable[..., Any]) -> Iterator[None]:
        """Replace everything that a recording replaces."""
        known: dict[str, Any] = {}

        @functools.wraps(_orig_module_getattr)
        def get(mod: Any, attr: str) -> Any:
            return self.getattr(attr, _orig_module_getattr(mod, attr), known)

        @functools.wraps(_orig_module_call)
        def call(mod: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _orig_module_call(mod, *args, **kwargs)

            own = getattr(getattr(mod, "forward", mod), "__globals__", {})
            _autowrap_check(patcher, own, self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        _load_tables()
        with _new_patcher() as patcher:
            for name, replacement in (("__getattr__", get), ("__call__", call)):
                patcher.patch_method(Module, name, replacement, deduplicate=False)
            _patch_wrapped_functions(patcher)
            _patch_own_functions(patcher)
            _autowrap_check(patcher, getattr(inspect.unwrap(function), "__globals__", {}), self._autowrap_function_ids)
            for owner in self.root.modules():  # functions that modules keep, as in self.act = F.gelu
                _autowrap_check(patcher, vars(owner), self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
            yield

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        copied = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            # Modules that are searched for functions are not copied.
            same = name in ("_autowrap_search", "root")
            copied.__dict__[name] = copy.copy(value) if same and name != "root" else (
                value if same else copy.deepcopy(value, memo))
        return copied

    def _proxy_placeholder(self, name: str, concrete_args: dict[str, Any], sig: inspect.Signature,
                           fn_for_analysis: Callable[..., Any]) -> Any:
        return make_placeholder(self, name, concrete_args, sig, fn_for_analysis)


def _parameter_proxy(tracer: Tracer, name: str, parameter: Any, node: Node) -> ParameterProxy:
    return ParameterProxy(tracer, node, name, parameter)


def _collect_tensors(module: Module, path: list[str], found: dict[Any, str]) -> None:
    """Note the paths of tensors that are attributes of a module and of those below it."""
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            found[id(value)] = ".".join([*path, name])
    for name, child in module.named_children():
        _collect_tensors(child, [*path, name], found)


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
                   ) -> GraphModule:
    """Record a module or function, and return a module that runs the graph.

    Args:
        root: The module, whose ``forward`` is recorded, or the function.
        concrete_args: Values of arguments, by name or in order, that are not placeholders; within structures, ``PH``
            stands for a placeholder.

    Returns:
        A ``GraphModule`` with the attributes of ``root`` that its graph uses.

    Raises:
        TraceError: The program depends on values that are not known.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return _make_graph_module(tracer.root, graph, name)


__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "_PatchedFn", "_PatchedFnDel",
           "_PatchedFnSetAttr", "_PatchedFnSetItem", "_Patcher", "_assert_is_none", "_create_wrapped_func",
           "_create_wrapped_method", "_find_proxy", "_maybe_revert_all_patches", "_new_patcher", "_patch_function",
           "_patch_wrapped_functions", "_wrapped_fns_to_patch", "_wrapped_methods_to_patch", "is_fx_symbolic_tracing",
           "is_fx_tracing", "symbolic_trace", "wrap"]


def __getattr__(name: str) -> Any:
    """Return the class of scripted objects, which is imported at its first use."""
    if name == "ScriptObject":
        from tensocket.jit.compiler.classes import ScriptObject

        return ScriptObject
    raise AttributeError(f"module 'tensocket.fx._symbolic_trace' has no attribute {name!r}")
