"""The objects that ``compile`` returns: functions and modules that run as graphs where that is sure to do the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from tensocket.nn import Module
from tensocket_compiler.backends.function import LoweredFunction
from tensocket_compiler.calls.budget import checked_share
from tensocket_compiler.calls.function import CompiledFunction
from tensocket_compiler.errors import OptionError
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .backends import BackendLowering, find_backend
from .options import check_mode, check_options

#: Options of this compiler alone.
_OWN_OPTIONS: Final = frozenset({"background", "budget", "check"})


class OptimizedModule(Module):
    """A module that was passed to ``compile``: it calls the original and has its attributes.

    Args:
        mod: The original; its parameters are called ``_orig_mod.…`` here, as in PyTorch.
    """

    _orig_mod: Module

    def __init__(self, mod: Module, compiled: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._orig_mod = mod
        self.__dict__["_compiled"] = compiled
        self.training = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, or graphs in its place."""
        return (self.__dict__["_compiled"] or self._orig_mod)(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run this module's own hooks, if it has any; hooks of all modules run around the original alone."""
        if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks:
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set the mode of both modules."""
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("_modules", {}).get("_orig_mod")
        if original is None:
            raise AttributeError(name)
        return original if name == "_orig_mod" else getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod" or name in self.__dict__ or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def wrapped(function: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``run`` and looks like ``function``, its ``_torchdynamo_orig_callable``.

    Raises:
        ArgumentTypeError: ``function`` is not callable.
    """
    if not callable(function):
        raise ArgumentTypeError("compile", f"a {type(function).__name__}", "functions and modules are compiled",
                                "pass something that can be called")
    if isinstance(function, type):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    call._torchdynamo_orig_callable = function  # type: ignore[attr-defined]
    call._compiled = run  # type: ignore[attr-defined]
    return call


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``function`` as it is.

    Raises:
        ArgumentTypeError: ``function`` is not callable.
    """
    return wrapped(function, function)


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None,
            disable: bool = False, recompile_limit: int | None = None, isolate_recompiles: bool = False) -> Any:
    """Return a function or module that runs as graphs in place of Python; without ``model``, a decorator.

    One call is observed; from then on, a graph serves calls for which nothing has changed that Python may have read.
    All other calls run eagerly. As long as compiling would take a large share of the program's time, calls run eagerly,
    too; with ``fullgraph``, it never waits.

    Args:
        model: A function or a module.
        fullgraph: Whether a call that cannot be captured as a graph raises.
        dynamic: Whether calls that differ in sizes only get a graph at once and without a limit; False counts other
            sizes among the eight reasons to capture a function anew.
        backend: ``inductor`` or ``tensocket``, the compiler itself; another name of ``list_backends``; or a function.
            It gets a graph module of public functions and a list of the tensors of its placeholders, and returns the
            function that computes the outputs. None stands for ``torch.compiler.get_default_backend()``.
        mode: One of ``default``, ``reduce-overhead``, ``max-autotune`` and others. The compiler does the same in all;
            a backend of the program gets it as ``mode``.
        options: Options by name, as in ``torch._inductor.list_options()``; a backend of the program gets them as
            ``options``, whatever they are. ``check=n`` runs the function behind the first graph call and each
            n-th one after it, and raises if results, gradients or effects differ; with ``background=True``, a thread
            compiles kernels while calls stay eager. ``budget`` is the share of the program's time that compiling may
            take before the function has been called for long enough; ``inf`` stands for graphs at once, and the
            default is that of ``TENSOCKET_COMPILE_BUDGET``, or a twentieth.
        name: Accepted as in PyTorch: reports name the function itself.
        disable: Whether to leave the function alone.
        recompile_limit: Most graphs of this function; by default ``torch._dynamo.config.recompile_limit``.
        isolate_recompiles: Accepted as in PyTorch: functions share no graphs.

    Raises:
        ArgumentTypeError: ``model`` is not callable.
        InvalidBackend: The backend is unknown.
        OptionError: Both ``mode`` and ``options`` are given, or one of them is unknown.
        Unsupported: With ``fullgraph``, by a call that cannot be captured.
        BackendCompilerFailed: By a call whose graph the backend cannot compile.
        CompileError: With ``check``, by a graph that is wrong.
    """
    if mode is not None and options is not None:
        raise OptionError("compile", f"mode={mode!r} and options", "Either mode or options can be specified, but both "
                          "can't be specified at the same time",
                          "pass mode or options, not both")
    function = find_backend(backend)
    if function is None:
        check_mode(mode or "default")
        check = _check_interval(options or {})
        share = _budget(options or {})
        check_options({name: value for name, value in (options or {}).items() if name not in _OWN_OPTIONS})
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, disable=disable, recompile_limit=recompile_limit)
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(compile(model.__func__, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                   options=options, disable=disable, recompile_limit=recompile_limit))
    disable = disable or bool(getattr(model, "_torchdynamo_disable", False))
    if disable or isinstance(model, type) or not callable(model):
        return OptimizedModule(model) if isinstance(model, Module) else eager(model)
    if function is None:
        compiled = CompiledFunction(model, fullgraph=fullgraph, dynamic=dynamic, check=check,
                                    background=bool((options or {}).get("background")), share=share)
    else:
        lowering = BackendLowering(function, _backend_options(mode, options))
        compiled = LoweredFunction(model, lowering, fullgraph=fullgraph, dynamic=dynamic)
    compiled.limit = recompile_limit
    return OptimizedModule(model, compiled) if isinstance(model, Module) else wrapped(model, compiled)


def _backend_options(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """Return the keyword arguments of a program's backend."""
    return {"mode": mode} if mode not in (None, "default") else {} if options is None else {"options": options}


def _budget(options: dict[str, Any]) -> float | None:
    """Return the option ``budget``; None if it is not given.

    Raises:
        ArgumentError: It is not a number, or negative.
    """
    return checked_share(options["budget"], "options['budget']=") if "budget" in options else None


def _check_interval(options: dict[str, Any]) -> int | None:
    """Return the option ``check``; None if it is not given.

    Raises:
        ArgumentError: It is not a number, or negative.
    """
    interval = options.get("check")
    if interval is not None and (type(interval) is not int or interval < 0):
        raise ArgumentError("compile", f"options['check']={interval!r}", "it is the number of graph calls after which "
                            "one is checked, or 0", "pass a positive integer, or leave it out")
    return interval
