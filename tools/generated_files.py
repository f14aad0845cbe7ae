"""Generated files: writing those that changed, removing those that are gone, or saying which are stale."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path


def update(folder: Path, texts: dict[str, str], there: Iterable[Path], *, check: bool) -> int:
    """Make a folder's generated files be these ``texts``, or with ``check`` only compare; the exit status.

    Args:
        folder: The folder of the files.
        texts: Contents by path inside of the folder.
        there: Generated files that exist.
        check: Whether to leave everything as it is; stale files then make the status 1.
    """
    stale = [name for name, text in texts.items()
             if not (folder / name).exists() or (folder / name).read_text("utf-8") != text]
    gone = [path for path in there if path.relative_to(folder).as_posix() not in texts]
    if not check:
        for name in stale:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(texts[name], "utf-8")
        for path in gone:
            path.unlink()
    names = [*stale, *(path.relative_to(folder).as_posix() for path in gone)]
    print(f"{'stale' if check else 'written'}: {', '.join(names) or 'nothing'}")
    return 1 if check and names else 0


def run(arguments: list[str] | None, description: str | None, folder: Path, texts: Callable[[], dict[str, str]],
        *patterns: str) -> int:
    """Run a generator's command line: write the files, or with ``--check`` compare them.

    Args:
        arguments: Words of the command line, None for those of the process.
        description: Text of the help.
        folder: Package that the files are in.
        texts: Function that gives the contents by path inside of the folder.
        *patterns: Globs that find every file written by this generator that may become superfluous.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if a file is stale")
    check = parser.parse_args(arguments).check
    there = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return update(folder, texts(), there, check=check)
