"""The command ``tensocket``: available devices, reasons why others are unavailable, and tools for backend authors.

Exit codes: 0 everything works, 1 a backend or device does not work, 2 the command line is invalid.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

import tensocket
from tensocket_plugins.contract import CONTRACT_VERSION, ArgumentError, TensocketError, UnknownDevice

from . import devices, doctor, programs, scaffold
from .extensions import Extension, find_extensions

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments after the program's name; None takes those of the process.

    Returns:
        The exit code.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # A terminal without Unicode is not a reason to fail.
    arguments = list(sys.argv[1:] if argv is None else argv)
    others = find_extensions()
    if arguments and arguments[0] in others:
        # Without argparse: everything after the name belongs to the other command, including options.
        return others[arguments[0]].run(arguments[1:])
    options = _parser(others).parse_args(arguments)
    try:
        code: int = options.run(options)
    except TensocketError as error:
        print(f"tensocket {options.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ArgumentError, UnknownDevice)) else 1
    return code


def _parser(others: dict[str, Extension]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tensocket", description="A tensor runtime whose devices are plugs.")
    contract = ".".join(map(str, CONTRACT_VERSION))
    parser.add_argument("--version", action="version",
                        version=f"tensocket {tensocket.__version__}, contract {contract}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (devices, doctor, programs, scaffold):
        command.add_to(commands)
    for name, extension in sorted(others.items()):
        commands.add_parser(name, help=extension.help, add_help=False)
    return parser
