"""``trace`` and ``trace_module``."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import tensocket
from tensocket.jit.annotations import from_value, qualified
from tensocket.jit.compiler.module_types import unique_name
from tensocket.jit.files.file_details import FileDetails
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import MISSING, Argument, CompiledFunction, FunctionSchema
from tensocket.jit.graph.ir import Node
from tensocket.jit.markers import STATE
from tensocket.jit.modules import RecursiveScriptModule, ScriptModule, TopLevelTracedModule
from tensocket.jit.script_functions import ScriptFunction
from tensocket.jit.tracer import Tracer
from tensocket.jit.tracer_warning import TracerWarning
from tensocket.nn import Module
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError


class TracingCheckError(Exception):
    """Two traces of a function that differ.

    Args:
        graph_diff_error: The difference of the graphs.
        tensor_compare_error: The difference of values.
    """

    def __init__(self, graph_diff_error: str | None, tensor_compare_error: str | None,
                 extra_msg: str | None = None) -> None:
        self.message = "Tracing failed sanity checks!\n" + "\n".join(
            part for part in (extra_msg, graph_diff_error, tensor_compare_error) if part)
        super().__init__(self.message)


def trace(func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False,
          _module_class: Any = None, _compilation_unit: Any = None, example_kwarg_inputs: Any = None,
          _store_inputs: bool = True) -> Any:
    """Record a call of a function or module, and return it as a script.

    Sizes of tensors may change in later calls; other values that Python reads, and branches that it takes, are
    constants of the script, about which a ``TracerWarning`` warns.

    Args:
        func: The function or module.
        example_inputs: A tensor, or a tuple of arguments.
        optimize: Accepted as in PyTorch, where it has no effect.
        check_trace: Whether to record again and to compare graphs and results.
        check_inputs: Tuples of arguments for the comparison, instead of the examples.
        check_tolerance: Largest difference of results.
        strict: Whether lists and dicts as results are refused.
        example_kwarg_inputs: Arguments by name, instead of ``example_inputs``.

    Raises:
        ArgumentError: The arguments are not given, or given twice.
        TracingCheckError: A second trace has another graph.
        RuntimeError: The function returns something that is not a tensor or container of tensors.
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn("The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as "
                      "is.",
                      UserWarning, stacklevel=2)
        return func
    if isinstance(func, Module):
        given = example_inputs if example_kwarg_inputs is None else example_kwarg_inputs
        return trace_module(func, {"forward": given}, None, check_trace,
                            None if check_inputs is None else [{"forward": each} for each in check_inputs],
                            check_tolerance, strict, example_inputs_is_kwarg=example_kwarg_inputs is not None)
    if hasattr(func, "__self__") and isinstance(func.__self__, Module) and func.__name__ == "forward":
        return trace(func.__self__, example_inputs, optimize, check_trace, check_inputs, check_tolerance, strict,
                     example_kwarg_inputs=example_kwarg_inputs)
    if not callable(func):
        raise ArgumentTypeError("trace", f"a {type(func).__name__}", "functions and modules are traced", "pass one "
                                "of these")
    args, kwargs = _arguments(example_inputs, example_kwarg_inputs)
    compiled = _record(func, args, kwargs, getattr(func, "__name__", "forward"), strict)
    made = ScriptFunction(compiled, func if hasattr(func, "__name__") else None)
    if check_trace:
        _check(func, made, compiled, check_inputs or [example_inputs], kwargs, check_tolerance, strict)
    return made


def _arguments(example_inputs: Any, example_kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if example_kwargs is not None:
        if example_inputs is not None:
            raise ArgumentError("trace", "example_inputs and example_kwarg_inputs", "one of the two is given", "pass "
                                "one")
        if not isinstance(example_kwargs, dict):
            raise ArgumentTypeError("trace", f"example_kwarg_inputs of type {type(example_kwargs).__name__}",
                                    "example_kwarg_inputs should be a dict", "pass a dict")
        return (), dict(example_kwargs)
    if example_inputs is None:
        raise ArgumentError("trace", "no example_inputs", "a trace records a call with examples", "pass a tuple of "
                            "arguments")
    if isinstance(example_inputs, (Tensor, dict)) or not isinstance(example_inputs, (tuple, list)):
        return (example_inputs,), {}
    return tuple(example_inputs), {}


def _names_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    target = func.forward if isinstance(func, Module) else func
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return [f"argument_{k}" for k in range(len(args))] + list(kwargs)
    names: list[str] = []
    for name, value in bound.arguments.items():
        kind = inspect.signature(target).parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{k}" for k in range(len(value))]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            names += list(value)
        else:
            names.append(name)
    return names


def _input_type(value: Any) -> t.JitType:
    kind = from_value(value)
    if kind is None or kind in (t.INT, t.FLOAT, t.BOOL, t.STRING):
        raise RuntimeError(f"[jit.trace] an argument of type {type(value).__name__} — Type '{type(value).__name__}' "
                           f"cannot be "
                           "traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors can be "
                           "traced — "
                           "bind other arguments with functools.partial")
    return kind


def _record(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str, strict: bool,
            module: Any = None, kind: t.ClassType | None = None, method: Callable[..., Any] | None = None
            ) -> CompiledFunction:
    """Record one call."""
    tracer = Tracer(name, strict)
    function = tracer.function
    graph = tracer.compiler.graph
    arguments: list[Argument] = []
    if kind is not None:
        function.owner = kind
        function.qualified = f"{kind.name}.{name}"
        arguments.append(Argument("self", kind))
        tracer.set_root(module, graph.add_input(kind, "self"))
    given: list[Any] = []
    seen: set[int] = set()
    for label, value in zip(_names_of(method or func, args, kwargs), [*args, *kwargs.values()], strict=False):
        arguments.append(Argument(label, _input_type(value), MISSING))
        inner = graph.add_input(arguments[-1].type, label)
        given.append(_distinct(value, seen))
        tracer.bind(given[-1], inner)
    function.schema = FunctionSchema(name, arguments, t.TENSOR)
    call = method or func
    with tracer.recording():
        result = call(*given[:len(args)], **dict(zip(kwargs, given[len(args):], strict=True)))
    _check_result(result, strict)
    graph.add_output(tracer.value(result))
    function.schema.result = graph.tail.inputs_[0].kind
    function.graph = graph
    _warn_comparisons(tracer)
    from tensocket.jit.graph.passes import remove_dead

    remove_dead(graph)
    return function


def _warn_comparisons(tracer: Tracer) -> None:
    if tracer.run.notes.comparisons:
        warnings.warn("[jit.trace] a comparison of sizes — Converting a tensor to a Python boolean might cause the "
                      "trace to be "
                      "incorrect: the branch that it took is a constant of the trace — use torch.jit.script for the "
                      "function",
                      TracerWarning, stacklevel=4)


def _distinct(value: Any, given: set[int]) -> Any:
    """Return an argument with new tensors for those in ``given``, so that one tensor in two places is two inputs.

    The others are the caller's own: programs may compare them with parameters that they hold.
    """
    if isinstance(value, Tensor):
        if id(value) in given:
            return value.detach().requires_grad_(value.requires_grad)
        given.add(id(value))
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_distinct(each, given) for each in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_distinct(each, given) for each in value])
    return {k: _distinct(v, given) for k, v in value.items()} if isinstance(value, dict) else value


def _check_result(result: Any, strict: bool) -> None:
    """Refuse results that a trace cannot hold.

    Raises:
        RuntimeError: The result is such a value.
    """
    if isinstance(result, Tensor):
        return
    if isinstance(result, (list, dict)) and strict:
        raise RuntimeError(f"[jit.trace] a {type(result).__name__} as result — Encountering a "
                           f"{type(result).__name__} at the "
                           "output of the tracer might cause the trace to be incorrect, this is only valid if the "
                           "container "
                           "structure does not change based on the module's inputs — return a tuple, or pass "
                           "strict=False")
    if isinstance(result, (tuple, list)):
        for each in result:
            _check_result(each, strict)
        return
    if isinstance(result, dict):
        for each in result.values():
            _check_result(each, strict)
        return
    raise RuntimeError(f"[jit.trace] a result of type {type(result).__name__} — Only tensors, lists, tuples of "
                       f"tensors, or "
                       "dictionary of tensors can be output from traced functions — return tensors")


# ---------------------------------------------------------------------------------------- modules

def _traced_type(module: Module, memo: dict[int, t.ClassType]) -> t.ClassType:
    """Return the type of a module whose methods are recorded: its tensors and parts."""
    if isinstance(module, ScriptModule) and "_type" in module.__dict__:
        return module._type
    if id(module) in memo:
        return memo[id(module)]
    kind = memo[id(module)] = t.ClassType(unique_name(qualified(type(module))), type(module), is_module=True)
    kind.details = FileDetails(kind, False)
    for name, value in module._parameters.items():
        kind.attributes[name] = t.NONE if value is None else t.TENSOR
        kind.parameters.add(name)
    for name, buffer in module._buffers.items():
        kind.attributes[name] = t.NONE if buffer is None else t.TENSOR
        kind.buffers.add(name)
    for name, part in module._modules.items():
        if part is not None:
            kind.attributes[name] = _traced_type(part, memo)
    kind.attributes["training"] = t.BOOL
    return kind


def _traced_module(module: Module, memo: dict[int, t.ClassType], made: dict[int, Any], top: bool = False) -> Any:
    if isinstance(module, ScriptModule):
        return module
    if id(module) in made:
        return made[id(module)]
    wrapper = (TopLevelTracedModule if top else RecursiveScriptModule)(memo[id(module)])
    made[id(module)] = wrapper
    wrapper.__dict__["_parameters"] = dict(module._parameters)
    wrapper.__dict__["_buffers"] = dict(module._buffers)
    wrapper.__dict__["_non_persistent_buffers_set"] = set(module._non_persistent_buffers_set)
    wrapper.__dict__["training"] = module.training
    wrapper.__dict__["_modules"] = {name: _traced_module(part, memo, made)
                                    for name, part in module._modules.items() if part is not None}
    return wrapper


def trace_module(mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True,
                 check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
                 _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
                 example_inputs_is_kwarg: bool = False, _store_inputs: bool = True) -> Any:
    """Record calls of methods of a module, and return it as a script.

    Args:
        mod: The module.
        inputs: Arguments by name of the method.
        optimize: Accepted as in PyTorch, where it has no effect.
        check_trace: Whether to record again and to compare graphs and results.
        check_inputs: Arguments for the comparison, a list of such dicts.
        check_tolerance: Largest difference of results.
        strict: Whether lists and dicts as results are refused.
        example_inputs_is_kwarg: Whether the arguments are dicts of named ones.

    Raises:
        ArgumentTypeError: ``mod`` is not a module, or ``inputs`` not a dict.
        TracingCheckError: A second trace has another graph.
    """
    if not isinstance(mod, Module):
        raise ArgumentTypeError("trace_module", f"a {type(mod).__name__}", "expected torch.nn.Module as the first "
                                "argument",
                                "pass a module")
    if not isinstance(inputs, dict):
        raise ArgumentTypeError("trace_module", f"inputs of type {type(inputs).__name__}", "expected a dictionary of "
                                "(method_name, input) pairs", "pass a dict")
    memo: dict[int, t.ClassType] = {}
    kind = _traced_type(mod, memo)
    for name, given in inputs.items():
        args, kwargs = _arguments(None, given) if example_inputs_is_kwarg else _arguments(given, None)
        method = mod if name == "forward" else getattr(mod, name)
        compiled = _record(mod, args, kwargs, name, strict, mod, kind, method)
        kind.methods[name] = compiled
    made = _traced_module(mod, memo, {}, top=True)
    if check_trace:
        for name, given in inputs.items():
            kwargs = given if example_inputs_is_kwarg else {}
            checks = [each[name] for each in check_inputs or [] if name in each] or [given]
            method = mod if name == "forward" else getattr(mod, name)
            run = made if name == "forward" else getattr(made, name)
            _check(method, run, kind.methods[name], checks, dict(kwargs), check_tolerance, strict, mod, memo)
    return made


# ---------------------------------------------------------------------------------------- comparison

def _clone(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_clone, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_clone, value))
    return {k: _clone(v) for k, v in value.items()} if isinstance(value, dict) else value


def _check(func: Any, made: Any, compiled: CompiledFunction, examples: Any, kwargs: dict[str, Any], tolerance: float,
           strict: bool, module: Any = None, memo: Any = None) -> None:
    """Compare a trace with a second one, and with Python."""
    if STATE.tracing:
        return
    for example in examples:
        args = () if kwargs else _arguments(example, None)[0]
        _check_graph(func, args, kwargs, compiled, strict, module)
        with tensocket.random.fork_rng(), tensocket.no_grad():
            wanted = func(*_clone(args), **_clone(kwargs))
        with tensocket.random.fork_rng(), tensocket.no_grad():
            found = made(*_clone(args), **_clone(kwargs))
        for k, (one, other) in enumerate(zip(_leaves(wanted), _leaves(found), strict=False)):
            if isinstance(one, Tensor) and not _is_close(one, other, tolerance):
                warnings.warn(f"[jit.trace] output nr {k + 1} — Output nr {k + 1}. of the traced function does not "
                              f"match the "
                              "corresponding output of the Python function — the function is not deterministic, or its "
                              "branches depend on values; use torch.jit.script", TracerWarning, stacklevel=4)
                return


def _check_graph(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], compiled: CompiledFunction, strict: bool,
                 module: Any) -> None:
    with warnings.catch_warnings(), tensocket.random.fork_rng():
        warnings.simplefilter("ignore")
        again = _record(func, _clone(args), _clone(kwargs), compiled.name, strict, module, compiled.owner, func)
    first, second = ([(n.op, len(n.inputs_)) for n in _nodes(f)] for f in (compiled, again))
    if first != second:
        raise TracingCheckError("Graphs differed across invocations!\n" + _difference(first, second), None)


def _nodes(function: CompiledFunction) -> list[Node]:
    assert function.graph is not None
    return [n for n in function.graph.all_nodes() if n.op != "prim::Constant"]


def _difference(first: list[Any], second: list[Any]) -> str:
    import difflib

    lines = difflib.unified_diff([op for op, _ in first], [op for op, _ in second], lineterm="", n=1)
    return "\n".join(lines)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in _leaves(each)]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    return [value]


def _is_close(one: Any, other: Any, tolerance: float) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    wide = tensocket.complex128 if one.is_complex() else tensocket.float64
    return bool(tensocket.allclose(one.to(wide), other.to(wide), rtol=tolerance, atol=tolerance, equal_nan=True))


__all__ = ["TracingCheckError", "trace", "trace_module"]
