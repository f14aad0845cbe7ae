"""Observation of a call: which Python functions ran, which names their code reads, and which C functions they called.

Frames of the runtime's own packages below the front end are not looked at: their state is listed in ``state``, and the
tensors that they work on are guarded as such. Frames of the front end count, because modules and optimizers read
attributes that users set.
"""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import re
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from .forms import flatten, same_forms
from .layout import LAYOUT, function_of
from .listed import UNREPLAYABLE
from .pure import (
    ATTRIBUTE_FUNCTIONS,
    CALLERS,
    IDENTITY_READERS,
    KEY_CALLERS,
    LIBRARY_FUNCTIONS,
    WHOLE_READERS,
    is_pure,
    name_of,
    reads_whole_objects,
)

#: Packages whose frames are not looked at; all packages ``tensocket_…`` as well.
INSIDE: Final = frozenset({"numpy", "llvmlite"})
#: The front end: its functions read attributes by names that occur in code.
FRONT_END: Final = "tensocket"
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
_LAZY: Final = 0x20 | 0x80 | 0x200  # generators, coroutines and asynchronous generators, by their code's flags
_GLOBAL: Final = frozenset(dis.opmap[name] for name in ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME")
                           if name in dis.opmap)
_WHOLE_NAMES: Final = frozenset({"__dict__", "__getattribute__", "attrgetter", "methodcaller"})
_WHOLE_METHODS: Final = frozenset({"items", "values", "keys", "copy", "__getattribute__", "attrgetter", "methodcaller"})


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


@dataclass(frozen=True, slots=True)
class CodeNames:
    """Names in a code object.

    Attributes:
        globals: Globals and builtins.
        attributes: All names and words of constant texts, hence all attributes that the code can name.
        texts: Constant texts.
        imports: Modules that statements inside of the function import.
        compares_identity: Whether ``is`` compares anything with an object other than None, True, False or Ellipsis.
        reads_whole: Whether the code reaches attributes by other ways than names.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    texts: frozenset[str]
    imports: frozenset[str]
    compares_identity: bool
    reads_whole: bool


def top_package(namespace: dict[str, Any]) -> str:
    """Return the first part of the name of the module that a namespace belongs to."""
    name = namespace.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def is_inside(namespace: dict[str, Any]) -> bool:
    """Whether functions with these globals belong to the runtime below the front end."""
    top = top_package(namespace)
    return top in INSIDE or top.startswith(FRONT_END + "_")


def builtins_of(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the namespace of builtins for functions with these globals."""
    found = namespace.get("__builtins__", builtins)
    return found if isinstance(found, dict) else vars(found)


def _kind_of(namespace: dict[str, Any]) -> bool | None:
    """Whether frames with these globals are watched; None if that depends on their caller."""
    if is_inside(namespace):
        return False
    return None if top_package(namespace) in sys.stdlib_module_names - {"__main__"} else True


def is_library(namespace: dict[str, Any]) -> bool:
    """Whether a module belongs to the front end, the runtime or the standard library, which programs rarely change."""
    top = top_package(namespace)
    return top == FRONT_END or top in sys.stdlib_module_names - {"__main__"} or is_inside(namespace)


def _texts(constant: Any) -> Iterator[str]:
    if type(constant) is str:
        yield constant
    elif type(constant) in (tuple, frozenset):
        for item in constant:
            yield from _texts(item)


@functools.lru_cache(maxsize=8192)  # by code; the least recently used entry goes
def names_of(code: types.CodeType, trusted: bool = False) -> CodeNames:
    """Return the names in a code object; ``trusted``: it reads ``__dict__`` by names unless it lists the items."""
    found: set[str] = set()
    imports: set[str] = set()
    identity, extended, constant = False, 0, None
    raw = code.co_code
    for at in range(0, len(raw), 2):
        operation, argument = raw[at], raw[at + 1] | extended
        extended = 0
        if operation == dis.EXTENDED_ARG:
            extended = argument << 8
        elif operation in _GLOBAL:
            shift = operation == dis.opmap["LOAD_GLOBAL"] and sys.version_info >= (3, 11)
            found.add(code.co_names[argument >> 1 if shift else argument])
        elif operation == dis.opmap["IMPORT_NAME"]:
            imports.add(code.co_names[argument])
        elif operation == dis.opmap["IS_OP"]:
            identity = identity or constant is None
        if operation and operation != dis.EXTENDED_ARG:
            single = operation == dis.opmap["LOAD_CONST"] and any(
                code.co_consts[argument] is each for each in (None, True, False, ...))
            constant = True if single else None
    texts = frozenset(text for each in code.co_consts for text in _texts(each))
    attributes = {*code.co_names, *(word for text in texts if len(text) < 200 for word in _IDENTIFIER.findall(text))}
    names = frozenset(code.co_names)
    whole = bool(names & _WHOLE_NAMES) and (not trusted or bool(names & _WHOLE_METHODS))
    return CodeNames(frozenset(found), frozenset(attributes), texts, frozenset(imports), identity, whole)


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
    refusals: list[Refusal] = field(default_factory=list)

    def code_names(self, code: types.CodeType) -> CodeNames:
        """Return the names in a code object that ran."""
        return names_of(code, top_package(self.codes[code]) == FRONT_END)


class _Profile:
    """The function that the interpreter calls at each call while a run is observed.

    Attributes:
        stack: Whether the running frames are watched, innermost last. Frames of the standard library are if their
            caller is; frames of programs and of the front end always are, also those that the runtime calls. None
            hides all that is called from there: imports of the runtime.
    """

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.stack: list[bool | None] = [True]
        self.kinds: dict[types.CodeType, bool | None] = {}

    def __call__(self, frame: types.FrameType, event: str, function: Any) -> None:
        """Note a call of a Python or C function."""
        code, stack = frame.f_code, self.stack
        if event == "call":
            if code not in self.kinds:
                self.kinds[code] = _kind_of(frame.f_globals)
            kind = self.kinds[code]
            looked_at = stack[-1] if kind is None or stack[-1] is None else kind
            if not looked_at and frame.f_globals.get("__name__") == "importlib._bootstrap":
                looked_at = None
            stack.append(looked_at)
            if looked_at and code not in self.seen.codes:
                assert LAYOUT is not None
                self.seen.codes[code] = frame.f_globals
                self.seen.functions[code] = function_of(frame, LAYOUT)
            elif code in UNREPLAYABLE and stack[-2] and frame.f_back is not None:
                self.seen.refusals.append(Refusal(UNREPLAYABLE[code], _place_of_caller(frame.f_back)))
        elif event == "return":
            stack.pop()
        elif event == "c_call" and function is not sys.setprofile:
            if stack[-1]:
                self.note(frame, function)
            elif isinstance(getattr(function, "__self__", None), types.ModuleType):
                self.seen.inside_calls.add(function)

    def note(self, frame: types.FrameType, function: Any) -> None:
        """Note a call of a C function from a watched frame."""
        seen = self.seen
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if any(function is each for each in LIBRARY_FUNCTIONS) and frame.f_globals.get("__name__") == "contextlib":
            return
        if not is_pure(function):
            seen.refusals.append(Refusal(f"it calls {name_of(function)}(), which depends on more than its arguments, "
                                         "or does more than to return a value", where))
        elif any(function is each for each in ATTRIBUTE_FUNCTIONS.values()):
            seen.refusals.append(Refusal(f"it calls {name_of(function)}() under another name", where))
        elif reads_whole_objects(function):
            seen.whole = True
        elif any(function is each for each in IDENTITY_READERS) and not is_library(frame.f_globals):
            seen.identity = True
        seen.calls.setdefault(name_of(function), where)


def _place_of_caller(frame: types.FrameType) -> str:
    """Return file and line of the program in or above a frame; of the frame itself if only libraries run."""
    outer: types.FrameType | None = frame
    while outer is not None and is_library(outer.f_globals):
        outer = outer.f_back
    found = frame if outer is None else outer
    return f"{found.f_code.co_filename}:{found.f_lineno}"


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


def _reason_not_to_observe() -> str | None:
    if LAYOUT is None:
        return "the memory layout of this interpreter is not known, so that nothing can be guarded"
    if sys.getprofile() is not None or sys.gettrace() is not None:
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
        with _recorded_names(profile):
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
    except Exception as error:
        seen.error = error
        seen.refusals.append(Refusal(f"it raised {type(error).__name__}", "the call"))


def _functions_of(namespace: dict[str, Any], names: CodeNames) -> list[Any]:
    """Return the C functions that code names, as globals or as attributes of modules that are globals."""
    found = []
    for name in names.globals:
        value = namespace.get(name, builtins_of(namespace).get(name))
        space = vars(value) if isinstance(value, types.ModuleType) else {}
        found += [value, *(space[attribute] for attribute in names.attributes if attribute in space)]
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
            if not is_pure(each):
                seen.refusals.append(Refusal(f"it may pass {name_of(each)}() on to a function written in C",
                                             f"{code.co_filename}:{code.co_firstlineno}"))


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
        seen.whole = seen.whole or names.reads_whole
        seen.identity = seen.identity or (names.compares_identity and not is_library(namespace))
        if code.co_flags & _LAZY and seen.functions.get(code) is seen.function:
            seen.refusals.append(Refusal("it is a generator or coroutine, which runs later", code.co_qualname))
    if isinstance(seen.result, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
        seen.refusals.append(Refusal("its result is a generator or coroutine, which runs later", "the call"))
