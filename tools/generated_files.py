"""Updates of generated files: write changed files and remove superfluous ones, or list the stale ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path


def update(folder: Path, texts: dict[str, str], there: Iterable[Path], *, check: bool) -> int:
    """Write a folder's generated files, or with ``check`` only compare them; return the exit status.

    Args:
        folder: The folder of the files.
        texts: Contents by path inside of the folder.
        there: Existing generated files.
        check: Whether to change nothing; the status is then 1 if a file is stale.
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
        arguments: Words of the command line; None for those of the process.
        description: Text of the help.
        folder: Package of the files.
        texts: Function that returns the contents by path inside of the folder.
        *patterns: Globs that match every file of this generator that may become superfluous.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if a file is stale")
    check = parser.parse_args(arguments).check
    there = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return update(folder, texts(), there, check=check)
