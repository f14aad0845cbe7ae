"""PyTorch's test database and its samples, as calls of tensocket."""

from __future__ import annotations

import functools
import subprocess
import sys
import types
from typing import Any

import numpy as np

import tensocket


def add_peer(python: str) -> None:
    """Append the packages of another environment to the import path."""
    command = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    sys.path.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


@functools.cache
def database() -> tuple[Any, ...]:
    """Return the public entries of PyTorch's database, without those that compile CUDA source."""
    from torch.testing._internal.common_methods_invocations import op_db

    return tuple(o for o in op_db if not o.name.startswith(("_", "jiterator", "torch.ops")) and "._" not in o.name)


def label(entry: Any) -> str:
    """Return the name of an entry, with that of its variant."""
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else str(entry.name)


class Rebound(dict[str, Any]):
    """Globals of a function with tensocket as ``torch``; other functions of the module are rebound too."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__({"__builtins__": __builtins__})
        for name, value in names.items():
            if name == "torch":
                self[name] = tensocket
            elif name == "wrapper_set_seed":
                self[name] = lambda call, *args, **keywords: call(*args, **keywords)
            elif name == "F":
                self[name] = tensocket.nn.functional
            else:
                self[name] = value


@functools.cache
def rebound_module(name: str) -> Rebound:
    """Return the globals of one module, bound to tensocket."""
    names = Rebound(vars(sys.modules[name]))
    for key, value in list(names.items()):
        if isinstance(value, types.FunctionType) and value.__module__ == name and key != "wrapper_set_seed":
            names[key] = types.FunctionType(value.__code__, names, key, value.__defaults__, value.__closure__)
            names[key].__kwdefaults__ = value.__kwdefaults__
    return names


def rebind(call: Any) -> Any:
    """Return a function of the database, bound to tensocket."""
    if isinstance(call, functools.partial):
        return functools.partial(rebind(call.func), *call.args, **call.keywords)
    if isinstance(call, types.FunctionType) and call.__module__.startswith("torch.testing"):
        cells = tuple(types.CellType(rebind(cell.cell_contents)) for cell in call.__closure__ or ())
        names = rebound_module(call.__module__)
        copy = types.FunctionType(call.__code__, names, call.__name__, call.__defaults__, cells)
        copy.__kwdefaults__ = call.__kwdefaults__
        return copy
    if callable(call) and getattr(call, "__module__", "").startswith("torch"):
        return lookup(getattr(call, "__name__", "?")) or call
    return call


def lookup(name: str) -> Any:
    """Return the function or method with a public name; None if tensocket lacks the name."""
    here: Any = tensocket
    for part in name.split("."):
        here = getattr(here, part, None)
    if callable(here):
        return here
    return getattr(tensocket.Tensor, name, None) or getattr(tensocket.nn.functional, name, None)


def ours(entry: Any) -> Any:
    """Return tensocket's function for an entry; None if its name is missing."""
    call = entry.op
    if isinstance(call, types.FunctionType) and call.__module__.startswith("torch.testing"):
        return rebind(call)
    return lookup(entry.name) or getattr(tensocket.ops.aten, entry.name, None)


class Shared(list[tuple[Any, Any]]):
    """Pairs of tensors that require gradients; with ``memory``, tensors over one storage share memory here as well."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[int, Any] = {}


def convert(value: Any, device: str, made: list[tuple[Any, Any]]) -> Any:
    """Convert an argument of PyTorch to one of tensocket; adds tensors that require gradients to ``made``."""
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(value, device, made)
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(tensocket, str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return tensocket.device(device)
    if isinstance(value, torch.Size):
        return tensocket.Size(value)
    if isinstance(value, (list, tuple)):
        items = [convert(item, device, made) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {("device" if key == "device" else key): (device if key == "device" else convert(item, device, made))
                for key, item in value.items()}
    if isinstance(value, torch.nn.Module):
        return getattr(tensocket.nn, type(value).__name__)()
    if isinstance(value, torch.Generator):
        return tensocket.Generator(device=device)
    return rebind(value) if callable(value) else value


def _tensor(value: Any, device: str, made: list[tuple[Any, Any]]) -> Any:
    import torch

    dtype = getattr(tensocket, str(value.dtype).rpartition(".")[2])
    plain = value.detach().resolve_conj().resolve_neg()
    if plain.layout == torch.sparse_csr:
        parts = [tensocket.as_tensor(np.array(x.numpy(force=True)), device=device)
                 for x in (plain.crow_indices(), plain.col_indices(), plain.values())]
        rows = tensocket.sparse_csr_tensor(*parts, tuple(plain.shape), requires_grad=value.requires_grad)
        if value.requires_grad:
            made.append((value, rows))
        return rows
    if plain.layout != torch.strided:
        raise NotImplementedError(f"layout {plain.layout}")
    if plain.is_meta:
        return tensocket.empty_strided(tuple(plain.shape), plain.stride(), dtype=dtype, device="meta")
    memory = torch.as_strided(plain, (plain.untyped_storage().nbytes() // plain.itemsize,), (1,), 0)
    memory = memory.float() if plain.dtype == torch.bfloat16 else memory
    here = tensocket.as_tensor(np.array(memory.numpy(force=True)), dtype=dtype, device=device)
    if isinstance(made, Shared):
        here = made.memory.setdefault(plain.untyped_storage().data_ptr(), here)
    here = here.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset())
    if value.requires_grad:
        here.requires_grad_(True)
        made.append((value, here))
    return here
