"""Programs that are not scripts: each error says the rule and the next step, and shows the line."""

from __future__ import annotations

import math  # noqa: F401  a global of the programs
from typing import Dict, List, Optional, Tuple  # noqa: F401  globals of the programs

import pytest

import tensocket as torch
from tensocket import Tensor  # noqa: F401  a global of the programs
from tensocket.jit.frontend import NotSupportedError, ScriptError, UnsupportedNodeError

REFUSED = [
    ("def f(n: int, x: Optional[int]):\n    assert x is not None\n    for i in range(n):\n        x = x + 1\n"
     "        y: Optional[int] = None\n        if n > i:\n            y = x\n        x = y\n    return x", ScriptError,
     "a variable keeps its type in a loop — assert its type at the end of the loop, or use another name"),
    ("def f(x):\n    import math\n    return x", UnsupportedNodeError,
     "scripts are a part of Python — move it out of the script, or mark the function with @torch.jit.ignore"),
    ("def f(x):\n    return x.shape.foo(1)", ScriptError,
     "scripts use the methods of tensors, lists, dicts, str and scripted classes — use one of these"),
    ("def f(x: Optional[Tensor]):\n    return x.relu()", ScriptError,
     "the value may be None — Did you forget to unwrap Optional? Check `is not None` before"),
    ("def f(x):\n    return torch.relu(x, 1, 2, 3)", ScriptError,
     "Arguments for call are not valid — see the operator's documentation"),
    ("def f(x):\n    return g(x, 1)\ndef g(x):\n    return x", ScriptError,
     "Arguments for call are not valid — pass arguments of the schema"),
    ("def f(x):\n    return f(x)", ScriptError,
     "Recursive calls are not supported — use a loop"),
    ("def f(x: int):\n    return x(1)", ScriptError,
     "'int' object is not callable — call functions, methods and modules"),
    ("def f(x):\n    return torch.relu(**x)", ScriptError,
     "keyword-arg expansion is not supported — pass each argument"),
    ("def f(x: List[int]):\n    x.append(1.5)\n    return x", ScriptError,
     "Arguments for call are not valid: append takes int — convert the argument"),
    ("def f(x: List[Foo]):\n    return x", ScriptError,
     "annotations are Tensor, numbers, str, device, containers of these, classes and modules that are scripts — "
     "use one of these"),
    ('def f(x: bool):\n    if x:\n        return 1\n    return "a"', ScriptError,
     "Previous return statement returned a value of another type: all results of a function have one type — "
     "annotate the result"),
    ("def f(x: bool) -> int:\n    if x:\n        return 1", ScriptError,
     "a function returns a value of its declared type on all paths — add a return"),
    ('def f(x, flag: bool):\n    y = 1\n    if flag:\n        y = "a"\n    return y', ScriptError,
     "a variable keeps its type — use another name, or annotate a type for both"),
    ("def f(x, flag: bool):\n    y = 1\n    if flag:\n        y: int = 2\n    return y", ScriptError,
     "a variable is declared once — leave the type out"),
    ("def f(x, flag: bool):\n    if flag:\n        y = 1\n    return y", ScriptError,
     "a variable has a value of one type on all paths — assign it on every path, before it is used"),
    ("def f(x):\n    return undefined_name(x)", ScriptError,
     "names are arguments, local variables, or globals of the function's file — define it before the function is "
     "scripted"),
    ("def f(x):\n    return [x, print]", ScriptError,
     "values of scripts are tensors, numbers, str, containers and instances of scripted classes — pass it as an "
     "argument, or call it"),
    ("def f(x):\n    return isinstance(x)", ScriptError,
     "it takes a value and a type — pass both"),
    ("def f(x: Optional[int]):\n    if x:\n        return 1\n    return 2", ScriptError,
     "Could not cast value of type int? to bool — compare it, with `is not None` for example"),
    ("def f(x: List[int]):\n    if x:\n        return 1\n    return 2", ScriptError,
     "Could not cast value of type int[] to bool — compare its length with 0"),
    ("def f(x):\n    break", ScriptError,
     "break belongs in a loop — remove it"),
    ("def f(x: int):\n    for i in x:\n        pass", ScriptError,
     "loops go over lists, tuples, dicts, tensors, str and ranges — loop over one of these"),
    ("def f(x):\n    for i in (1, 2):\n        break", ScriptError,
     "such loops are unrolled and have neither break nor continue — use if"),
    ("def f(x: List[int]):\n    for i in x:\n        pass\n    else:\n        pass", ScriptError,
     "else branches of for loops aren't supported — use a flag"),
    ("def f(x: int):\n    while x > 1:\n        x = x - 1\n    else:\n        pass", ScriptError,
     "else branches of while loops aren't supported — use a flag"),
    ("def f(x: int):\n    y = x\n    for i in range(3):\n        del y\n    return y", ScriptError,
     "a loop keeps the variables that it found — do not delete it"),
    ("def f(x: List[int]):\n    return [i for i in x if i > 1]", NotSupportedError,
     "Comprehension ifs are not supported yet — use a for loop"),
    ("def f(x: List[int]):\n    return [i + j for i in x for j in x]", NotSupportedError,
     "Only a single generator is currently supported — use for loops"),
    ('def f(x: int):\n    return f"{x:3d}"', NotSupportedError,
     "Don't support formatting in JoinedStr — use str.format"),
    ('def f(x: int):\n    return f"{x!r}"', NotSupportedError,
     "Don't support conversion in JoinedStr — use str() or format()"),
    ('def f(x: List[int]):\n    return "a" in x', ScriptError,
     "a container has elements of its own type — convert the element"),
    ("def f(x: List[int], y: int):\n    return x < y", ScriptError,
     "values of one type, and numbers and tensors, are compared — convert one of them"),
    ("def f(x: str):\n    return -x", ScriptError,
     "it takes a tensor or a number — convert the operand"),
    ("def f(x: str, y: int):\n    return x - y", ScriptError,
     "operators take tensors, numbers, and lists or str of one type — convert one of them"),
    ('def f(x: int):\n    y: Dict[str, int] = {"a": "b"}\n    return y', ScriptError,
     "Dict type annotation `Dict(str, int)` did not match the type of an actual value type — correct one of them"),
    ('def f(x: int):\n    return {"a": 1, 2: x}', ScriptError,
     "all keys are of one type, and all values — annotate the dict's type"),
    ("def f(x: Dict[str, int]):\n    return {**x}", NotSupportedError,
     "dict expansion is not supported — use update()"),
    ('def f(x: int):\n    y: List[int] = [1, "a"]\n    return y', ScriptError,
     "List type annotation `int[]` did not match the types of the given list elements — correct one of them"),
    ("def f(x: List[int]):\n    return [*x]", ScriptError,
     "cannot unpack a value whose length is not known — use a tuple"),
    ("def f(x: int):\n    return 99999999999999999999999", ScriptError,
     "integers of scripts have 64 bits — use a float"),
    ('def f(x: int):\n    return b"abc"', NotSupportedError,
     "constants are numbers, str, True, False and None — use one of these"),
    ("def f(x: int):\n    return (y := x)", UnsupportedNodeError,
     "scripts are a part of Python — write it in another way"),
    ('def f(x: List[int]):\n    x[0] = "a"', ScriptError,
     "Arguments for call are not valid: int[] takes int at int — convert them"),
    ('def f(x: str):\n    x[0] = "a"', ScriptError,
     "'str' object does not support item assignment — assign to elements of lists, dicts and tensors"),
    ("def f(x: List[int]):\n    x[0:1] = [2]", ScriptError,
     "slices of lists are not assigned — assign the elements"),
    ("def f(x, y: Dict[str, int]):\n    return x[y]", ScriptError,
     "Unsupported operation: indexing tensor with unsupported index type 'Dict(str, int)'. Only ints, slices, "
     "lists and tensors are supported — use one of these"),
    ("def f(x):\n    return x[..., ...]", ScriptError,
     "An index can only have a single ellipsis ('...') — keep one"),
]


@pytest.mark.parametrize(("text", "kind", "ending"), REFUSED, ids=range(len(REFUSED)))
def test_refused(text, kind, ending):
    with pytest.raises(kind) as caught:
        torch.jit.CompilationUnit(text)
    message = str(caught.value)
    assert message.startswith("[jit.script] ")
    assert f" — {ending}" in message
    assert "<--- HERE" in message
