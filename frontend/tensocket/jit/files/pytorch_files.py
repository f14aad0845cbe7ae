"""TorchScript files that PyTorch wrote: their pickles are read as data, with a fixed set of names."""

from __future__ import annotations

import collections
import io
import pickle
from typing import Any, Final

import tensocket
from tensocket.jit.compiler.classes import new_object
from tensocket.jit.files.loading import Archive, compile_module, damaged, placed, view_of
from tensocket.jit.files.printed_files import PrintedFiles
from tensocket.jit.graph import script_types as t
from tensocket.jit.modules import RecursiveScriptModule

#: Dtypes of storages by PyTorch's class names.
_STORAGES: Final = {"FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
                    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
                    "ShortStorage": "int16",
                    "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
                    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128"}
#: The largest pickle, in bytes.
_LIMIT: Final = 64 << 20


class _Storage:
    """The class of a storage in a pickle: the name of its dtype."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


class _Object:
    """An instance of a class of the archive, before its class is compiled."""

    path = ""

    def __init__(self) -> None:
        self.state: Any = {}

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Reader of a pickle that knows a fixed set of names and calls nothing else.

    Args:
        archive: The archive.
        folder: Folder of the memory of tensors.
        files: The archive's classes.
        location: Devices.
    """

    def __init__(self, archive: Archive, content: bytes, folder: str, files: PrintedFiles, location: Any) -> None:
        super().__init__(io.BytesIO(content))
        self.archive, self.folder, self.files, self.location = archive, folder, files, location
        self.memories: dict[str, bytearray] = {}
        self.classes: dict[str, type[_Object]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name of the pickle means.

        Raises:
            SerializationError: Nothing.
        """
        path = f"{module}.{name}"
        if path in _NAMES:
            return getattr(self, _NAMES[path])
        if path == "collections.OrderedDict":
            return collections.OrderedDict
        if module == "torch" and name in _STORAGES:
            return _Storage(_STORAGES[name])
        if module.partition(".")[0] == "__torch__":
            if path not in self.classes:
                self.classes[path] = self._class(path)
            return self.classes[path]
        raise damaged(f"a pickle with the name {path}")

    def _class(self, path: str) -> Any:
        kind = self.files.find(path)
        if isinstance(kind, t.EnumType):
            return kind.python
        if isinstance(kind, t.TupleType):
            return kind.python
        if not isinstance(kind, t.ClassType):
            raise damaged(f"no class {path}")
        return type("_Object", (_Object,), {"path": path})

    def persistent_load(self, pid: Any) -> Any:
        """Return a storage: its dtype, memory and device."""
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[1], _Storage)):
            raise damaged(f"a reference {str(pid)[:60]}")
        _, kind, key, device, _ = pid
        if key not in self.memories:
            self.memories[key] = bytearray(self.archive.read(f"{self.folder}/{key}"))
        return kind.dtype, self.memories[key], str(device)

    def tensor(self, storage: Any, offset: int, shape: Any, strides: Any, requires_grad: bool, hooks: Any,
               metadata: Any = None) -> Any:
        """Return a tensor on a storage."""
        dtype, memory, device = storage
        made = view_of(memory, getattr(tensocket, dtype), shape, strides, offset)
        return placed(made, device, self.location, bool(requires_grad), False)

    def parameter(self, data: Any, requires_grad: bool, hooks: Any) -> Any:
        """Return a parameter."""
        return tensocket.nn.Parameter(data, requires_grad=bool(requires_grad))

    def same(self, value: Any, *tags: Any) -> Any:
        """Return a container whose type the pickle names."""
        return value

    def device(self, *args: Any) -> Any:
        """Return a device."""
        return tensocket.device(*args)


_NAMES: Final = {
    "torch._utils._rebuild_tensor_v2": "tensor", "torch._utils._rebuild_parameter": "parameter",
    "torch.jit._pickle.build_intlist": "same", "torch.jit._pickle.build_tensorlist": "same",
    "torch.jit._pickle.build_doublelist": "same", "torch.jit._pickle.build_boollist": "same",
    "torch.jit._pickle.restore_type_tag": "same", "torch.device": "device",
}


def _pickle(archive: Archive, name: str, folder: str, files: PrintedFiles, location: Any) -> Any:
    content = archive.read(name, _LIMIT)
    try:
        return _Unpickler(archive, content, folder, files, location).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, MemoryError,
            OverflowError, RecursionError, UnicodeDecodeError) as error:
        if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
            raise
        raise damaged(f"{name}: {type(error).__name__}: {error}") from error


def read_pytorch(archive: Archive, texts: dict[str, str], location: Any) -> Any:
    """Return the module or function of a TorchScript file.

    Raises:
        SerializationError: The file is damaged.
        ScriptError: It calls an operator that does not exist here.
    """
    files = PrintedFiles(texts, {})
    constants = _pickle(archive, "constants.pkl", "constants", files, location)
    for number, value in enumerate(constants):
        files.constants[f"c{number}"] = value
    data = _pickle(archive, "data.pkl", "data", files, location)
    if not isinstance(data, _Object):
        raise damaged("data.pkl without a module")
    made = _built(data, files, {})
    if isinstance(made, RecursiveScriptModule):
        compile_module(files, made)
    return made


def _built(value: Any, files: PrintedFiles, memo: dict[int, Any]) -> Any:
    """Return a value of the pickle with modules and objects in place of their states."""
    if isinstance(value, list):
        return [_built(each, files, memo) for each in value]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple([_built(each, files, memo) for each in value])
    if isinstance(value, dict):
        return {_built(k, files, memo): _built(v, files, memo) for k, v in value.items()}
    if not isinstance(value, _Object):
        return value
    if id(value) in memo:
        return memo[id(value)]
    kind = files.find(value.path)
    made = memo[id(value)] = RecursiveScriptModule(kind) if kind.is_module else new_object(kind)
    if not isinstance(value.state, dict):
        if not kind.is_module and kind.method("__setstate__") is not None:
            kind.method("__setstate__").entry(made, value.state)
            return made
        raise damaged(f"the state of {value.path}")
    for name, each in value.state.items():
        _set(made, kind, str(name), _built(each, files, memo))
    return made


def _set(made: Any, kind: t.ClassType, name: str, value: Any) -> None:
    if name.startswith("__") or (kind.is_module and name in ("_parameters", "_buffers", "_modules", "_type")):
        raise damaged(f"an attribute {name}")
    attribute = kind.attributes.get(name)
    if not kind.is_module:
        made.__dict__[name] = value
    elif isinstance(attribute, t.ClassType) and attribute.is_module:
        made.__dict__["_modules"][name] = value
    elif name in kind.parameters:
        if value is not None and not isinstance(value, tensocket.nn.Parameter):
            value = tensocket.nn.Parameter(value, requires_grad=value.requires_grad)
        made.__dict__["_parameters"][name] = value
    elif name in kind.buffers:
        made.__dict__["_buffers"][name] = value
    else:
        made.__dict__[name] = value


__all__ = ["read_pytorch"]
