"""Run programs that were written for PyTorch: ``python -m tensocket.as_torch [--device X] script.py arguments``.

Every form of importing ``torch`` returns this package's own modules, so that ``torch.nn is tensocket.nn``. A program
decides on its own whether to use ``cuda``:

- Without ``--device``, it gets PyTorch's answer for this machine: ``cuda`` is the backend of that name, if it exists
  and works.
- With ``--device X``, the backend ``X`` answers for ``cuda``. Its devices are *called* ``cuda`` in this process, under
  every name, so that ``x.is_cuda``, ``x.device.type == "cuda"`` and ``map_location="cuda:0"`` mean what the program's
  author intended; ``torch.cuda.get_device_name()`` returns the real device. The host keeps its name: with ``--device
  cpu``, ``cuda:0`` is another word for ``cpu:0``. With an index, as in ``X:1``, that device is the current one.
- ``TENSOCKET_DEVICE`` is a default for ``--device``, and has the same meaning in a process that made this package
  ``torch`` in another way (``sys.modules["torch"] = tensocket``). Tensors for which a program names no device are on
  the host, as in PyTorch.

``tensocket.as_torch.install()`` does the same in a running process, before anything imports ``torch``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterable, Sequence
from email.message import Message
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import tensocket
from tensocket_core.device import answer_for, answer_with
from tensocket_plugins.contract.errors import ArgumentError

from .version import PYTORCH

#: The device that answers for ``cuda`` in this process and its children.
_ANSWERING: Final = "TENSOCKET_CUDA"
#: A folder with a module ``torch`` for child processes that inherit ``sys.path``.
_ENTRANCE: Final = str(Path(__file__).with_name("entrance"))


class _Aliases(Loader):
    """A loader that returns an already imported module under another name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_own(spec.name))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # The import system has just set the alias's spec.


class _Finder(MetaPathFinder):
    """A finder for ``torch`` and ``functorch``, all modules below them, and the distribution's version."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in ("torch", "functorch"):
            return None
        own = importlib.util.find_spec(_own(fullname))
        if own is None:
            return None
        package = own.submodule_search_locations is not None
        return ModuleSpec(fullname, _Aliases(), origin=own.origin, is_package=package)

    def find_distributions(self, context: DistributionFinder.Context = DistributionFinder.Context()  # noqa: B008
                           ) -> Iterable[Distribution]:
        return [_Torch()] if context.name in (None, "torch") else []


class _Torch(Distribution):
    """The metadata of ``torch`` for programs that ask ``importlib.metadata`` for its version."""

    def read_text(self, filename: str) -> str | None:
        message = Message()
        message["Metadata-Version"], message["Name"] = "2.1", "torch"
        message["Version"] = str(tensocket.version.current())
        return message.as_string() if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path: Any) -> Path:
        return Path(__file__).parent.parent.joinpath(path)


_FINDER: Final = _Finder()


def _own(name: str) -> str:
    """Return this package's name for ``torch.nn``; ``functorch``, which comes with PyTorch, is a part of it."""
    if name.partition(".")[0] == "functorch":
        return "tensocket." + name
    return "tensocket" + name.removeprefix("torch")


def install(device: str | None = None) -> None:
    """Make ``import torch`` and ``functorch`` mean this package, in this process and its children.

    Args:
        device: The device that answers for ``cuda``; that of ``TENSOCKET_DEVICE`` by default, otherwise none.

    Raises:
        ArgumentError: Another ``torch`` was imported before.
        UnknownDevice, BackendError: ``device`` cannot be used.
    """
    if sys.modules.get("torch", tensocket) is not tensocket and not _is_entrance(sys.modules["torch"]):
        raise ArgumentError("as_torch", "a process that has imported another torch", "there is one module torch",
                            "install before anything imports it")
    answering = device or os.environ.get(_ANSWERING) or os.environ.pop("TENSOCKET_DEVICE", None)
    if answering:
        answer_with(answering)
        os.environ[_ANSWERING] = answering
    os.environ.pop("TENSOCKET_DEVICE", None)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    if _ENTRANCE not in sys.path:
        sys.path.insert(1, _ENTRANCE)  # child processes find it before an installed torch
    os.environ["PYTHONPATH"] = os.pathsep.join([_ENTRANCE, *_inherited_paths()])  # so do programs that this one starts
    sys.modules["functorch"] = importlib.import_module("tensocket.functorch")
    for name in [name for name in sys.modules if name == "tensocket" or name.startswith("tensocket.")]:
        sys.modules["torch" + name.removeprefix("tensocket")] = sys.modules[name]
    tensocket.__name__ = "torch"  # libraries compare it with the first part of a name


def uninstall() -> None:
    """Undo ``install``: the next ``import torch`` finds the original module."""
    tensocket.__name__ = __name__.partition(".")[0]
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    if _ENTRANCE in sys.path:
        sys.path.remove(_ENTRANCE)
    if paths := _inherited_paths():
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("torch", "functorch")]:
        del sys.modules[name]
    os.environ.pop(_ANSWERING, None)
    answer_for("cuda", None)


def _inherited_paths() -> list[str]:
    """Return the folders of modules that the environment names, but for the entrance."""
    paths = os.environ.get("PYTHONPATH")
    # An empty entry is the current folder.
    return [path for path in paths.split(os.pathsep) if path != _ENTRANCE] if paths else []


def _is_entrance(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", "")).startswith(_ENTRANCE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments after the program's name; None takes those of the process.

    Returns:
        The exit code; that of a program that calls ``sys.exit`` is passed on as the exception.
    """
    parser = argparse.ArgumentParser(prog="python -m tensocket.as_torch", allow_abbrev=False,
                                     description=f"Run a program that was written for PyTorch {PYTORCH}.",
                                     usage="%(prog)s [--device X] (script.py | -m module | -c code) [arguments]")
    parser.add_argument("--device", help="the device that answers for cuda; TENSOCKET_DEVICE by default")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is the name of a module")
    parser.add_argument("-c", dest="code", action="store_true", help="the program is its text")
    parser.add_argument("program", help="a file, a folder or zip archive with a __main__.py, or what the option says")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the program")
    options = parser.parse_args(argv)
    try:
        install(options.device)
    except tensocket.errors.TensocketError as error:
        print(f"tensocket.as_torch: {error}", file=sys.stderr)
        return 2
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    elif options.code:
        sys.argv[0], sys.path[0] = "-c", ""
        _run(compile(options.program, "<string>", "exec"), None)
    elif os.path.isfile(options.program) and not _is_archive(options.program):
        sys.path[0] = os.path.dirname(os.path.abspath(options.program))
        loader = SourceFileLoader("__main__", options.program)
        _run(loader.source_to_code(loader.get_data(options.program), options.program), loader)
    elif os.path.exists(options.program):
        del sys.path[0]  # Python puts the folder or archive there.
        runpy.run_path(options.program, run_name="__main__")
    else:
        parser.error(f"there is no file {options.program!r}")
    return 0


def _is_archive(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"


def _run(code: CodeType, loader: SourceFileLoader | None) -> None:
    """Run a program as ``__main__``; the module stays, because pickle and child processes look up its classes there."""
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __loader__=loader, __spec__=None)
    if loader is not None:
        module.__file__ = loader.path
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


if __name__ == "__main__":
    from tensocket import as_torch

    sys.exit(as_torch.main())
