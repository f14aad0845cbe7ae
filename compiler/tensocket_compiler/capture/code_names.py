"""Names in code objects: everything that a function can ask for by name, without running it."""

from __future__ import annotations

import dis
import functools
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
_GLOBAL: Final = frozenset(dis.opmap[name] for name in (
    "LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS") if name in dis.opmap)
_WHOLE_NAMES: Final = frozenset({"__dict__", "__getattribute__", "attrgetter", "methodcaller"})
_WHOLE_METHODS: Final = frozenset({"items", "values", "keys", "copy", "__getattribute__", "attrgetter", "methodcaller"})


@dataclass(frozen=True, slots=True)
class CodeNames:
    """Names in a code object.

    Attributes:
        globals: Globals and builtins.
        values: Those that it does not just call, but may store or pass on.
        attributes: All names and words of constant texts, hence all attributes that the code can name.
        texts: Constant texts.
        imports: Modules that statements inside of the function import.
        compares_identity: Whether ``is`` compares anything with an object other than None, True, False or Ellipsis.
        reads_whole: Whether the code reaches attributes by other ways than names.
        tables: Names of values whose attribute ``modules`` it uses otherwise than to look up a constant text.
    """

    globals: frozenset[str]
    values: frozenset[str]
    attributes: frozenset[str]
    texts: frozenset[str]
    imports: frozenset[str]
    compares_identity: bool
    reads_whole: bool
    tables: frozenset[str]


#: Instructions that do nothing which matters to names.
_EMPTY: Final = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"})


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
    values: set[str] = set()
    imports: set[str] = set()
    identity, extended, constant = False, 0, None
    raw = code.co_code
    for at in range(0, len(raw), 2):
        operation, argument = raw[at], raw[at + 1] | extended
        extended = 0
        if operation == dis.EXTENDED_ARG:
            extended = argument << 8
        elif operation in _GLOBAL:
            # The low bit of LOAD_GLOBAL says that a call of the value follows.
            shift = operation == dis.opmap["LOAD_GLOBAL"]
            name = code.co_names[argument >> 1 if shift else argument]
            found.add(name)
            if not (shift and argument & 1):
                values.add(name)
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
    tables = _tables(code) if "modules" in names else frozenset()
    return CodeNames(frozenset(found), frozenset(values), frozenset(attributes), texts, frozenset(imports), identity,
                     whole, tables)


def _tables(code: types.CodeType) -> frozenset[str]:
    """Return the names of values whose attribute ``modules`` code uses otherwise than to look up a constant text."""
    found = set()
    steps = [x for x in dis.get_instructions(code) if x.opname not in _EMPTY]
    for k, step in enumerate(steps):
        if step.argval == "modules" and step.opcode in dis.hasname and not _is_constant_lookup(
                steps[max(k - 2, 0):k], steps[k + 1: k + 5]):
            found.add(str(steps[k - 1].argval) if k else "")
    return frozenset(found)


def _is_constant_lookup(before: list[dis.Instruction], after: list[dis.Instruction]) -> bool:
    """Whether instructions around a table look up a constant text: ``t["a"]``, ``t.get("a")``, ``"a" in t``."""
    names = [x.opname for x in after] + [""] * 4
    if names[0] == "CONTAINS_OP":
        return len(before) == 2 and before[0].opname == "LOAD_CONST"
    at = 1 if after and after[0].argval == "get" else 0
    if names[at] != "LOAD_CONST" or type(after[at].argval) is not str:
        return False
    end = names[at + 1] if not at or names[at + 1] != "LOAD_CONST" else names[at + 2]
    return end.startswith("CALL" if at else "BINARY_SUBSCR")
