"""Serving: the compiled path of an exported program, and files that hold the machine code for it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tensocket.errors import ArgumentError, CompileError, DamagedFileError, ExportError
from tensocket_compiler.backends.contents import SavedContents
from tensocket_compiler.calls.progress import paused_collection
from tensocket_compiler.calls.variant import Variant, capture
from tensocket_compiler.capture.guards import Guards
from tensocket_compiler.capture.object_words import TensorPart
from tensocket_core.dispatch.overrides import version_counter
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_plugins.kit.disk_cache import default_directory

from .exported_program import ExportedProgram, state_tensor
from .graph_signature import InputKind, OutputKind
from .pt2_archive.package import load_pt2

#: Folder of kernels in archives, by backend.
_KERNELS: Final = "data/tensocket_kernels/"
#: Most graphs for different sizes.
_VARIANTS: Final = 128


class CompiledProgram:
    """A program whose calls run compiled graphs, without gradients.

    Sizes need a graph each, which the first call with them makes; ``warm`` makes one ahead of calls. A graph runs fused
    kernels on planned memory. The program's state is the one that the graphs read and write.

    Args:
        program: The program.

    Raises:
        ExportError: The program has outputs other than results, or no example inputs.
        CompileError: The program is not a graph for the compiler.
    """

    def __init__(self, program: ExportedProgram) -> None:
        if any(spec.kind is not OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs):
            raise ExportError("CompiledProgram", f"a program of dialect {program.dialect} with writes among its "
                              "outputs", "compiled programs write in place", "compile the program before "
                              "run_decompositions")
        self.program = program
        specs = program.graph_signature.input_specs
        state = [None if spec.kind is InputKind.USER_INPUT else state_tensor(program, spec) for spec in specs]
        forward = program.graph_module.forward

        def run(*inputs: Any) -> Any:
            rest = iter(inputs)
            return forward(*[next(rest) if x is None else x for x in state])

        self._run = run
        #: Parameters, buffers and constants by path; guards watch that they stay where they are.
        self._state = {str(spec.target): x for spec, x in zip(specs, state, strict=True) if x is not None}
        for x in self._state.values():
            version_counter(x)  # made now, so that writes later do not look like another tensor
        self._variants: list[Variant] = []

    def warm(self, *args: Any, **kwargs: Any) -> CompiledProgram:
        """Make the graph for the sizes of arguments, by default of the example inputs; buffers stay as they are.

        Returns:
            The program itself.

        Raises:
            ExportError: There are neither arguments nor example inputs.
        """
        if not args and not kwargs:
            if self.program.example_inputs is None:
                raise ExportError("CompiledProgram.warm", "a program without example inputs", "graphs are for the "
                                  "sizes of arguments", "pass arguments")
            args, kwargs = self.program.example_inputs
        saved = SavedContents()
        for name in self._state:
            if name in self.program.graph_signature.buffers:
                saved.preserve(self._state[name])
        self(*args, **kwargs)
        saved.restore()
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program.

        Raises:
            ExportError: The arguments have another structure.
            GuardError: One is not as the graph needs it.
            CompileError: The program is not a graph for the compiler.
        """
        from tensocket import no_grad

        spec = self.program.call_spec
        leaves, given = tree_flatten((args, kwargs))
        if given != spec.in_spec:
            raise ExportError("CompiledProgram", f"arguments of structure {given.brief()}", "the program's arguments "
                              f"have the structure {spec.in_spec.brief()}", "pass arguments as in the export")
        if self.program._guards is not None:
            self.program._guards(*leaves)
        with no_grad():
            return tree_unflatten(self._results(tuple(leaves)), spec.out_spec)

    def _results(self, inputs: tuple[Any, ...]) -> Any:
        for variant in self._variants:
            tensors = variant.fits(inputs, {})
            if tensors is not None:
                return variant(tensors)
        unique = {id(x): (path, x) for path, x in reversed(self._state.items())}
        with paused_collection():
            result, made = capture(self._run, Guards([TensorPart(x, path) for path, x in unique.values()]), inputs, {})
        if not isinstance(made, Variant):
            raise CompileError("CompiledProgram", f"a program with no compiled graph: {made}", "a compiled program is "
                               "a graph of operators", "call program.module() instead")
        self._variants = [made, *self._variants[:_VARIANTS - 1]]
        return result


def compile_and_package(program: ExportedProgram, package_path: str | os.PathLike[str]) -> str:
    """Write a program with the machine code of its graph for the example inputs.

    Another process compiles it, so that the file holds all kernels of the program and no others.

    Args:
        program: The program.
        package_path: The file, whose name ends with ``.pt2``.

    Returns:
        The path.

    Raises:
        ArgumentError: The name has another ending.
        CompileError: The program is not a graph for the compiler.
        SerializationError: The file cannot be written.
    """
    from .pt2_archive.package import package_pt2

    path = os.fspath(package_path)
    if not path.endswith(".pt2"):
        raise ArgumentError("aoti_compile_and_package", f"the path {path!r}", "Expect package path to be a file ending "
                            "in .pt2", "use another name")
    with tempfile.TemporaryDirectory() as folder:
        plain, cache = Path(folder) / "model.pt2", Path(folder) / "cache"
        package_pt2(plain, exported_programs={"model": program})
        done = subprocess.run([sys.executable, "-m", "tensocket.export.serving", str(plain)], text=True, check=False,
                              capture_output=True, env={**os.environ, "TENSOCKET_CACHE_DIR": str(cache)})
        if done.returncode:
            raise CompileError("aoti_compile_and_package", f"a program that does not compile: "
                               f"{done.stderr.strip().splitlines()[-1:]}", "a compiled program is a graph of operators",
                               "see the errors of CompiledProgram(program).warm()")
        kernels = {f"{_KERNELS}{file.relative_to(cache).as_posix()}": file.read_bytes()
                   for file in sorted(cache.rglob("*")) if file.is_file()}
        package_pt2(path, exported_programs={"model": program}, more_files=kernels)
    return path


def load_package(path: str | os.PathLike[str]) -> CompiledProgram:
    """Return the compiled program of a file; its kernels go to the kernel cache, and are not compiled anew.

    Kernels are machine code. Load only files that you trust; ``load`` reads the program of any file, and runs nothing.

    Args:
        path: A file of ``compile_and_package``. Kernels for other processors or versions are not used.

    Raises:
        DamagedFileError: The file has another format, or is truncated or damaged.
        FileNotFoundError: The file does not exist.
    """
    data = Path(path).read_bytes()
    with paused_collection():
        found = load_pt2(io.BytesIO(data))
    if "model" not in found.exported_programs:
        raise DamagedFileError("aoti_load_package", f"{os.fspath(path)!r}", "it holds one program, named model",
                               "read it with pt2_archive.load_pt2")
    for backend, name, content in _kernels(data):
        folder = default_directory(backend)
        if folder is not None and not (folder / name).exists():
            _store(folder, name, content)
    return CompiledProgram(found.exported_programs["model"])


def _kernels(data: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Yield backend, name and contents of the kernels in an archive; all names are plain ones."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.namelist():
            _, marker, place = entry.partition(f"/{_KERNELS}")
            backend, _, name = place.partition("/")
            if marker and backend.isidentifier() and name.isalnum():
                yield backend, name, archive.read(entry)


def _store(folder: Path, name: str, content: bytes) -> None:
    """Write a kernel to the cache; a cache that cannot be written costs only time."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        os.replace(file.name, folder / name)
    except OSError:
        return


def _main(path: str) -> None:
    """Compile a program for its example inputs."""
    with open(path, "rb") as stream:
        program = load_pt2(stream).exported_programs["model"]
    CompiledProgram(program).warm()


if __name__ == "__main__":
    _main(sys.argv[1])


__all__ = ["CompiledProgram", "compile_and_package", "load_package"]
