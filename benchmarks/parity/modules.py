"""Compare layers with PyTorch's: the same state, inputs and output gradients through both libraries.

    python benchmarks/parity/modules.py --peer-python ENV/bin/python [--device opencl] [--only Conv2d,LSTM]

ENV is an environment of the same Python version with PyTorch. The program compares, for each layer, the names and
shapes of its state, its printed form, results (within 1e-4), gradients of inputs and parameters (1e-3) and the state
afterwards; for all classes, their signatures too. It lists classes of ``torch.nn`` that are missing or have no case.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
import warnings
from typing import Any

import numpy as np
from comparison import difference, host, leaves
from module_cases import CASES, NO_CASE, OWN_GRADIENT, Case
from translation import add_peer

import tensocket


class Library:
    """One of the two libraries."""

    def __init__(self, package: Any, device: str) -> None:
        self.package, self.device = package, device

    def tensor(self, values: Any) -> Any:
        return self.package.tensor(np.array(values), device=self.device)

    def argument(self, value: Any, made: list[Any]) -> Any:
        """Return an argument as the library's; arrays of floating-point numbers become leaves, added to ``made``."""
        if isinstance(value, dict):
            return {name: self.argument(item, made) for name, item in value.items()}
        if isinstance(value, list) and isinstance(value[0], np.ndarray):
            return tuple(self.argument(item, made) for item in value)
        if not isinstance(value, np.ndarray):
            return value
        tensor = self.tensor(value)
        if value.dtype.kind == "f":
            made.append(tensor.requires_grad_(True))
        return tensor

    def make(self, case: Case) -> Any:
        self.package.manual_seed(0)
        return case.make(self.package.nn, self.tensor).to(self.device).train(case.training)

    def call(self, module: Any, case: Case, made: list[Any]) -> Any:
        arguments = [self.argument(value, made) for value in case.arguments]
        keywords = arguments.pop() if isinstance(arguments[-1], dict) else {}
        if case.packed:
            rnn = self.package.nn.utils.rnn
            arguments[0] = rnn.pack_padded_sequence(arguments[0], self.package.tensor(case.packed),
                                                    module.batch_first, enforce_sorted=False)
        return module(*arguments, **keywords)


def label(module: Any) -> str:
    return " ".join(repr(module).split())


def differentiable(result: Any) -> list[Any]:
    return [x for x in leaves(result) if hasattr(x, "requires_grad") and x.requires_grad]


def compare(case: Case, peer: Library, own: Library) -> str:
    """Return how a layer differs between the libraries; empty if it does not."""
    theirs, mine = peer.make(case), own.make(case)
    lazy = type(mine).__name__.startswith("Lazy")
    if lazy:
        with peer.package.no_grad(), own.package.no_grad():
            peer.call(theirs.eval(), case, [])
            own.call(mine.eval(), case, [])
        theirs.train(case.training)
        mine.train(case.training)
    if label(theirs) != label(mine):
        return f"prints {label(mine)}"
    state = {name: host(value) for name, value in theirs.state_dict().items()}
    found = {name: host(value).shape for name, value in mine.state_dict().items()}
    if list(state) != list(found) or any(found[name] != value.shape for name, value in state.items()):
        return f"state {found}"
    mine.load_state_dict({name: own.tensor(value) for name, value in state.items()})
    text = _results(case, peer, own, theirs, mine)
    return text or difference(dict(theirs.state_dict()), dict(mine.state_dict()), "values", "state")


def _results(case: Case, peer: Library, own: Library, theirs: Any, mine: Any) -> str:
    made_there: list[Any] = []
    made_here: list[Any] = []
    expected, found = peer.call(theirs, case, made_there), own.call(mine, case, made_here)
    text = difference(expected, found, "values", "")
    if text:
        return text
    pairs = list(zip(differentiable(expected), differentiable(found), strict=True))
    if not pairs or type(mine).__name__ in OWN_GRADIENT:
        return ""
    generator = np.random.default_rng(1)
    weights = [generator.normal(size=tuple(x.shape)).astype(np.float32) for x, _ in pairs]
    sources = [*zip([*made_there, *theirs.parameters()], [*made_here, *mine.parameters()], strict=True)]
    there = peer.package.autograd.grad([x for x, _ in pairs], [a for a, _ in sources],
                                       [peer.tensor(w) for w in weights], allow_unused=True)
    here = own.package.autograd.grad([y for _, y in pairs], [b for _, b in sources],
                                     [own.tensor(w) for w in weights], allow_unused=True)
    for number, (a, b) in enumerate(zip(there, here, strict=True)):
        if a is None or b is None:
            text = "" if (a is None or not host(a).any()) and (b is None or not host(b).any()) else "is missing"
        else:
            text = difference(a, b, "gradients", "")
        if text:
            return f"gradient {number}: {text}"
    return ""


def signatures(peer: Any) -> list[str]:
    """Return the classes that are missing, have no case or take other arguments."""
    covered = {type(case.make(tensocket.nn, tensocket.tensor)).__name__ for case in CASES} | NO_CASE
    lines = []
    for name, kind in inspect.getmembers(peer.nn, inspect.isclass):
        mine = getattr(tensocket.nn, name, None)
        if mine is None:
            lines.append(f"{name}: missing")
            continue
        lines += [] if name in covered else [f"{name}: no case"]
        for method in ("__init__", "forward"):
            theirs, ours = (getattr(x, method, None) for x in (kind, mine))
            if theirs is None or _parameters(theirs) == _parameters(ours) or "uninitialized" in str(theirs).lower():
                continue
            lines.append(f"{name}.{method}: takes {_parameters(ours)} and not {_parameters(theirs)}")
    return lines


def _parameters(call: Any) -> list[str]:
    return [f"{p.name}={getattr(p.default, '__name__', p.default)}" if p.default is not p.empty else p.name
            for p in inspect.signature(call).parameters.values()]


def main() -> int:
    """Run the comparison, and print differences and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="interpreter of an environment with PyTorch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="names of classes, by comma")
    options = parser.parse_args()
    add_peer(options.peer_python)
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    peer, own = Library(torch, "cpu"), Library(tensocket, options.device)
    chosen = set(filter(None, options.only.split(",")))
    counts = {"layers": 0, "equal": 0}
    kinds: dict[str, bool] = {}
    for case in CASES:
        module = case.make(tensocket.nn, tensocket.tensor)
        name = type(module).__name__
        if chosen and name not in chosen:
            continue
        try:
            text = compare(case, peer, own)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:300]}"
        counts["layers"] += 1
        counts["equal"] += not text
        kinds[name] = kinds.get(name, True) and not text
        if text:
            print(f"{label(module)} of {[getattr(x, 'shape', x) for x in case.arguments]}: {text}", flush=True)
    lines = [] if chosen else signatures(torch)
    print(*lines, sep="\n")
    print(json.dumps({**counts, "classes": len(kinds), "classes equal": sum(kinds.values()),
                      "other signatures or missing": len(lines)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
