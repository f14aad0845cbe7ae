"""Expressions and signatures that scripts refuse."""

from __future__ import annotations

import math  # noqa: F401  a global of the programs
from typing import Dict, List, Optional, Tuple, Union  # noqa: F401  globals of the programs

import pytest

import tensocket as torch
from tensocket import Tensor  # noqa: F401  a global of the programs
from tensocket.jit.frontend import FrontendError, NotSupportedError, ScriptError, UnsupportedNodeError

REFUSED = [
    ("def f(x: int):\n    torch._assert(x > 2)\n    return x", ScriptError,
     "_assert takes a condition and a message — pass both"),
    ("def f(x: List[int], y: float):\n    return x[y:]", ScriptError,
     "bounds are int or None — convert it"),
    ("def f(x: Dict[str, int]):\n    return x[1:]", ScriptError,
     "slices are of lists, tuples, str and tensors — index it"),
    ("def f(x: Tuple[int, str], y: int):\n    return x[y]", ScriptError,
     "tuple index must be a compile time constant: the elements have several types — use a number"),
    ("def f(x: Tuple[int, str]):\n    return x[3]", ScriptError,
     "Tuple index out of range — use an index below the length"),
    ("def f(x: List[int], y: str):\n    return x[y]", ScriptError,
     "positions are int — convert it with int()"),
    ("def f(x: int):\n    return x[0]", ScriptError,
     "'int' object is not subscriptable — index a list, tuple, dict, tensor or str"),
    ("def f(x: Dict[str, int]):\n    return x[0]", ScriptError,
     "Arguments for call are not valid: keys are of the dict's type — convert the key"),
    ("def f(x: int):\n    return torch.jit.wait(x)", ScriptError,
     "wait takes what fork returned — pass a future"),
    ("def f(x: int, y: str):\n    return getattr(x, y)", ScriptError,
     "getattr's second argument must be a string literal — pass a name"),
    ('def f(x: int):\n    return hasattr(x, "a")', ScriptError,
     "hasattr's first argument must be a module or an object of a scripted class — pass one of these"),
    ("def f(x: int, y: str):\n    return hasattr(x, y)", ScriptError,
     "hasattr's second argument must be a string literal — pass a name"),
    ("def f(x: int):\n    return torch.jit.annotate(str, x)", ScriptError,
     "expected an expression of type str but found int — correct one of them"),
    ("def f(x: int):\n    return torch.jit.annotate(x)", ScriptError,
     "it takes a type and a value — pass both"),
    ("def f(x: int):\n    return super().f()", ScriptError,
     "super() needs an instance — call the function itself"),
    ("def f(x: List[int]):\n    return x[slice()]", ScriptError,
     "slice expected at least 1 argument and at most 3 — pass stop, or start, stop and step"),
    ("def f(x: int):\n    return dict(x)", ScriptError,
     "dict takes a dict, or pairs of keys and values — pass one of these"),
    ("def f(x: List[int]):\n    return tuple(x)", ScriptError,
     "cannot convert a list to a tuple: the number of elements is part of a tuple's type — unpack the list first"),
    ("def f(x: int):\n    return list(x)", ScriptError,
     "'int' object is not iterable — pass a list, tuple, dict, tensor or str"),
    ("def f(x: List[Dict[str, int]]):\n    return sorted(x)", ScriptError,
     "Arguments for call are not valid: sorted takes a list whose elements have an order — sort numbers, str, "
     "tuples of these, or instances with __lt__"),
    ("def f(x: Tensor):\n    return x.max(dim=1).vectors", ScriptError,
     "scripts use the methods of tensors, lists, dicts, str and scripted classes — use one of these"),
    ("def f(x: Union[float, List[int]]):\n    return float(x)", ScriptError,
     "Arguments for call are not valid: float takes numbers, tensors of one element and str — convert the value"),
    ("def f(x: List[int]):\n    return int(x)", ScriptError,
     "Arguments for call are not valid: int takes numbers, tensors of one element and str — convert the value"),
    ("def f(x: int):\n    for i in zip():\n        pass", ScriptError,
     "zip expected at least 1 arguments, got 0 — pass iterables"),
    ("def f(x: str):\n    for i in range(x):\n        pass", ScriptError,
     "Arguments for call are not valid: range takes int — convert with int()"),
    ("def f(x: str):\n    for i in range():\n        pass", ScriptError,
     "range expected at least 1 argument and at most 3, got 0 — pass stop, or start, stop and step"),
    ("def f(x: int):\n    return len(x)", ScriptError,
     "'int' object has no len: Arguments for call are not valid — pass a list, tuple, dict, tensor or str"),
    ('def f(x: int):\n    print(x, sep="")', ScriptError,
     "print doesn't accept any keyword arguments — leave them out"),
    ("def f(x: int):\n    return abs(x, x)", ScriptError,
     "abs expected 1 argument, got 2 — pass one value"),
    ("def f(x, y):\n    # type: (Tensor) -> Tensor\n    return x", ScriptError,
     "a comment states the type of each argument — add the missing types"),
    ("def f(*x):\n    return x", NotSupportedError,
     "Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults — "
     "name each argument"),
    ("def f(x):\n    # type: (Tensor -> Tensor) -> -> Tensor\n    return x", ScriptError,
     "Return type line is not of the form (arguments) -> result — correct it"),
    ("def f(x: int):\n    with x:\n        pass", ScriptError,
     "with item expressions must be objects with __enter__ and __exit__ — define both methods in a scripted class"),
    ("def f(x: int):\n    def g():\n        pass", UnsupportedNodeError,
     "function definitions aren't supported inside of scripts — define it outside"),
    ("def f(x: int):\n    raise x", ScriptError,
     "exceptions must derive from BaseException — raise an exception"),
    ("def f(x: int):\n    raise", ScriptError,
     "a script raises a new exception — name one"),
    ("def f(x: int) -> str:\n    return x", ScriptError,
     "a function returns values of its declared type — correct the annotation or the value"),
    ("def f(x: int):\n    del x.y", ScriptError,
     "del statements are only supported for deleting list and dict items and variables — delete one of these"),
    ("def f(x: Tuple[int]):\n    a, *b, c = x", ScriptError,
     "need at least as many values to unpack as there are targets without a star — remove targets"),
    ("def f(x: Tuple[int, int]):\n    a, b, c = x", ScriptError,
     "need 3 values to unpack but found 2 — give each value a target"),
    ("def f(x: Dict[str, int]):\n    a, b = x", ScriptError,
     "Provided values cannot be unpacked: their number is not known — index the value"),
    ("def f(x: Tuple[int, int]):\n    *a, *b = x", ScriptError,
     "Only one starred expression is allowed on the lhs — keep one"),
    ("def f(x: int):\n    x.y = 1", ScriptError,
     "only modules and instances of scripted classes have attributes — use a local variable"),
    ("def f(x: int):\n    y: int", FrontendError,
     "Expected assignment: an annotated variable has a value — assign a value in the same line"),
    ("def f(x: int):\n    return torch.no_such_thing", ScriptError,
     "a script uses names that exist — correct the name"),
    ("def f(x: int):\n    return math(x)", ScriptError,
     "scripts call functions, methods and classes — call one of these"),
    ("def f(x: int):\n    return print.name", ScriptError,
     "scripts read attributes of modules and of instances of scripted classes — read it outside of the script"),
    ("class A:\n    pass", FrontendError,
     "the text of a compilation unit defines functions — remove it"),
    ("def f(x: int:\n    return x", FrontendError,
     "a script is Python — correct the syntax"),
    ("def f(x, flag: bool):\n    for i in range(2):\n        x = torch.jit\n    return x", ScriptError,
     "a block changes values only — use another name"),
]


@pytest.mark.parametrize(("text", "kind", "ending"), REFUSED, ids=range(len(REFUSED)))
def test_refused(text, kind, ending):
    with pytest.raises(kind) as caught:
        torch.jit.CompilationUnit(text)
    message = str(caught.value)
    assert message.startswith("[jit.script] ")
    assert f" — {ending}" in message
    assert "<--- HERE" in message
