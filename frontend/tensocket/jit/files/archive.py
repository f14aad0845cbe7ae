"""The files that ``jit.save`` writes: a zip of printed code, JSON, and the memory of tensors; no pickle.

archive/code/__torch__/….py   the classes and functions
archive/data.json             the module: its type and attributes; or the function's name
archive/constants.json        tensors that the code names
archive/tensors.json          dtype, shape, strides and memory of each tensor
archive/memory/0 …            the memory
archive/extra/…               extra files
"""

from __future__ import annotations

import enum
import inspect
import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

import tensocket
from tensocket.errors import ExportError
from tensocket.jit.annotations import enum_type, named_tuple
from tensocket.jit.graph import operators
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction
from tensocket.jit.graph.printing import Constants, code_of, note_types
from tensocket.jit.modules import ScriptModule
from tensocket.jit.script_functions import ScriptFunction
from tensocket.nn import Module
from tensocket_compiler.graph.names import PUBLIC
from tensocket_plugins.contract.errors import ArgumentTypeError

#: The version of the format.
FORMAT: Final = "tensocket script 1"
_TAKEN: Final = frozenset({"_parameters", "_buffers", "_modules", "_type", "_non_persistent_buffers_set"})


class Encoder:
    """State of one file that is written."""

    def __init__(self) -> None:
        self.constants = Constants()
        self.tensors: list[dict[str, Any]] = []
        self.memories: list[bytes] = []
        self.known: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.kept: list[Any] = []
        self.used: list[Any] = []

    def tensor(self, value: Any) -> int:
        """Return the number of a tensor, whose memory is added once."""
        if id(value) in self.known:
            return self.known[id(value)]
        storage = value.untyped_storage()
        address = storage.data_ptr()
        if address not in self.storages or not address:
            self.storages[address] = len(self.memories)
            self.memories.append(bytes(storage.cpu().tolist()) if value.device.type != "cpu" else _memory(value))
            self.kept.append(storage)
        self.known[id(value)] = len(self.tensors)
        self.kept.append(value)
        self.tensors.append({
            "memory": self.storages[address], "dtype": str(value.dtype).rpartition(".")[2], "shape": list(value.shape),
            "strides": list(value.stride()), "offset": value.storage_offset(), "device": str(value.device),
            "requires_grad": bool(value.requires_grad), "parameter": isinstance(value, tensocket.nn.Parameter)})
        return self.known[id(value)]

    def value(self, value: Any, path: str) -> Any:
        """Return a value as JSON.

        Raises:
            ExportError: The format has no form for it.
        """
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, enum.Enum):
            self.used.append(enum_type(type(value)))
            return {"enum": enum_type(type(value)).name, "name": value.name}
        if isinstance(value, (int, float)):
            return value
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, tensocket.Tensor):
            return {"tensor": self.tensor(value)}
        if isinstance(value, ScriptModule):
            return self.module(value, path)
        if isinstance(value, (list, tuple)):
            parts = [self.value(each, path) for each in value]
            if hasattr(value, "_fields"):
                kind = named_tuple(type(value))
                self.used.append(kind)
                return {"tuple": parts, "type": kind.qualified}
            return {"list" if isinstance(value, list) else "tuple": parts}
        if isinstance(value, dict):
            return {"dict": [[self.value(k, path), self.value(v, path)] for k, v in value.items()]}
        for name, kind in (("dtype", tensocket.dtype), ("device", tensocket.device), ("layout", tensocket.layout),
                           ("memory_format", tensocket.memory_format)):
            if isinstance(value, kind):
                return {name: str(value).replace("tensocket.", "").replace("torch.", "")}
        return self._object(value, path)

    def _object(self, value: Any, path: str) -> Any:
        from tensocket.jit.boundary import type_of_object

        if operators.is_operator(value):
            return {"operator": PUBLIC.name_of(value) or f"torch.{value.__name__}"}
        kind = type_of_object(value)
        if isinstance(kind, t.ClassType):
            self.used.append(kind)
            return {"object": kind.name, "attributes": {n: self.value(getattr(value, n), f"{path}.{n}")
                                                        for n in kind.attributes if hasattr(value, n)}}
        raise ExportError("jit.save", f"{path} of type {type(value).__name__}", "a file holds values of scripts",
                          "remove the attribute, or make it a tensor, number, str or container")

    def module(self, module: Any, path: str) -> Any:
        """Return a module as JSON."""
        kind = module._type
        self.used.append(kind)
        made: dict[str, Any] = {"module": kind.name, "training": bool(module.training)}
        for name in ("_parameters", "_buffers", "_modules"):
            made[name[1:]] = {n: self.value(v, f"{path}.{n}") for n, v in module.__dict__[name].items()}
        made["transient"] = sorted(module.__dict__.get("_non_persistent_buffers_set", ()))
        if kind.details is not None and kind.details.library:
            return {**made, **self._layer(module, path)}
        rest = [n for n in kind.attributes if n in module.__dict__ and n not in _TAKEN and n != "training"]
        made["attributes"] = {n: self.value(module.__dict__[n], f"{path}.{n}") for n in rest}
        return made

    def _layer(self, module: Any, path: str) -> Any:
        """Return the class and the settings of one of the library's layers."""
        kind = module._type.details
        python = kind.python if hasattr(kind, "python") else type(kind.layer)
        base = next(each for each in python.__mro__ if "forward" in vars(each)
                    or each.__module__.startswith("tensocket"))
        plain = vars(Module())
        settings = {n: v for n, v in module.__dict__.items()
                    if n not in plain and n not in _TAKEN and not n.startswith("_flat_weight_") and n != "_flat_weights"
                    and not inspect.ismethod(v)}
        return {"layer": PUBLIC.name_of(base) or f"torch.nn.{base.__name__}",
                "attributes": {n: self.value(v, f"{path}.{n}") for n, v in settings.items()}}

    # ---- code

    def code(self) -> dict[str, str]:
        """Return the text of each file of code, for everything that was used."""
        texts: dict[str, list[str]] = {}
        done: set[Any] = set()
        while self.used:
            thing = self.used.pop(0)
            name = thing.qualified if isinstance(thing, (CompiledFunction, t.TupleType)) else thing.name
            if name in done or (isinstance(thing, CompiledFunction) and thing.owner is not None):
                continue
            done.add(name)
            texts.setdefault(name.rpartition(".")[0], []).append(self._text(thing))
        return {space: "\n".join(reversed(parts)) for space, parts in texts.items()}

    def _text(self, thing: Any) -> str:
        if isinstance(thing, CompiledFunction):
            return self._checked(code_of(thing, self.constants, self.used))
        if isinstance(thing, t.TupleType):
            name = thing.qualified.rpartition(".")[2]
            lines = [f"  {n} : {self._type(k)}" for n, k in zip(thing.fields, thing.items, strict=True)]
            return "\n".join([f"class {name}(NamedTuple):", *lines]) + "\n"
        if isinstance(thing, t.EnumType):
            lines = [f"  {m.name} = {m.value!r}" for m in thing.python]
            return "\n".join([f"class {thing.name.rpartition('.')[2]}(Enum):", *lines]) + "\n"
        return self._class(thing)

    def _type(self, kind: t.JitType) -> str:
        note_types(kind, self.used)
        return kind.annotation_str

    def _checked(self, text: str) -> str:
        """Return code that calls no Python function.

        Raises:
            ExportError: It does.
        """
        if "^" in text:
            import re

            called = re.search(r"(?<![\w\s)\]])\^(\w+)\(|(?:^|[\s(=])\^(\w+)\(", text)
            if called:
                raise ExportError("jit.save", f"a call of the Python function {called[1] or called[2]!r}", "Could "
                                  "not export "
                                  "Python function call. Remove calls to Python functions before export: a file holds "
                                  "scripts only", "compile the function, or mark it with @torch.jit.unused")
        return text

    def _class(self, kind: t.ClassType) -> str:
        layer = kind.details is not None and kind.details.library
        base = "Layer" if layer else "Module" if kind.is_module else ""
        if isinstance(kind, t.InterfaceType):
            base = "ModuleInterface" if kind.is_module else "Interface"
        lines = [f"class {kind.name.rpartition('.')[2]}({base}):"]
        if kind.is_module and not kind.is_interface:
            lines += [f"  __parameters__ = {sorted(kind.parameters)!r}", f"  __buffers__ = {sorted(kind.buffers)!r}"]
            hooks = [] if kind.details is None else kind.details.hooks
            for label, when in (("__forward_pre_hooks__", "before"), ("__forward_hooks__", "after")):
                names = [hook.name for each, hook in hooks if each == when]
                lines += [f"  {label} = {names!r}"] if names else []
        for name, attribute in kind.attributes.items():
            lines.append(f"  {name} : {self._type(attribute)}" if name.isidentifier() else
                         f'  __annotations__["{name}"] = {self._type(attribute)}')
        for name, value in kind.constants.items() if not layer else ():
            text = _constant(value)
            if text is not None:
                lines.append(f"  {name} : Final[Any] = {text}")
        if isinstance(kind, t.InterfaceType):
            for method in kind.methods.values():
                given = ", ".join(["self", *[f"{a.name}: {self._type(a.type)}" for a in method.schema.arguments[1:]]])
                lines.append(f"  def {method.name}({given}) -> {self._type(method.schema.result)}: pass")
        elif not layer:
            for method in list(kind.methods.values()):
                if method.graph is not None:
                    lines.append(self._checked(code_of(method, self.constants, self.used, 1)).rstrip("\n"))
        return "\n".join(lines if len(lines) > 1 else [*lines, "  pass"]) + "\n"


def _constant(value: Any) -> str | None:
    """Return a constant of a class as a literal; None for functions and the like, which the code does not name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, tuple) and all(_constant(each) for each in value):
        return "(" + "".join(f"{_constant(each)}, " for each in value) + ")"
    return None


def _memory(value: Any) -> bytes:
    """Return the memory that a tensor is a view of."""
    storage = value.untyped_storage()
    whole = tensocket.empty(0, dtype=tensocket.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    return whole.numpy().tobytes()  # type: ignore[no-any-return]


def to_bytes(thing: Any, extra: dict[str, Any] | None = None) -> bytes:
    """Return the contents of the file of a module or function.

    Raises:
        ArgumentTypeError: It is not a script.
        ExportError: It calls Python functions, or holds values that a file cannot.
    """
    encoder = Encoder()
    if isinstance(thing, ScriptFunction):
        encoder.used.append(thing._compiled)
        data: Any = {"function": thing._compiled.qualified}
    elif isinstance(thing, ScriptModule):
        data = encoder.module(thing, "self")
    else:
        raise ArgumentTypeError("jit.save", f"a {type(thing).__name__}", "scripted and traced modules and functions "
                                "are saved",
                                "pass it to torch.jit.script first")
    code = encoder.code()
    constants = [encoder.value(each, "a constant") for each in encoder.constants.values]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/version", FORMAT + "\n")
        for space, text in code.items():
            file.writestr(f"archive/code/{space.replace('.', '/')}.py", text)
        file.writestr("archive/data.json", json.dumps(data))
        file.writestr("archive/constants.json", json.dumps(constants))
        file.writestr("archive/tensors.json", json.dumps(encoder.tensors))
        for number, memory in enumerate(encoder.memories):
            file.writestr(f"archive/memory/{number}", memory)
        for name, content in (extra or {}).items():
            file.writestr(f"archive/extra/{name}", content)
    return made.getvalue()


def write(thing: Any, f: Any, extra: dict[str, Any] | None = None) -> None:
    """Write a module or function to a path or an open file; a path has the whole file or what it had before."""
    content = to_bytes(thing, extra)
    if hasattr(f, "write"):
        f.write(content)
        return
    path = Path(os.fspath(f))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
