"""Archives of programs: their files, written and read."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

from tensocket.errors import ArgumentTypeError, DamagedFileError, SerializationError, TensocketError
from tensocket.serialization import load as load_values
from tensocket.serialization import save as save_values
from tensocket.serialization.archive import Reader, Writer
from tensocket.serialization.files import FileLike, describe, is_path, readable, replacing, writable
from tensocket_core.pytree import tree_flatten
from tensocket_core.pytree_nodes import BUILTIN

from ..exported_program import ExportedProgram
from . import constants as names
from .constants import ARCHIVE_VERSION_VALUE
from .reading import parse_json, read_program
from .weights import read_tensors, write_tensors
from .writing import write_program

#: Versions of the sets of operators that programs name.
_OPSET: Final = {"aten": 10}


@dataclass
class PT2ArchiveContents:
    """The contents of an archive.

    Attributes:
        exported_programs: Programs by name.
        extra_files: Texts by name.
    """

    exported_programs: dict[str, ExportedProgram] = field(default_factory=dict)
    extra_files: dict[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------------------- writing


def package_pt2(f: FileLike, *, exported_programs: Mapping[str, ExportedProgram],
                extra_files: Mapping[str, Any] | None = None, opset_version: Mapping[str, int] | None = None,
                more_files: Mapping[str, bytes] | None = None) -> None:
    """Write programs to an archive. A file that exists stays as it is until the new one is complete.

    Args:
        f: A path, or a binary file object.
        exported_programs: Programs by name.
        extra_files: Texts by name.
        opset_version: Versions of sets of operators; others than the own one are written as they are.
        more_files: Further files by path.

    Raises:
        SerializationError: A program has parts that files cannot hold, or the file cannot be written.
        ArgumentTypeError: The content of an extra file is not a text.
    """
    own = _files(exported_programs, extra_files or {}, {**_OPSET, **(opset_version or {})})
    files = {**dict(own), **(more_files or {})}
    if is_path(f):
        name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"  # type: ignore[arg-type]
        with replacing(f) as stream:  # type: ignore[arg-type]
            _write(stream, name, files)
    else:
        _write(writable(f), "archive", files)


def _write(stream: IO[bytes], folder: str, files: Mapping[str, Any]) -> None:
    writer = Writer(stream, folder)
    writer.add_all(files.items())
    writer.add(".data/serialization_id", writer.identity().encode())
    writer.finish()
    if hasattr(stream, "flush"):
        stream.flush()


def _files(programs: Mapping[str, ExportedProgram], extra: Mapping[str, Any],
           opset: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    """Yield the files of an archive."""
    yield names.ARCHIVE_FORMAT_PATH, names.ARCHIVE_FORMAT_VALUE
    yield names.ARCHIVE_VERSION_PATH, ARCHIVE_VERSION_VALUE
    yield ".data/version", b"6\n"
    yield "byteorder", sys.byteorder.encode()
    for name, program in programs.items():
        if "/" in name or not name:
            raise SerializationError("package_pt2", f"a program named {name!r}", "names of programs have no slash",
                                     "use another name")
        text = write_program(program, opset)
        yield f"{names.MODELS_DIR}{name}.json", _encoded(text)
        for folder, label, prefix, tensors in (
                (names.WEIGHTS_DIR, "weights", "weight_", program.state_dict),
                (names.CONSTANTS_DIR, "constants", "tensor_", program.constants)):
            table, contents = write_tensors(tensors, prefix if len(programs) == 1 else f"{prefix}{name}_")
            yield from ((folder + path, data) for path, data in contents.items())
            yield f"{folder}{name}_{label}_config.json", _encoded(table)
        yield f"{names.SAMPLE_INPUTS_DIR}{name}.pt", _examples(program)
    for name, value in extra.items():
        if not isinstance(value, (str, bytes)):
            raise ArgumentTypeError("export.save", f"an extra file {name!r} of type {type(value).__name__}", "extra "
                                    "files are texts by name", "pass a dict from str to str")
        yield f"{names.EXTRA_DIR}{name}", value.encode() if isinstance(value, str) else value


def _encoded(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _examples(program: ExportedProgram) -> memoryview:
    """Return the example inputs as ``torch.save`` writes them: ``(args, kwargs)``, or the list of their leaves if a
    container among them is of a program's class, which readers would have to import.
    """
    given = program.example_inputs
    if given is not None:
        leaves, spec = tree_flatten(given)
        given = given if _is_plain(spec) else leaves
    stream = io.BytesIO()
    save_values(given, stream)
    return stream.getbuffer()


def _is_plain(spec: Any) -> bool:
    return spec.is_leaf() or (spec.type in BUILTIN and spec.type.__name__ in ("tuple", "list", "dict", "OrderedDict")
                              and all(map(_is_plain, spec.children())))


# ------------------------------------------------------------------------------------------------------------- reading


def is_pt2_package(serialized_model: bytes | FileLike) -> bool:
    """Whether a file is an archive of exported programs."""
    file = io.BytesIO(serialized_model) if isinstance(serialized_model, bytes) else serialized_model
    try:
        with _opened(file) as stream:
            archive = Reader(stream, names.ARCHIVE_FORMAT_PATH)
            return bytes(archive.read(names.ARCHIVE_FORMAT_PATH)) == names.ARCHIVE_FORMAT_VALUE
    except Exception:  # any exception means that the file is something else
        return False


def load_pt2(f: FileLike, *, expected_opset_version: Mapping[str, int] | None = None) -> PT2ArchiveContents:
    """Read all programs and extra files of an archive.

    Args:
        f: A path, or a binary file object that can seek.
        expected_opset_version: Versions of sets of operators that the programs must have.

    Raises:
        DamagedFileError: The file has another format, or is truncated or damaged.
        SerializationError: A program has parts that are not supported.
        UnsafeGlobalError: Its example inputs are objects of a class that files may not name.
        FileNotFoundError: The file does not exist.
    """
    with _opened(f) as stream:
        try:
            return _contents(Reader(stream, names.ARCHIVE_FORMAT_PATH), dict(expected_opset_version or {}))
        except SerializationError:
            raise
        except (KeyboardInterrupt, MemoryError):
            raise
        # Parsers of hostile bytes may raise anything; any exception means that the file is not a program.
        except Exception as error:
            known = isinstance(error, TensocketError)
            raise DamagedFileError("export.load", f"{describe(f)}: {'' if known else type(error).__name__ + ': '}"
                                   f"{error}", "the file must be what torch.export.save wrote, complete and "
                                   "unchanged", "it is truncated, damaged or of another kind; get it again") from error


class _opened:
    """A file that is open for a block; file objects stay open."""

    def __init__(self, f: Any) -> None:
        self._file = f
        self._stream: Any = None

    def __enter__(self) -> IO[bytes]:
        if not is_path(self._file):
            return readable(self._file)
        self._stream = open(self._file, "rb")  # __exit__ closes it
        opened: IO[bytes] = self._stream
        return opened

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            self._stream.close()


def _contents(archive: Reader, expected: dict[str, int]) -> PT2ArchiveContents:
    if bytes(archive.read(names.ARCHIVE_FORMAT_PATH)) != names.ARCHIVE_FORMAT_VALUE:
        raise ValueError("it is an archive of another kind")
    found = PT2ArchiveContents()
    for path in archive.names():
        if path.startswith(names.MODELS_DIR) and path.endswith(".json"):
            name = path.removeprefix(names.MODELS_DIR).removesuffix(".json")
            found.exported_programs[name] = _program(archive, name, expected)
        elif path.startswith(names.EXTRA_DIR):
            found.extra_files[path.removeprefix(names.EXTRA_DIR)] = archive.read(path).decode()
    archive.check()
    return found


def _program(archive: Reader, name: str, expected: dict[str, int]) -> ExportedProgram:
    text = parse_json(archive.read(f"{names.MODELS_DIR}{name}.json"))
    for space, version in expected.items():
        if text["opset_version"].get(space) != version:
            raise SerializationError("export.load", f"a program with version {text['opset_version'].get(space)} of "
                                     f"{space}", f"the expected version is {version}", "leave expected_opset_version "
                                     "out, or export the program again")
    state = read_tensors(archive, f"{names.WEIGHTS_DIR}{name}_weights_config.json", names.WEIGHTS_DIR)
    constants = read_tensors(archive, f"{names.CONSTANTS_DIR}{name}_constants_config.json", names.CONSTANTS_DIR)
    program = read_program(text, state, constants, None)
    program.example_inputs = _read_examples(archive, f"{names.SAMPLE_INPUTS_DIR}{name}.pt", program)
    return program


def _read_examples(archive: Reader, path: str, program: ExportedProgram) -> Any:
    if path not in archive or not archive.entry(path).size:
        return None
    found = load_values(io.BytesIO(archive.read(path)))
    return program.call_spec.in_spec.unflatten(found) if isinstance(found, list) else found


# ---------------------------------------------------------------------------------------------------------- one program


def save(ep: ExportedProgram, f: FileLike, *, extra_files: Mapping[str, Any] | None = None,
         opset_version: Mapping[str, int] | None = None, pickle_protocol: int = 2) -> None:
    """Write a program to a ``.pt2`` file, which ``load`` reads in any process.

    Args:
        ep: The program.
        f: A path, or a binary file object.
        extra_files: Texts by name.
        opset_version: Versions of sets of operators.
        pickle_protocol: The protocol of example inputs; 2 is the only one that restricted readers know.

    Raises:
        ArgumentTypeError: ``ep`` is not a program, or the content of an extra file not a text.
        SerializationError: The program has parts that files cannot hold, or the file cannot be written.
    """
    if not isinstance(ep, ExportedProgram):
        raise ArgumentTypeError("export.save", f"a {type(ep).__name__}", "The 'ep' parameter must be an instance of "
                                f"'ExportedProgram', got '{type(ep).__name__}' instead", "pass what export() returned")
    if pickle_protocol != 2:
        raise SerializationError("export.save", f"pickle_protocol={pickle_protocol}", "the restricted reader knows "
                                 "protocol 2", "leave pickle_protocol out")
    package_pt2(f, exported_programs={"model": ep}, extra_files=extra_files, opset_version=opset_version)


def load(f: FileLike, *, extra_files: dict[str, Any] | None = None,
         expected_opset_version: Mapping[str, int] | None = None) -> ExportedProgram:
    """Read a program from a ``.pt2`` file that ``save`` or PyTorch's ``torch.export.save`` wrote.

    Args:
        f: A path, or a binary file object that can seek.
        extra_files: Gets the extra files of the archive, texts by name.
        expected_opset_version: Versions of sets of operators that the program must have.

    Raises:
        DamagedFileError: The file has another format, or is truncated or damaged.
        SerializationError: The program has parts that are not supported.
        UnsafeGlobalError: Its example inputs are objects of a class that files may not name.
        FileNotFoundError: The file does not exist.
    """
    found = load_pt2(f, expected_opset_version=expected_opset_version)
    if "model" not in found.exported_programs:
        raise DamagedFileError("export.load", f"{describe(f)}, an archive of {sorted(found.exported_programs)}", "it "
                               "holds one program, named model", "read it with pt2_archive.load_pt2")
    if extra_files is not None:
        extra_files.update(found.extra_files)
    return found.exported_programs["model"]


__all__ = ["PT2ArchiveContents", "is_pt2_package", "load_pt2", "package_pt2"]
