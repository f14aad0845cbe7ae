"""Files of scripts, as ``jit.save`` writes them here and in PyTorch."""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import Any, Final

import tensocket
from tensocket.errors import SerializationError
from tensocket.jit.compiler.classes import new_object
from tensocket.jit.files.archive import FORMAT
from tensocket.jit.files.printed_files import PrintedFiles
from tensocket.jit.graph import operators
from tensocket.jit.graph import script_types as t
from tensocket.jit.modules import RecursiveScriptModule
from tensocket.jit.script_functions import ScriptFunction

#: Bytes that the small parts of a file may have together, against zip bombs: code and structure, without weights.
_SMALL: Final = 256 << 20
#: A file's parts may be larger than the file by this factor at most.
_RATIO: Final = 200


def damaged(what: str) -> SerializationError:
    """Return the error for a file that cannot be read."""
    return SerializationError("jit.load", what, "a file of torch.jit.save is a zip of code and weights",
                              "save it again, or use torch.load for files of torch.save")


class Archive:
    """A zip file that is read with limits.

    Args:
        content: The bytes.
    """

    def __init__(self, content: bytes) -> None:
        try:
            self.zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise damaged(f"not a zip file ({error}): PytorchStreamReader failed reading zip archive") from None
        infos = self.zip.infolist()
        declared = sum(info.file_size for info in infos)
        if declared > _RATIO * len(content) + _SMALL:
            raise damaged(f"{declared} declared bytes in a file of {len(content)}")
        self.sizes = {info.filename: info.file_size for info in infos}
        if len(self.sizes) != len(infos):
            raise damaged("two parts of one name")
        self.root = next((name.partition("/")[0] for name in self.sizes if "/" in name), "")

    def names(self, under: str) -> list[str]:
        """Return the names of the parts below a folder, without it."""
        prefix = f"{self.root}/{under}"
        return [name.removeprefix(prefix) for name in self.sizes if name.startswith(prefix) and name != prefix]

    def has(self, name: str) -> bool:
        """Whether there is a part of a name."""
        return f"{self.root}/{name}" in self.sizes

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Return a part.

        Raises:
            SerializationError: It is missing, damaged, or larger than the limit.
        """
        path = f"{self.root}/{name}"
        if path not in self.sizes:
            raise damaged(f"no part {name}")
        if limit is not None and self.sizes[path] > limit:
            raise damaged(f"{self.sizes[path]} bytes in {name}")
        try:
            return self.zip.read(path)
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError) as error:
            raise damaged(f"{name}: {error}") from None

    def json(self, name: str) -> Any:
        """Return a part that is JSON.

        Raises:
            SerializationError: It is not.
        """
        try:
            return json.loads(self.read(name, _SMALL))
        except (ValueError, RecursionError) as error:
            raise damaged(f"{name}: {error}") from None


def read(f: Any, map_location: Any = None, extra: dict[str, Any] | None = None) -> Any:
    """Read a file of scripts.

    Raises:
        SerializationError: The file is damaged, or something else.
    """
    if hasattr(f, "read"):
        content = f.read()
    else:
        path = os.fspath(f)
        if not os.path.exists(path):
            raise ValueError(f"[jit.load] {path} — The provided filename {path} does not exist — correct it")
        if os.path.isdir(path):
            raise ValueError(f"[jit.load] {path} — The provided filename {path} is a directory — name a file")
        with open(path, "rb") as file:
            content = file.read()
    archive = Archive(content)
    texts = _texts(archive)
    for name in extra if extra is not None else ():
        assert extra is not None
        if archive.has(f"extra/{name}"):
            extra[name] = archive.read(f"extra/{name}", _SMALL)
    if archive.has("data.json"):
        if archive.read("version", 64).decode(errors="replace").strip() != FORMAT:
            raise damaged("another version of the format")
        return _Decoder(archive, texts, map_location).whole()
    if archive.has("data.pkl") and archive.has("constants.pkl"):
        from tensocket.jit.files.pytorch_files import read_pytorch

        return read_pytorch(archive, texts, map_location)
    raise damaged("neither data.json nor data.pkl and constants.pkl: PytorchStreamReader failed locating file "
                  "constants.pkl")


def _texts(archive: Archive) -> dict[str, str]:
    found = {}
    for name in archive.names("code/"):
        if name.endswith(".py"):
            try:
                found[name.removesuffix(".py").replace("/", ".")] = archive.read(f"code/{name}", _SMALL).decode()
            except UnicodeDecodeError:
                raise damaged(f"code/{name} is not text") from None
    return found


class _Decoder:
    """State of one file of our own that is read."""

    def __init__(self, archive: Archive, texts: dict[str, str], map_location: Any) -> None:
        self.archive = archive
        self.location = map_location
        self.files = PrintedFiles(texts, {})
        self.memories: dict[int, Any] = {}
        self.tensors: dict[int, Any] = {}
        self.table = archive.json("tensors.json")
        for number, value in enumerate(archive.json("constants.json")):
            self.files.constants[f"c{number}"] = self.value(value)

    def whole(self) -> Any:
        """Return the module or function of the file."""
        data = self.archive.json("data.json")
        try:
            if "function" in data:
                function = self.files.find(data["function"])
                if function is None:
                    raise damaged(f"no function {data['function']}")
                return ScriptFunction(function)
            module = self.value(data)
        except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise damaged(f"data.json: {type(error).__name__}: {error}") from error
        compile_module(self.files, module)
        return module

    def tensor(self, number: int) -> Any:
        """Return a tensor."""
        if number not in self.tensors:
            self.tensors[number] = self._tensor(self.table[number])
        return self.tensors[number]

    def _tensor(self, entry: dict[str, Any]) -> Any:
        memory, dtype = int(entry["memory"]), getattr(tensocket, str(entry["dtype"]), None)
        if not isinstance(dtype, tensocket.dtype):
            raise damaged(f"the dtype {entry['dtype']}")
        if memory not in self.memories:
            content = bytearray(self.archive.read(f"memory/{memory}"))
            self.memories[memory] = content
        made = view_of(self.memories[memory], dtype, entry["shape"], entry["strides"], int(entry["offset"]))
        return placed(made, entry.get("device", "cpu"), self.location, bool(entry["requires_grad"]),
                      bool(entry.get("parameter")))

    def value(self, data: Any) -> Any:
        """Return the value that JSON describes."""
        if not isinstance(data, dict):
            return data
        if "tensor" in data:
            return self.tensor(data["tensor"])
        if "module" in data:
            return self.module(data)
        if "list" in data:
            return [self.value(each) for each in data["list"]]
        if "tuple" in data:
            parts = [self.value(each) for each in data["tuple"]]
            return self.files.find(data["type"]).python(*parts) if "type" in data else tuple(parts)
        if "dict" in data:
            return {self.value(k): self.value(v) for k, v in data["dict"]}
        if "enum" in data:
            return self.files.find(data["enum"]).python[data["name"]]
        if "complex" in data:
            return complex(*data["complex"])
        if "operator" in data:
            return _operator(data["operator"])
        if "device" in data:
            return tensocket.device(data["device"])
        if "object" in data:
            made = new_object(self.files.find(data["object"]))
            made.__dict__.update({n: self.value(v) for n, v in data["attributes"].items()})
            return made
        name, text = next(iter(data.items()))
        if name not in ("dtype", "layout", "memory_format"):
            raise damaged(f"a value of kind {name}")
        from tensocket.jit.files.printed_names import constant_of

        return constant_of(text)

    def module(self, data: dict[str, Any]) -> Any:
        """Return a module."""
        kind = self.files.find(data["module"])
        if not isinstance(kind, t.ClassType):
            raise damaged(f"no class {data['module']}")
        if "layer" in data:
            return self._layer(kind, data)
        made = RecursiveScriptModule(kind)
        self._fill(made, data)
        return made

    def _fill(self, made: Any, data: dict[str, Any]) -> None:
        for name in ("parameters", "buffers", "modules"):
            made.__dict__[f"_{name}"] = {n: self.value(v) for n, v in data[name].items()}
        made.__dict__["_non_persistent_buffers_set"] = set(data["transient"])
        attributes = {n: self.value(v) for n, v in data["attributes"].items()}
        if any(n.startswith("__") or n in ("_type", "_parameters", "_modules", "_buffers") for n in attributes):
            raise damaged("an attribute with a name of Python's own")
        made.__dict__.update(attributes)
        made.__dict__["training"] = bool(data["training"])

    def _layer(self, kind: t.ClassType, data: dict[str, Any]) -> Any:
        """Return one of the library's layers."""
        from tensocket.jit.modules import layer_wrapper

        python: Any = _layer_class(data["layer"])
        plain = python.__new__(python)
        tensocket.nn.Module.__init__(plain)
        self._fill(plain, data)
        kind.details.layer = plain
        made = layer_wrapper(plain, kind)
        made.__dict__["_modules"] = plain.__dict__["_modules"]
        return made


def _layer_class(path: str) -> type[Any]:
    """Return the class of a layer of the library.

    Raises:
        SerializationError: The name is not that of a layer.
    """
    name = path.rpartition(".")[2]
    found = getattr(tensocket.nn, name, None)
    if not path.startswith("torch.nn.") or not isinstance(found, type) or not issubclass(found, tensocket.nn.Module):
        modules = getattr(tensocket.nn.modules, path.removeprefix("torch.nn.modules.").partition(".")[0], None)
        found = getattr(modules, name, None) if path.startswith("torch.nn.modules.") else None
    if not isinstance(found, type) or not issubclass(found, tensocket.nn.Module):
        raise damaged(f"the layer {path}")
    return found


def _operator(path: str) -> Any:
    """Return a function of the library.

    Raises:
        SerializationError: The name is not that of an operator.
    """
    owner: Any = tensocket
    for part in path.removeprefix("torch.").split("."):
        owner = getattr(owner, part, None)
    if not operators.is_operator(owner):
        raise damaged(f"the operator {path}")
    return owner


def view_of(content: bytearray, dtype: Any, shape: Any, strides: Any, offset: int) -> Any:
    """Return a tensor on memory.

    Raises:
        SerializationError: It reaches beyond the memory.
    """
    shape, strides = [int(n) for n in shape], [int(n) for n in strides]
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    size = dtype.itemsize
    if min([0, offset, *shape, *strides]) < 0 or (0 not in shape and (last + 1) * size > len(content)):
        raise damaged(f"a tensor of shape {shape}, strides {strides} and offset {offset} on {len(content)} bytes")
    if 0 in shape or not content:
        return tensocket.empty(shape, dtype=dtype)
    whole = tensocket.frombuffer(content, dtype=dtype, count=len(content) // size)
    return whole.as_strided(shape, strides, offset)


def placed(made: Any, device: str, location: Any, requires_grad: bool, parameter: bool) -> Any:
    """Return a tensor on the device that ``map_location`` says."""
    target: Any = device
    if callable(location):
        moved = location(made, device)
        made, target = (made if moved is None else moved), None
    elif isinstance(location, dict):
        target = location.get(device, device)
    elif location is not None:
        target = location
    if target is not None and str(target) != "cpu":
        made = made.to(target)
    if parameter:
        return tensocket.nn.Parameter(made, requires_grad=requires_grad)
    return made.requires_grad_() if requires_grad else made


def compile_module(files: PrintedFiles, module: Any) -> None:
    """Compile all methods of a module and its parts, so that errors come when the file is read."""
    for each in module.modules():
        kind = each.__dict__.get("_type")
        if kind is not None and kind.name in files.definitions:
            files.compile_all(kind)
            _register_hooks(files, each, kind)


def _register_hooks(files: PrintedFiles, module: Any, kind: t.ClassType) -> None:
    """Let calls of a module from Python run the hooks of its class; calls in scripts name them."""
    names = files.hooks.get(kind.name, {})
    for name in names.get("__forward_pre_hooks__", ()):
        run = kind.method(name).entry
        module.register_forward_pre_hook(lambda owner, given, run=run: run(owner, given))
        kind.details.hooks.append(("before", kind.method(name)))
    for name in names.get("__forward_hooks__", ()):
        run = kind.method(name).entry
        module.register_forward_hook(lambda owner, given, result, run=run: run(owner, given, result))
        kind.details.hooks.append(("after", kind.method(name)))
