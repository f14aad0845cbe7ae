"""An unpickler for files of unknown origin: it supports the few instructions that state dicts need, calls only
functions that are known to be harmless, and limits its work by the size of the file.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import decode_long
from typing import Any, Final

from tensocket import _utils
from tensocket.errors import UnsafeGlobalError
from tensocket.nn.parameter import Parameter
from tensocket_operators import Size, Tensor

from .names import REBUILDERS, full_name, modern
from .safety import BLOCKED, DEFAULT, allowed_by_program

#: Tuples as keys: their hash visits every component as often as it occurs.
_KEY_PARTS: Final = 1000
#: Larger integers may all have the same hash, which makes a dict of them slow.
_PLAIN_INT: Final = (1 << 61) - 2
_LARGE_INTS: Final = 5000


class Restricted:
    """A reader of one pickle.

    Args:
        data: The pickle, and the bytes after it.
        persistent_load: A function from a file's description of a storage to the storage.
        encoding: Encoding of texts of Python 2; ``"bytes"`` leaves them as bytes.
        file_size: Bytes of the whole file.
    """

    def __init__(self, data: Any, persistent_load: Callable[[Any], Any], encoding: str = "utf-8",
                 file_size: int = 0) -> None:
        self._data = bytes(data)
        self.position = 0
        self._persistent_load = persistent_load
        self._encoding = encoding
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._program = allowed_by_program()
        self._trusted = {id(value) for value in self._program.values()}
        self._callable = {id(value) for value in DEFAULT.values()} | self._trusted
        #: Number of elements that calls may still copy.
        self._budget = 4 * len(self._data) + 1000
        #: Number of bytes of tensors that calls may still copy.
        self._copies = 4 * max(file_size, len(self._data)) + 1000
        self._large_ints = _LARGE_INTS

    def load(self) -> Any:
        """Return the object.

        Raises:
            UnsafeGlobalError: The pickle names an object that is not allowed.
            Exception: The pickle is unsupported; the class of the exception is unspecified.
        """
        data = self._data
        while True:
            code = data[self.position]
            self.position += 1
            if code == _STOP:
                return self._stack.pop()
            handler = _HANDLERS.get(code)
            if handler is None:
                raise pickle.UnpicklingError(f"instruction {code:#04x} is not one of a state dict")
            handler(self)

    # ------------------------------------------------------------------------------------------ reading

    def _take(self, count: int) -> bytes:
        start = self.position
        self.position = end = start + count
        if end > len(self._data):
            raise EOFError("the pickle ends too early")
        return self._data[start:end]

    def _number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self._take(layout.size))[0]

    def _line(self) -> str:
        end = self._data.index(b"\n", self.position)
        return self._take(end + 1 - self.position)[:-1].decode()

    def _pop_mark(self) -> list[Any]:
        items = self._stack
        self._stack = self._marks.pop()
        return items

    def _spend(self, count: int) -> None:
        self._budget -= count
        if self._budget < 0:
            raise pickle.UnpicklingError("it asks for more work than its size explains")

    def _copy(self, count: int) -> None:
        self._copies -= count
        if self._copies < 0:
            raise pickle.UnpicklingError("it asks for more copies than its size explains")

    def _check_key(self, key: Any) -> None:
        """Refuse keys with slow or equal hashes."""
        pending, parts = [key], 0
        while pending:
            value = pending.pop()
            parts += 1
            if isinstance(value, tuple):
                pending.extend(value)
                parts += len(value)
            elif type(value) is int and not -_PLAIN_INT <= value <= _PLAIN_INT:
                self._large_ints -= 1
            if parts > _KEY_PARTS or self._large_ints < 0:
                raise pickle.UnpicklingError("its keys are too large")

    # ------------------------------------------------------------------------------------------ names and calls

    def _find(self, module: str, name: str) -> None:
        full = full_name(module, name)
        if module in BLOCKED:
            raise UnsafeGlobalError("load", f"a file that names {full}", f"module {module} is never allowed in "
                                    "restricted files", "do not load this file")
        found = DEFAULT.get(full)
        found = self._program.get(full) if found is None else found
        if found is None:
            short = full.removeprefix("builtins.")
            raise UnsafeGlobalError("load", f"a file that names {full}", "Weights only load failed: restricted files "
                                    "name no other classes and functions than those of tensors and containers",
                                    f"if you trust it, allow it by tensocket.serialization.add_safe_globals([{short}])"
                                    ", or pass weights_only=False if you trust the whole file, which can then run any "
                                    "code")
        self._stack.append(found)

    def _call(self, function: Any, arguments: Any) -> Any:
        if type(arguments) is not tuple:
            raise pickle.UnpicklingError("the arguments of a call are no tuple")
        try:
            checked = _CALLS.get(function)
        except TypeError:
            checked = None
        if checked is not None:
            return checked(self, *arguments)
        if id(function) not in self._callable:
            raise pickle.UnpicklingError(f"it calls a {type(function).__name__}")
        if id(function) in self._trusted or function in REBUILDERS.values() or function in _PLAIN_CALLS:
            return function(*arguments)
        raise pickle.UnpicklingError(f"it calls {getattr(function, '__name__', type(function).__name__)}")

    def _made_set(self, kind: Any) -> Any:
        def make(items: Any = ()) -> Any:
            self._spend(len(items))
            for item in items:
                if type(item) is not str:
                    self._check_key(item)
            return kind(items)

        return make

    def _make_dict(self, pairs: Any = ()) -> OrderedDict[Any, Any]:
        self._spend(len(pairs))
        made: OrderedDict[Any, Any] = OrderedDict()
        for key, value in pairs:
            self._check_key(key)
            made[key] = value
        return made

    def _make_counter(self, counts: Any = ()) -> Counter[Any]:
        if type(counts) not in (dict, tuple):
            raise pickle.UnpicklingError("a counter is made of a dict")
        self._spend(len(counts))
        return Counter(dict(counts))

    def _make_bytes(self, text: Any, encoding: Any = "latin1") -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError("bytes are encoded as latin1")
        self._spend(len(text))
        return text.encode("latin1")

    def _make_bytearray(self, content: Any = b"", encoding: Any = "latin1") -> bytearray:
        if isinstance(content, str):
            content = self._make_bytes(content, encoding)
        if not isinstance(content, bytes):
            raise pickle.UnpicklingError("a bytearray is made of bytes")
        self._spend(len(content))
        return bytearray(content)

    def _make_complex(self, real: Any, imaginary: Any) -> complex:
        if type(real) is not float or type(imaginary) is not float:
            raise pickle.UnpicklingError("a complex number is made of two floats")
        return complex(real, imaginary)

    def _make_size(self, sizes: Any = ()) -> Size:
        if type(sizes) not in (tuple, list) or any(type(n) is not int for n in sizes):
            raise pickle.UnpicklingError("a size is made of integers")
        self._spend(len(sizes))
        return Size(sizes)

    def _make_typed(self, function: Any, kind: Any, arguments: Any, state: Any) -> Any:
        if function not in REBUILDERS.values() or not isinstance(kind, type) or id(kind) not in self._callable:
            raise pickle.UnpicklingError("a tensor of a class is made by a function for tensors")
        return _utils._rebuild_from_type_v2(function, kind, arguments, state)

    def _make_sparse(self, layout: Any, data: Any) -> Any:
        # Positions are checked and sorted, which takes time and memory.
        self._copy(sum(part.numel() * part.element_size() for part in data if isinstance(part, Tensor)))
        return _utils._rebuild_sparse_tensor(layout, data)

    def _make_tensor(self, *arguments: Any) -> Any:
        if len(arguments) > 6 and arguments[6]:
            self._copy(16 * math.prod(*_utils._sizes("_rebuild_tensor", arguments[2])))
        return _utils._rebuild_tensor_v2(*arguments)

    def _make_tensor_of_dtype(self, *arguments: Any) -> Any:
        if len(arguments) > 7 and arguments[7]:
            self._copy(16 * math.prod(*_utils._sizes("_rebuild_tensor", arguments[2])))
        return _utils._rebuild_tensor_v3(*arguments)

    def _make_moved(self, data: Any, *arguments: Any) -> Any:
        self._copy(16 * data.numel())
        return _utils._rebuild_device_tensor_from_cpu_tensor(data, *arguments)

    # ------------------------------------------------------------------------------------------ instructions

    def _do_new(self) -> None:
        arguments, kind = self._stack.pop(), self._stack.pop()
        if kind is Parameter:
            self._stack.append(Parameter(*arguments))
        elif kind in (OrderedDict, Counter, set, frozenset, bytearray, Size):
            self._stack.append(self._call(kind, arguments))
        elif id(kind) in self._trusted and isinstance(kind, type):
            self._stack.append(kind.__new__(kind, *arguments))
        else:
            raise pickle.UnpicklingError("it creates an object of a class that is not allowed")

    def _do_build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(target) is OrderedDict:
            target.__dict__.update(state)
        elif isinstance(target, Parameter):
            _utils._with_attributes(target, state)
        elif id(type(target)) in self._trusted:
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
                return
            attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            if attributes:
                target.__dict__.update(attributes)
            for name, value in (slots or {}).items():
                setattr(target, name, value)
        else:
            raise pickle.UnpicklingError(f"it sets attributes of a {type(target).__name__}")

    def _do_append(self) -> None:
        item = self._stack.pop()
        self._extend(self._stack[-1], [item])

    def _do_appends(self) -> None:
        items = self._pop_mark()
        self._extend(self._stack[-1], items)

    def _extend(self, target: Any, items: list[Any]) -> None:
        if type(target) is not list:
            raise pickle.UnpicklingError("it appends to something else than a list")
        target.extend(items)

    def _do_setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items([key, value])

    def _do_setitems(self) -> None:
        self._set_items(self._pop_mark())

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in (dict, OrderedDict, Counter) and not (
                isinstance(target, dict) and id(type(target)) in self._trusted):
            raise pickle.UnpicklingError("it sets items of something else than a dict")
        for k in range(0, len(items), 2):
            if type(items[k]) is not str:
                self._check_key(items[k])
            target[items[k]] = items[k + 1]

    def _do_add_items(self) -> None:
        items, target = self._pop_mark(), self._stack[-1]
        if type(target) is not set:
            raise pickle.UnpicklingError("it adds items to something else than a set")
        target.update(self._made_set(set)(items))

    def _do_reduce(self) -> None:
        arguments = self._stack.pop()
        self._stack[-1] = self._call(self._stack[-1], arguments)

    def _do_persistent(self) -> None:
        self._stack.append(self._persistent_load(self._stack.pop()))

    def _do_global(self) -> None:
        self._find(*modern(self._line(), self._line()))

    def _do_stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise pickle.UnpicklingError("a name is no text")
        self._find(module, name)

    def _do_mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _do_tuple(self) -> None:
        items = tuple(self._pop_mark())
        self._stack.append(items)

    def _do_dict(self) -> None:
        items = self._pop_mark()
        self._stack.append({})
        self._set_items(items)

    def _do_list(self) -> None:
        items = self._pop_mark()
        self._stack.append(items)

    def _do_frozenset(self) -> None:
        items = self._pop_mark()
        self._stack.append(self._made_set(frozenset)(items))

    def _do_text_of_python_2(self, size: int) -> None:
        data = self._take(size)
        self._stack.append(data if self._encoding == "bytes" else data.decode(self._encoding))

    def _do_line_integer(self) -> None:
        text = self._line()
        self._stack.append({"00": False, "01": True}.get(text) if text in ("00", "01") else int(text))


def _tuple_of(count: int) -> Callable[[Restricted], None]:
    def run(machine: Restricted) -> None:
        items = tuple(machine._stack[-count:])
        if len(items) != count:
            raise pickle.UnpicklingError("its stack is empty")
        machine._stack[-count:] = [items]

    return run


def _push(make: Callable[[Restricted], Any]) -> Callable[[Restricted], None]:
    return lambda machine: machine._stack.append(make(machine))


_U1, _U2, _I4, _U4, _U8, _F8 = (struct.Struct(text) for text in ("<B", "<H", "<i", "<I", "<Q", ">d"))


def _text(size: struct.Struct) -> Callable[[Restricted], None]:
    return _push(lambda m: m._take(m._number(size)).decode("utf-8", "surrogatepass"))


def _bytes(size: struct.Struct) -> Callable[[Restricted], None]:
    return _push(lambda m: m._take(m._number(size)))


def _put(size: struct.Struct) -> Callable[[Restricted], None]:
    return lambda m: m._memo.__setitem__(m._number(size), m._stack[-1])


def _get(size: struct.Struct) -> Callable[[Restricted], None]:
    return _push(lambda m: m._memo[m._number(size)])


_STOP: Final = pickle.STOP[0]
_HANDLERS: Final[dict[int, Callable[[Restricted], Any]]] = {code[0]: handler for code, handler in {
    pickle.PROTO: lambda m: m._take(1), pickle.FRAME: lambda m: m._take(8),
    pickle.GLOBAL: Restricted._do_global, pickle.STACK_GLOBAL: Restricted._do_stack_global,
    pickle.NEWOBJ: Restricted._do_new, pickle.REDUCE: Restricted._do_reduce, pickle.BUILD: Restricted._do_build,
    pickle.APPEND: Restricted._do_append, pickle.APPENDS: Restricted._do_appends,
    pickle.SETITEM: Restricted._do_setitem, pickle.SETITEMS: Restricted._do_setitems,
    pickle.ADDITEMS: Restricted._do_add_items, pickle.BINPERSID: Restricted._do_persistent,
    pickle.MARK: Restricted._do_mark, pickle.TUPLE: Restricted._do_tuple, pickle.LIST: Restricted._do_list,
    pickle.DICT: Restricted._do_dict, pickle.FROZENSET: Restricted._do_frozenset,
    pickle.TUPLE1: _tuple_of(1), pickle.TUPLE2: _tuple_of(2), pickle.TUPLE3: _tuple_of(3),
    pickle.NONE: _push(lambda m: None), pickle.NEWTRUE: _push(lambda m: True), pickle.NEWFALSE: _push(lambda m: False),
    pickle.EMPTY_TUPLE: _push(lambda m: ()), pickle.EMPTY_LIST: _push(lambda m: []),
    pickle.EMPTY_DICT: _push(lambda m: {}), pickle.EMPTY_SET: _push(lambda m: set()),
    pickle.BININT: _push(lambda m: m._number(_I4)), pickle.BININT1: _push(lambda m: m._number(_U1)),
    pickle.BININT2: _push(lambda m: m._number(_U2)), pickle.BINFLOAT: _push(lambda m: m._number(_F8)),
    pickle.LONG1: _push(lambda m: decode_long(m._take(m._number(_U1)))),
    pickle.LONG4: _push(lambda m: decode_long(m._take(m._number(_U4)))),
    pickle.INT: Restricted._do_line_integer,
    pickle.BINUNICODE: _text(_U4), pickle.SHORT_BINUNICODE: _text(_U1), pickle.BINUNICODE8: _text(_U8),
    pickle.BINBYTES: _bytes(_U4), pickle.SHORT_BINBYTES: _bytes(_U1), pickle.BINBYTES8: _bytes(_U8),
    pickle.BYTEARRAY8: _push(lambda m: bytearray(m._take(m._number(_U8)))),
    pickle.BINSTRING: lambda m: m._do_text_of_python_2(m._number(_U4)),
    pickle.SHORT_BINSTRING: lambda m: m._do_text_of_python_2(m._number(_U1)),
    pickle.BINPUT: _put(_U1), pickle.LONG_BINPUT: _put(_U4), pickle.BINGET: _get(_U1), pickle.LONG_BINGET: _get(_U4),
    pickle.MEMOIZE: lambda m: m._memo.__setitem__(len(m._memo), m._stack[-1]),
}.items()}
#: Functions that restricted files call with checked arguments.
_CALLS: Final[dict[Any, Callable[..., Any]]] = {
    OrderedDict: Restricted._make_dict, Counter: Restricted._make_counter,
    DEFAULT["_codecs.encode"]: Restricted._make_bytes, bytearray: Restricted._make_bytearray,
    bytes: lambda machine: b"", complex: Restricted._make_complex, Size: Restricted._make_size,
    set: lambda machine, *items: machine._made_set(set)(*items),
    frozenset: lambda machine, *items: machine._made_set(frozenset)(*items),
    _utils._rebuild_from_type_v2: Restricted._make_typed, _utils._rebuild_sparse_tensor: Restricted._make_sparse,
    _utils._rebuild_tensor_v2: Restricted._make_tensor, _utils._rebuild_tensor_v3: Restricted._make_tensor_of_dtype,
    _utils._rebuild_device_tensor_from_cpu_tensor: Restricted._make_moved,
}
#: Functions that check their own arguments.
_PLAIN_CALLS: Final = (DEFAULT["torch.device"], DEFAULT["torch.serialization._get_layout"], slice)
