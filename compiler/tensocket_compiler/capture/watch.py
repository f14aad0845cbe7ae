"""Observation of a call: which Python functions ran, which names their code reads, and which C functions they called.

Frames of the runtime's own packages below the front end are not looked at: their state is listed in ``state``, and the
tensors that they work on are guarded as such. Frames of the front end count, because modules and optimizers read
attributes that users set.
"""

from __future__ import annotations

import builtins
import functools
import gc
import importlib
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final

from tensocket_plugins.contract.value_observers import number_at, run_apart

from .code_names import CodeNames, names_of
from .forms import flatten, same_forms
from .layout import LAYOUT
from .listed import UNREPLAYABLE
from .offsets import function_of
from .packages import FRONT_END, builtins_of, is_library, is_watched, top_package
from .pure import (
    ATTRIBUTE_FUNCTIONS,
    CALLERS,
    IDENTITY_NUMBERS,
    IDENTITY_READERS,
    KEY_CALLERS,
    LIBRARY_FUNCTIONS,
    WHOLE_READERS,
    is_pure,
    name_of,
    reads_whole_objects,
)
from .warned import WARN, Warned, recorded_warnings

#: Imports a module by a name that its caller may have computed.
_IMPORT: Final = importlib.import_module.__code__
#: Reads an option, and runs a function that no graph contains.
_OPTION: Final = number_at.__code__
_APART: Final = run_apart.__code__
_LAZY: Final = 0x20 | 0x80 | 0x200  # generators, coroutines and asynchronous generators, by their code's flags


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why a call cannot be captured.

    Attributes:
        reason: The reason.
        where: File and line, or the path of the object that cannot be guarded.
    """

    reason: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def title_of(function: Any) -> str:
    """Return the name of a function; of a module or a method of the front end, the name of the class."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, types.MethodType) and is_library(getattr(function, "__globals__", {})):
        function = function.__self__
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def place_of(frame: types.FrameType | None) -> str:
    """Return file and line of the innermost frame of a program, from a frame outwards; else those of the frame."""
    found = frame
    while found is not None and is_library(found.f_globals):
        found = found.f_back
    found = found or frame
    return "" if found is None else f"{found.f_code.co_filename}:{found.f_lineno}"


def place_of_error(error: BaseException) -> str:
    """Return file and line of the innermost frame of a program that an error passed."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines = {id(frame): line for frame, line in traceback.walk_tb(error.__traceback__)}
    own = [frame for frame in frames if not is_library(frame.f_globals)]
    return f"{own[-1].f_code.co_filename}:{lines[id(own[-1])]}" if own else "the call"


@dataclass
class Observation:
    """One observed call.

    Attributes:
        function, args, kwargs: The call.
        result: Its result; None if it raised.
        error: The exception that it raised.
        codes: The code objects that ran outside of the runtime, with their globals.
        functions: The functions that ran, except those that the call may have made.
        calls: The C functions that these called, with file and line.
        inside_calls: The functions of modules written in C that the runtime called.
        names: Names of attributes that ``getattr`` and its like asked for.
        whole: Whether attributes were read in other ways than by names.
        identity: Whether the identity of equal numbers and texts may matter.
        numbered: Whether the call may have made numbers of the identities of objects.
        arrays: Whether it may have worked with NumPy's arrays or numbers.
        options: The tables of options that the call read, with the code of the readers, by identity and label.
        warned: The warnings that it gave.
        refusals: Reasons against the capture.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None
    error: BaseException | None = None
    codes: dict[types.CodeType, dict[str, Any]] = field(default_factory=dict)
    functions: dict[types.CodeType, Any] = field(default_factory=dict)
    calls: dict[Any, str] = field(default_factory=dict)
    inside_calls: set[Any] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    whole: bool = False
    identity: bool = False
    numbered: bool = False
    arrays: bool = False
    options: dict[tuple[int, str], tuple[Any, set[types.CodeType]]] = field(default_factory=dict)
    warned: list[Warned] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def covers(self, other: Observation) -> bool:
        """Whether another call of the function ran no code that this one did not, and read nothing in other ways."""
        return (not other.refusals and other.names <= self.names and other.whole <= self.whole
                and other.identity <= self.identity and other.numbered <= self.numbered
                and other.warned == self.warned and other.options.keys() <= self.options.keys()
                and all(self.codes.get(code) is space for code, space in other.codes.items())
                and all(self.functions.get(code, self) is each for code, each in other.functions.items()))

    def code_names(self, code: types.CodeType) -> CodeNames:
        """Return the names in a code object that ran."""
        return names_of(code, top_package(self.codes[code]) == FRONT_END)


class _Profile:
    """The function that the interpreter calls at each call while a run is observed.

    Attributes:
        is_complete: Whether each return that the interpreter reported had a call before.
        stack: Whether the running frames are watched, innermost last. Frames of the standard library are if their
            caller is; frames of programs and of the front end always are, also those that the runtime calls. None
            hides all that is called from there: imports of the runtime, and functions that run apart.
    """

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.stack: list[bool | None] = [True]
        self.is_complete = True
        self.thread = get_ident()
        self.kinds: dict[types.CodeType, bool | None] = {}

    def __call__(self, frame: types.FrameType, event: str, function: Any) -> None:
        """Note a call of a Python or C function."""
        code, stack = frame.f_code, self.stack
        if event == "call":
            if code not in self.kinds:
                self.kinds[code] = is_watched(frame.f_globals)
            kind = self.kinds[code]
            looked_at = stack[-1] if kind is None or stack[-1] is None else kind
            if code is _APART or (not looked_at and frame.f_globals.get("__name__") == "importlib._bootstrap"):
                looked_at = None
            stack.append(looked_at)
            if code is _IMPORT and looked_at:
                self.seen.names.add(str(frame.f_locals.get("name")))
            if looked_at and code not in self.seen.codes:
                assert LAYOUT is not None
                self.seen.codes[code] = frame.f_globals
                self.seen.functions[code] = function_of(frame, LAYOUT)
            elif code in UNREPLAYABLE and stack[-2]:
                self.seen.refusals.append(Refusal(UNREPLAYABLE[code], place_of(frame.f_back)))
            elif code is _OPTION and stack[-2]:
                self._note_option(frame)
        elif event == "return":
            if len(stack) == 1:
                self.is_complete = False
            else:
                stack.pop()
        elif event == "c_call" and function is not sys.setprofile:
            if stack[-1]:
                self.note(frame, function)
            elif isinstance(getattr(function, "__self__", None), types.ModuleType) and function is not WARN:
                self.seen.inside_calls.add(function)

    def _note_option(self, frame: types.FrameType) -> None:
        table, key, caller = frame.f_locals["table"], frame.f_locals["key"], frame.f_back
        assert caller is not None
        self.seen.options.setdefault((id(table), f"[{key!r}]"), (table, set()))[1].add(caller.f_code)

    def is_called(self) -> bool:
        """Whether the function that calls this, which stands in for another, was called by the observed call."""
        return get_ident() == self.thread and len(self.stack) > 2 and self.stack[-3] is not None

    def note_warning(self, warned: Warned | None) -> None:
        """Note a warning; None is one that no later call can give again."""
        if warned is None:
            self.seen.refusals.append(Refusal("it gives a warning that names a place outside of it, or an object",
                                              place_of(sys._getframe(2))))
        else:
            self.seen.warned.append(warned)

    def note(self, frame: types.FrameType, function: Any) -> None:
        """Note a call of a C function from a watched frame."""
        seen = self.seen
        if any(function is each for each in LIBRARY_FUNCTIONS) and frame.f_globals.get("__name__") == "contextlib":
            return
        if not is_pure(function):
            seen.refusals.append(Refusal(f"it calls {name_of(function)}(), which depends on more than its arguments, "
                                         "or does more than to return a value", place_of(frame)))
        elif any(function is each for each in ATTRIBUTE_FUNCTIONS.values()):
            seen.refusals.append(Refusal(f"it calls {name_of(function)}() under another name",
                                         place_of(frame)))
        elif reads_whole_objects(function):
            seen.whole = True
        elif any(function is each for each in IDENTITY_READERS) and not is_library(frame.f_globals):
            seen.identity = True
        if any(function is each for each in IDENTITY_NUMBERS) and not is_library(frame.f_globals):
            seen.numbered = True
        name = name_of(function)
        if name not in seen.calls:
            seen.calls[name] = place_of(frame)


@contextmanager
def _recorded_names(profile: _Profile) -> Iterator[None]:
    """Record the names of attributes that ``getattr`` and its like are called with, in a block.

    Observation sees calls of C functions, but not their arguments. So functions that note the name stand in for these
    builtins; other threads may call them in the meantime, with the same results.
    """
    def recording(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if len(args) > 1 and isinstance(args[1], str) and profile.stack[-2:-1] == [True]:
                profile.seen.names.add(args[1])
            return real(*args)
        return call

    table = vars(builtins)
    before = {name: table[name] for name in ATTRIBUTE_FUNCTIONS}
    table.update({name: recording(real) for name, real in before.items()})
    try:
        yield
    finally:
        table.update(before)


def _is_monitored() -> bool:
    """Whether a tool uses ``sys.monitoring``, by which profilers and debuggers run since Python 3.12."""
    monitoring: Any = getattr(sys, "monitoring", None)
    return monitoring is not None and any(monitoring.get_tool(number) is not None for number in range(6))


def _reason_not_to_observe() -> str | None:
    if LAYOUT is None:
        return ("the memory layout of this interpreter is not known, so that nothing can be guarded; graphs need "
                "CPython 3.11, 3.12 or 3.13 with the interpreter's lock")
    if sys.getprofile() is not None or sys.gettrace() is not None or _is_monitored():
        return "a profiler or debugger is set in this thread"
    if builtins.getattr is not ATTRIBUTE_FUNCTIONS["getattr"]:
        return "another thread observes a call, or a program replaced getattr()"
    return None


def observe(function: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
            ) -> Observation:
    """Call a function and observe what runs.

    The call happens in any case; where it cannot be observed, the observation has a refusal. An exception of an
    observed call is stored in ``error``.
    """
    seen = Observation(function, args, kwargs or {})
    reason = _reason_not_to_observe()
    if reason is not None:
        seen.refusals.append(Refusal(reason, "sys"))
        seen.result = function(*args, **seen.kwargs)
        return seen
    profile = _Profile(seen)
    before = list(flatten(args, seen.kwargs, []))
    # Finalizers that the collector happens to run are not a part of the call.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with _recorded_names(profile), recorded_warnings(profile.note_warning, profile.is_called):
            _call(seen, profile)
    finally:
        if collecting:
            gc.enable()
    if not same_forms(before, list(flatten(args, seen.kwargs, []))):
        seen.refusals.append(Refusal("it modifies its arguments", "the arguments"))
    _conclude(seen)
    return seen


def _call(seen: Observation, profile: _Profile) -> None:
    function, args, kwargs = seen.function, seen.args, seen.kwargs
    try:
        sys.setprofile(profile)
        try:
            seen.result = function(*args, **kwargs)
        finally:
            sys.setprofile(None)
            if not profile.is_complete or len(profile.stack) != 1:
                seen.refusals.append(Refusal("the interpreter did not report all of its calls and returns", "sys"))
    except Exception as error:
        seen.error = error
        seen.refusals.append(Refusal(f"it raised {type(error).__name__}", place_of_error(error)))


def _functions_of(namespace: dict[str, Any], names: CodeNames) -> list[Any]:
    """Return the C functions that code may pass on: globals that it does not just call, and attributes of modules."""
    found = []
    for name in names.globals:
        value = namespace.get(name, builtins_of(namespace).get(name))
        space = vars(value) if isinstance(value, types.ModuleType) else {}
        found += [*([value] if name in names.values else []), *(space[attribute] for attribute in names.attributes
                           if attribute in space and space[attribute] is not WARN)]
    return [each for each in found if isinstance(each, types.BuiltinFunctionType)]


def _note_passed_functions(seen: Observation, code: types.CodeType, functions: list[Any], names: CodeNames) -> None:
    """Note C functions that the code may give to C functions, as in ``map(next_number, values)``.

    Observation does not see calls from C to C, and does not look at those from the runtime, as in ``tree_map``. So a
    function that is not pure is refused if the code names a caller, or the runtime called it; one that reads identities
    or whole objects counts as called.
    """
    seen.identity = seen.identity or any(each is other for each in functions for other in IDENTITY_READERS[1:])
    seen.whole = seen.whole or any(each is other for each in functions for other in WHOLE_READERS)
    calls = bool(names.attributes & CALLERS or ("key" in names.texts and names.attributes & KEY_CALLERS))
    for each in functions:
        if calls or each in seen.inside_calls:
            seen.identity = seen.identity or each is id
            seen.numbered = seen.numbered or any(each is other for other in IDENTITY_NUMBERS)
            if not is_pure(each):
                seen.refusals.append(Refusal(f"it may pass {name_of(each)}() on to a function written in C",
                                             f"{code.co_filename}:{code.co_firstlineno}"))


def _is_module_table(name: str, namespace: dict[str, Any], names: CodeNames) -> bool:
    """Whether the attribute ``modules`` of a named value may be the table of modules."""
    return namespace.get(name) is sys or (name not in names.globals and "sys" in names.imports)


def _conclude(seen: Observation) -> None:
    """Derive from the code that ran what it can have read, and leave out functions that the call may have made."""
    inner = {const for code in seen.codes for const in code.co_consts if isinstance(const, types.CodeType)}
    for code in inner:
        seen.functions.pop(code, None)
    seen.whole = seen.whole or "__dict__" in seen.names
    for code, namespace in seen.codes.items():
        names = seen.code_names(code)
        if not is_library(namespace):
            _note_passed_functions(seen, code, _functions_of(namespace, names), names)
        if not is_library(namespace) and any(_is_module_table(name, namespace, names) for name in names.tables):
            seen.refusals.append(Refusal("it looks up modules by computed names, or lists them",
                                         f"{code.co_filename}:{code.co_firstlineno}"))
        seen.whole = seen.whole or names.reads_whole
        seen.identity = seen.identity or (names.compares_identity and not is_library(namespace))
        if code.co_flags & _LAZY and seen.functions.get(code) is seen.function:
            seen.refusals.append(Refusal("it is a generator or coroutine, which runs later", code.co_qualname))
    if isinstance(seen.result, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
        seen.refusals.append(Refusal("its result is a generator or coroutine, which runs later", "the call"))
