"""``tensocket export``: the signature and the graph of an exported program in a file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("export", help="show an exported program", description="Show the inputs, outputs, "
                                 "sizes, weights and graph of a program in a .pt2 file. Nothing in the file is run.")
    parser.add_argument("file", help="a file of torch.export.save")
    parser.add_argument("--no-graph", action="store_true", help="leave the graph out")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from tensocket.export.pt2_archive import load_pt2

    try:
        found = load_pt2(options.file)
    except OSError as error:
        print(f"tensocket export: {options.file}: {error.strerror}", file=sys.stderr)
        return 1
    for name, program in sorted(found.exported_programs.items()):
        print(as_text(name, program, graph=not options.no_graph))
    for name in sorted(found.extra_files):
        print(f"extra file {name}")
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
