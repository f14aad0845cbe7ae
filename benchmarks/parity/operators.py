"""Compare operators with PyTorch's: run the samples of PyTorch's own test database through both libraries.

    python benchmarks/parity/operators.py --peer-python ENV/bin/python [--device opencl] [--gradients] [--only abs,add]
                                          [--dtype bfloat16] [--errors]

ENV is an environment of the same Python version with PyTorch and the packages that its test utilities import
(expecttest). An entry of the database counts as equal only if all of its samples (float32; the first supported dtype
for operators without it) agree in values, shapes and dtypes. Random numbers are compared in shape and dtype only. With
``--dtype``, the program runs the entries that support it in it. With ``--errors``, it makes the database's invalid
calls, which have to raise the errors that PyTorch raises.

The fallback stays off; the program counts entries separately that used a host kernel that the backend declares.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from comparison import OF_EQUALS, SHAPE_ONLY, dense, difference, host, leaves, named_elements, tensor_difference
from translation import Shared, add_peer, convert, database, label, ours, rebind

import tensocket

#: The seconds that one entry may take.
TIME_LIMIT: Final = 300
PASSED: Final = "passed"
#: Results of entries that do not count.
NOT_COUNTED: Final = ("not differentiable", "no such dtype", "no invalid calls")


def sample_dtype(entry: Any, wanted: str) -> Any:
    """Return the wanted dtype, or by default float32 or the first dtype of an operator without it; None if unsupported.
    """
    import torch

    known = entry.supported_dtypes("cpu")
    if wanted:
        return next((dtype for dtype in known if str(dtype) == f"torch.{wanted}"), None)
    order = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64)
    return next((dtype for dtype in order if dtype in known), None)


def run_entry(entry: Any, device: str, gradients: bool, wanted: str = "") -> dict[str, Any]:
    """Compare all samples of an entry."""
    import torch

    report: dict[str, Any] = {"entry": label(entry), "samples": 0, "host": False}
    call, dtype = ours(entry), sample_dtype(entry, wanted)
    if dtype is None:
        return report | {"result": "no such dtype"}
    if call is None:
        return report | {"result": "missing"}
    known = entry.supported_backward_dtypes("cpu") if wanted else (torch.float32,)
    differentiable = gradients and entry.supports_autograd and dtype in known
    if gradients and not differentiable:
        return report | {"result": "not differentiable"}
    tensocket.reset_fallback_ledger()
    try:
        torch.manual_seed(0)
        for sample in entry.sample_inputs("cpu", dtype, requires_grad=differentiable):
            report["samples"] += 1
            text = run_sample(entry, call, sample, device, differentiable)
            if text:
                return report | {"result": f"sample {report['samples']}: {text}", "given": str(sample)[:300]}
    except Exception as error:
        return report | {"result": f"sample {report['samples']}: {type(error).__name__}: {str(error)[:300]}"}
    return report | {"result": PASSED, "host": bool(tensocket.fallback_ledger())}


def run_sample(entry: Any, call: Callable[..., Any], sample: Any, device: str, gradients: bool) -> str:
    """Compare one call, and return how it differs; empty if it does not."""
    import torch

    made: list[tuple[Any, Any]] = []
    args = convert((sample.input, *sample.args), device, made)
    keywords = convert(dict(sample.kwargs), device, made)
    if gradients:
        made = [pair for pair in made if pair[0].is_leaf]
    theirs = entry.op(sample.input, *sample.args, **sample.kwargs)
    mine = call(*args, **keywords)
    draws = entry.name in SHAPE_ONLY or _drops(entry, sample)
    if entry.name in OF_EQUALS and not gradients and difference(theirs, mine, "values", entry.name):
        theirs, mine = named_elements(sample, entry.name, theirs), named_elements(sample, entry.name, mine)
    if not gradients:
        return difference(theirs, mine, "values", "nn.functional.dropout" if draws else entry.name)
    if draws:
        return ""
    process = sample.output_process_fn_grad
    theirs, mine = dense(process(theirs)), dense(rebind(process)(mine))
    pairs = [(x, y) for x, y in zip(leaves(theirs), leaves(mine), strict=True)
             if isinstance(x, torch.Tensor) and x.requires_grad]
    if not pairs or not made:
        return ""
    generator = np.random.default_rng(0)
    weights = [_weight(generator, x) for x, _ in pairs]
    wanted = [torch.from_numpy(w).to(x.dtype) for (x, _), w in zip(pairs, weights, strict=True)]
    expected = torch.autograd.grad([x for x, _ in pairs], [a for a, _ in made], wanted, allow_unused=True)
    cotangents = [tensocket.from_numpy(w).to(device, y.dtype) for (_, y), w in zip(pairs, weights, strict=True)]
    got = tensocket.autograd.grad([y for _, y in pairs], [b for _, b in made], cotangents, allow_unused=True)
    return _gradient_difference(expected, got)


def run_errors(entry: Any, device: str) -> dict[str, Any]:
    """Make the invalid calls of an entry; each has to raise the error that PyTorch raises."""
    report: dict[str, Any] = {"entry": label(entry), "samples": 0, "host": False}
    call = ours(entry)
    if entry.error_inputs_func is None:
        return report | {"result": "no invalid calls"}
    if call is None:
        return report | {"result": "missing"}
    problems = []
    for invalid in list(entry.error_inputs("cpu")):
        report["samples"] += 1
        given = str(invalid.sample_input)[:300]
        text = _compare_errors(entry.op, call, invalid.sample_input, device)
        if text:
            problems.append(f"call {report['samples']}: {text}; given {given}")
    return report | {"result": "\n    ".join(problems) or PASSED}


def _compare_errors(theirs: Any, mine: Any, sample: Any, device: str) -> str:
    """Return how the errors of one call differ; empty if they do not."""
    def converted() -> Any:
        shared = Shared()
        args, keywords = convert((sample.input, *sample.args), device, shared), convert(
            dict(sample.kwargs), device, shared)
        return functools.partial(mine, *args, **keywords)

    prepared = _outcome(converted)
    got = prepared if isinstance(prepared, Exception) else _outcome(prepared)
    wanted = _outcome(functools.partial(theirs, sample.input, *sample.args, **sample.kwargs))
    if not isinstance(wanted, Exception) or not isinstance(got, Exception):
        same = isinstance(wanted, Exception) is isinstance(got, Exception)
        return "" if same else f"{got!r:.300} instead of {wanted!r:.300}"
    name = type(wanted).__name__
    same = any(base.__name__ == name for base in type(got).__mro__)
    return "" if same else f"{got!r:.300} instead of {wanted!r:.300}"


def _outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        return error


def _drops(entry: Any, sample: Any) -> bool:
    """Whether a call of attention drops weights randomly."""
    training = entry.name == "nn.functional.multi_head_attention_forward" and sample.kwargs["training"]
    return training or bool(sample.kwargs.get("dropout_p"))


def _weight(generator: np.random.Generator, tensor: Any) -> np.ndarray[Any, Any]:
    shape = tuple(tensor.shape)
    kind = str(tensor.dtype).rpartition(".")[2]
    if kind.startswith("complex"):
        return np.asarray(generator.normal(size=shape) + 1j * generator.normal(size=shape), dtype=kind)
    return np.asarray(generator.normal(size=shape), dtype="float32" if kind == "bfloat16" else kind)


def _gradient_difference(expected: Any, got: Any) -> str:
    for index, (a, b) in enumerate(zip(expected, got, strict=True)):
        if a is None and b is not None and not host(b).any():
            continue
        if (a is None) != (b is None):
            zero = b is None and not host(a).any()
            text = "" if zero else f"{'no ' if b is None else 'a '}gradient"
        else:
            text = "" if a is None else tensor_difference(a, b, "gradients", "")
        if text:
            return f"gradient {index}: {text}"
    return ""


# ----------------------------------------------------------------------------------------------------------------------


def _expired(*_: Any) -> None:
    raise TimeoutError(f"more than {TIME_LIMIT} s")


def _start(python: str) -> None:
    add_peer(python)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _expired)


def _work(job: tuple[int, str, str, str]) -> dict[str, Any]:
    index, device, compared, dtype = job
    signal.alarm(TIME_LIMIT)
    try:
        if compared == "errors":
            return run_errors(database()[index], device)
        return run_entry(database()[index], device, compared == "gradients", dtype)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        return {"entry": label(database()[index]), "samples": 0, "host": False, "result": text}
    finally:
        signal.alarm(0)


def summary(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts over entries."""
    counted = [r for r in reports if r["result"] not in NOT_COUNTED]
    passed = [r for r in counted if r["result"] == PASSED]
    return {"entries": len(counted), "equal": len(passed),
            "of these on declared host kernels": sum(r["host"] for r in passed),
            "missing": sum(r["result"] == "missing" for r in counted),
            "samples": sum(r["samples"] for r in counted), "share": round(len(passed) / max(1, len(counted)), 4)}


def main() -> int:
    """Run the comparison, and print differences and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="interpreter of an environment with PyTorch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gradients", action="store_true", help="compare gradients instead of values")
    parser.add_argument("--errors", action="store_true", help="make the database's invalid calls instead")
    parser.add_argument("--dtype", default="", help="a dtype other than float32")
    parser.add_argument("--only", default="", help="names of operators, by comma")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, help="a JSON file for all results")
    options = parser.parse_args()
    _start(options.peer_python)
    chosen = set(filter(None, options.only.split(",")))
    compared = "errors" if options.errors else "gradients" if options.gradients else "values"
    jobs = [(i, options.device, compared, options.dtype) for i, entry in enumerate(database())
            if not chosen or entry.name in chosen or label(entry) in chosen]
    started, reports = time.monotonic(), []
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(options.workers, len(jobs)), _start, (options.peer_python,), maxtasksperchild=200) as pool:
        for report in pool.imap_unordered(_work, jobs):
            reports.append(report)
            if report["result"] not in (PASSED, *NOT_COUNTED):
                print(f"{report['entry']}: {report['result']}", *([report["given"]] if "given" in report else []),
                      sep="\n    ", flush=True)
    total = {"device": options.device, "compared": compared, "dtype": options.dtype or "float32", **summary(reports),
             "seconds": round(time.monotonic() - started)}
    print(json.dumps(total, indent=1))
    if options.output:
        reports.sort(key=lambda r: r["entry"])
        options.output.write_text(json.dumps({"summary": total, "entries": reports}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
