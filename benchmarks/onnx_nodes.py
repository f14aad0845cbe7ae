"""Count the backend tests of ONNX that imported models pass, by operator.

    python benchmarks/onnx_nodes.py [--kind node pytorch-operator pytorch-converted simple] [--match REGEX] [--table]
                                    [--failures] [--device DEVICE]

Each test is a model with inputs and results; values, dtypes and shapes are compared, as in ``onnx.backend.test``. The
tests of kind ``real`` need downloads, and are left out.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from tensocket.onnx.backend import Backend

KINDS = ("node", "pytorch-operator", "pytorch-converted", "simple")


def value_of(path: Path, form: Any) -> Any:
    """Read an input or a result of a test from its file."""
    kind = form.WhichOneof("value")
    proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind, onnx.TensorProto)()
    proto.ParseFromString(path.read_bytes())
    if kind == "sequence_type":
        return numpy_helper.to_list(proto)
    return numpy_helper.to_optional(proto) if kind == "optional_type" else numpy_helper.to_array(proto)


def sets_of(case: Any, model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield inputs and results of a test."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [plain(x) for x in inputs], [plain(x) for x in outputs]
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        found = []
        for word, forms in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(list(folder.glob(f"{word}_*.pb")))
            found.append([value_of(folder / f"{word}_{k}.pb", forms[k].type) for k in range(count)])
        yield found[0], found[1]


def plain(value: Any) -> Any:
    """Return a value of a test as an array."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def run(case: Any, device: str = "CPU") -> str:
    """Return "passed", or the error of a test on a device."""
    try:
        model = case.model if case.model is not None else onnx.load(str(Path(case.model_dir) / "model.onnx"))
        ready = Backend.prepare(model, device)
        for inputs, outputs in sets_of(case, model):
            found = ready.run(inputs)
            Runner.assert_similar_outputs(outputs, found, rtol=case.rtol, atol=case.atol)
    except Exception as error:
        text = str(error).strip().replace("\n", " ")
        return f"{type(error).__name__}: {text[:160]}"
    return "passed"


def operator_of(case: Any) -> str:
    """Return the operator that a test is for."""
    if case.model is None:
        return str(case.kind)
    nodes = case.model.graph.node
    word = case.name.removeprefix("test_")
    return nodes[0].op_type if len(nodes) == 1 else f"{word.partition('_')[0]} (expanded)"


def main() -> None:
    """Run the tests and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--match", default="")
    parser.add_argument("--table", action="store_true", help="print the counts by operator")
    parser.add_argument("--failures", action="store_true", help="print each test that fails")
    parser.add_argument("--device", default="CPU")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for kind in options.kind:
        by_operator: dict[str, Counter[str]] = defaultdict(Counter)
        for case in load_model_tests(kind=kind):
            if not re.search(options.match, case.name):
                continue
            outcome = run(case, options.device)
            by_operator[operator_of(case)]["passed" if outcome == "passed" else "failed"] += 1
            if outcome != "passed" and options.failures:
                print(f"  {case.name}: {outcome}", flush=True)
        passed, failed = (sum(c[word] for c in by_operator.values()) for word in ("passed", "failed"))
        print(f"{kind}: {passed} of {passed + failed}", flush=True)
        if options.table:
            print("\n| operator | passed | of |\n|---|---|---|")
            for name, counts in sorted(by_operator.items()):
                print(f"| {name} | {counts['passed']} | {counts.total()} |")


if __name__ == "__main__":
    main()
