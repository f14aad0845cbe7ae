"""``tensocket export``: the signature and the graph of an exported program in a file, or the program as C."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("export", help="show an exported program", description="Show the inputs, outputs, "
                                 "sizes, weights and graph of a program in a .pt2 file. Nothing in the file is run.")
    parser.add_argument("file", help="a file of torch.export.save")
    parser.add_argument("--no-graph", action="store_true", help="leave the graph out")
    parser.add_argument("--c", metavar="FOLDER", nargs="?", const="", help="write the program as a C library, by "
                        "default into a folder beside the file")
    parser.add_argument("--name", help="name of the library, by default that of the file")
    parser.add_argument("--weights", choices=("source", "file"), default="source",
                        help="whether its weights are C or in a file")
    parser.add_argument("--max-size", metavar="DIM=N", action="append", default=[],
                        help="the largest value of a size that has no limit")
    parser.add_argument("--cpu", help="the processor whose instructions the build files allow, such as x86-64-v3")
    parser.add_argument("--products", choices=("tiles", "cblas"), default="tiles",
                        help="whether the library multiplies matrices itself or by a BLAS that is linked")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from tensocket.export.pt2_archive import load_pt2

    try:
        found = load_pt2(options.file)
    except OSError as error:
        print(f"tensocket export: {options.file}: {error.strerror}", file=sys.stderr)
        return 1
    if options.c is not None:
        return _write_c(found.exported_programs, options)
    for name, program in sorted(found.exported_programs.items()):
        print(as_text(name, program, graph=not options.no_graph))
    for name in sorted(found.extra_files):
        print(f"extra file {name}")
    return 0


def _write_c(programs: dict[str, Any], options: argparse.Namespace) -> int:
    """Write the only program of a file as a C library.

    Raises:
        ArgumentError: The file has several programs, or an option is not allowed.
    """
    from tensocket.errors import ArgumentError
    from tensocket.export.c_library import compile_c

    if len(programs) != 1:
        raise ArgumentError("export", f"a file with {len(programs)} programs", "a C library is made of one",
                            "save it alone")
    limits: dict[str, int] = {}
    for text in options.max_size:
        dim, _, size = text.partition("=")
        if not size.isdecimal():
            raise ArgumentError("export", f"--max-size {text}", "it is the name of a Dim, = and a number",
                                "write --max-size batch=64")
        limits[dim] = int(size)
    file = Path(options.file)
    name = options.name or re.sub(r"\W", "_", file.stem.lower(), flags=re.ASCII)
    made = compile_c(next(iter(programs.values())), options.c or file.with_name(f"{name}_c"), name=name,
                     weights=options.weights, max_sizes=limits, cpu=options.cpu, products=options.products)
    print(f"{made.folder}: {', '.join(made.files)}\n{made.launches} launches of {made.kernels} kernels, "
          f"{made.weight_bytes:,} bytes of weights, {made.arena_bytes:,} bytes of memory for a call")
    return 0


def as_text(name: str, program: Any, *, graph: bool) -> str:
    """Format a program: its signature with dtypes and shapes, ranges of sizes, weights, and the graph."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    weights = [*program.state_dict.values(), *program.constants.values()]
    size = sum(x.numel() * x.element_size() for x in weights if not x.is_sparse)
    lines = [f"program {name} ({program.dialect})"]
    for title, specs in (("inputs", program.graph_signature.input_specs),
                         ("outputs", program.graph_signature.output_specs)):
        lines.append(f"  {title}")
        lines += [f"    {spec}  {_form(values.get(spec.arg.name))}".rstrip() for spec in specs]
    sizes = ", ".join([f"{symbol} in {r}" for symbol, r in program.range_constraints.items()])
    lines += [f"  sizes  {sizes or 'fixed'}",
              f"  weights  {len(weights)} tensors, {size:,} bytes"]
    if graph:
        lines.append(program.graph_module.print_readable(print_output=False, colored=False).strip("\n"))
    return "\n".join(lines)


def _form(value: Any) -> str:
    if value is None or not hasattr(value, "dtype"):
        return "" if value is None else repr(value)
    return f"{str(value.dtype).rpartition('.')[2]}[{', '.join(map(str, value.shape))}]"
