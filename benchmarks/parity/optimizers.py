"""Compare optimizers and schedules with PyTorch's: both libraries minimise the same losses, step by step.

    python benchmarks/parity/optimizers.py --peer-python ENV/bin/python [--device opencl] [--only Adam,StepLR]

ENV is an environment of the same Python version with PyTorch. An optimizer counts as equal if the parameters of 50
steps agree within 1e-5 (on float32; L-BFGS on float64) and the names, shapes and dtypes of its state are the same; a
schedule if the learning rates and momenta of 30 steps agree within 1e-9.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any, Final

import numpy as np
from translation import add_peer

import tensocket

STEPS: Final = 50
EPOCHS: Final = 30
BOUND: Final = 1e-5
RATE_BOUND: Final = 1e-9

MOMENTS: Final[list[dict[str, Any]]] = [
    {}, {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4}, {"lr": 0.01, "weight_decay": 0.1}, {"maximize": True},
    {"foreach": True}, {"lr": 0.005, "complex": True}]
ADAM: Final[list[dict[str, Any]]] = [
    {"amsgrad": True, "lr": 0.03}, {"lr": "tensor"}, {"fused": True}, {"amsgrad": True, "complex": True}]
DECOUPLED: Final[list[dict[str, Any]]] = [{"lr": 0.02, "weight_decay": 0.3, "decoupled_weight_decay": True}]
#: The options of every optimizer; "complex" means complex parameters, "tensor" a tensor as learning rate.
OPTIMIZERS: Final[dict[str, list[dict[str, Any]]]] = {
    "SGD": [{}, {"lr": 0.1}, {"lr": 0.05, "momentum": 0.9}, {"lr": 0.05, "momentum": 0.9, "nesterov": True},
            {"lr": 0.02, "momentum": 0.8, "dampening": 0.4, "weight_decay": 0.1}, {"lr": 0.01, "maximize": True},
            {"lr": "tensor"}, {"fused": True}, {"lr": 0.05, "momentum": 0.9, "complex": True}],
    "Adam": MOMENTS + ADAM + DECOUPLED, "AdamW": MOMENTS + ADAM,
    "NAdam": [*MOMENTS, *DECOUPLED, {"momentum_decay": 0.1}],
    "RAdam": MOMENTS + DECOUPLED, "Adamax": MOMENTS,
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1}, {"weight_decay": 0.1, "eps": 1e-3},
                {"initial_accumulator_value": 0.5, "maximize": True}, {"complex": True}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "eps": 1e-3}, {"weight_decay": 0.1, "maximize": True}, {"complex": True}],
    "RMSprop": [{}, {"centered": True}, {"momentum": 0.9, "lr": 0.003}, {"centered": True, "momentum": 0.5,
                "weight_decay": 0.1, "alpha": 0.9}, {"maximize": True}, {"complex": True, "centered": True}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.5)}, {"maximize": True}, {"complex": True}],
    "ASGD": [{}, {"t0": 5, "lambd": 0.01, "alpha": 0.5}, {"weight_decay": 0.1, "maximize": True},
             {"t0": 3, "complex": True}],
    "Adafactor": [{}, {"lr": 0.1, "d": 2.0, "weight_decay": 0.1}, {"eps": (1e-4, 0.1), "beta2_decay": -0.5},
                  {"maximize": True}],
    "LBFGS": [{"lr": 0.1}, {"line_search_fn": "strong_wolfe"}, {"lr": 0.5, "max_iter": 3, "history_size": 4},
              {"line_search_fn": "strong_wolfe", "max_iter": 2, "history_size": 3},
              {"line_search_fn": "strong_wolfe", "max_iter": 4, "complex": True}],
}
#: Dtypes other than float32: L-BFGS searches and stops by differences of losses, mere rounding before step 50.
DTYPES: Final = {"LBFGS": "float64"}
#: Schedules: the class, and its options. "inner" builds the schedules that a schedule contains.
SCHEDULES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.9**epoch}), ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95}),
    ("StepLR", {"step_size": 4, "gamma": 0.5}), ("MultiStepLR", {"milestones": [3, 3, 9, 20], "gamma": 0.3}),
    ("ConstantLR", {}), ("ConstantLR", {"factor": 0.5, "total_iters": 8}), ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.6, "total_iters": 11}), ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {}), ("PolynomialLR", {"total_iters": 17, "power": 2.5}),
    ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}), ("CosineAnnealingLR", {"T_max": 40}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 4, "step_size_down": 7, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 3, "scale_fn": lambda x: 1 / (1 + x),
                  "scale_mode": "iterations"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 31}), ("OneCycleLR", {"max_lr": 0.5, "total_steps": 40,
     "anneal_strategy": "linear", "three_phase": True, "pct_start": 0.4}),
    ("OneCycleLR", {"max_lr": 0.5, "epochs": 8, "steps_per_epoch": 5, "cycle_momentum": False}),
    ("ReduceLROnPlateau", {"patience": 2, "factor": 0.5}),
    ("ReduceLROnPlateau", {"patience": 1, "cooldown": 3, "mode": "max", "threshold_mode": "abs", "min_lr": 0.02}),
    ("SequentialLR", {"inner": [("ConstantLR", {"factor": 0.1, "total_iters": 5}), ("ExponentialLR", {"gamma": 0.9}),
                                ("CosineAnnealingLR", {"T_max": 9})], "milestones": [5, 14]}),
    ("ChainedScheduler", {"inner": [("LinearLR", {"total_iters": 6}), ("ExponentialLR", {"gamma": 0.93}),
                                    ("StepLR", {"step_size": 5})]}),
    ("SWALR", {"swa_lr": 0.02, "anneal_epochs": 12}),
    ("SWALR", {"swa_lr": 0.3, "anneal_epochs": 7, "anneal_strategy": "linear"}),
]


def data(complex_values: bool, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Return two starting points and two curvatures."""
    generator = np.random.default_rng(3)
    starts: list[np.ndarray[Any, Any]] = [generator.normal(size=(3, 4)), generator.normal(size=(5,))]
    if complex_values:
        starts = [x + 1j * generator.normal(size=x.shape) for x in starts]
    scales = [generator.uniform(0.5, 3.0, size=x.shape) for x in starts]
    kind = np.result_type(dtype, np.complex64) if complex_values else dtype
    return [x.astype(kind) for x in starts] + [x.astype(dtype) for x in scales]


def trajectory(library: Any, name: str, options: dict[str, Any], device: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the parameters of all steps, and the structure of the final state."""
    options = dict(options)
    arrays = data(bool(options.pop("complex", False)), DTYPES.get(name, "float32"))
    if options.get("lr") == "tensor":
        options["lr"] = library.tensor(0.02)
    tensors = [library.from_numpy(array).to(device) for array in arrays]
    params, scales = [x.clone().requires_grad_() for x in tensors[:2]], tensors[2:]
    optimizer = getattr(library.optim, name)(params, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum((x.abs() ** 2 * s).sum() + 0.1 * ((x * x.conj()).real ** 2).sum() if x.is_complex() else
                   (x * x * s + 0.1 * library.sin(2 * x)).sum() for x, s in zip(params, scales, strict=True))
        loss.backward()
        return loss

    path = []
    for _ in range(STEPS):
        optimizer.step(closure)
        path.append([library.view_as_real(x).detach().cpu().numpy().copy() if x.is_complex() else
                     x.detach().cpu().numpy().copy() for x in params])
    return path, {str(key): describe(value) for key, value in optimizer.state_dict()["state"].items()}


def describe(value: Any) -> Any:
    """Return the structure of a state: names, dtypes and shapes."""
    if isinstance(value, dict):
        return {name: describe(item) for name, item in value.items()}
    if hasattr(value, "dtype"):
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"
    return type(value).__name__


def compare_optimizer(name: str, options: dict[str, Any], device: str) -> str:
    """Return how an optimizer differs between the libraries; empty if it does not."""
    import torch

    theirs, their_state = trajectory(torch, name, options, "cpu")
    ours, our_state = trajectory(tensocket, name, options, device)
    for step, (expected, got) in enumerate(zip(theirs, ours, strict=True)):
        distance = max(float(np.abs(a - b).max()) for a, b in zip(expected, got, strict=True))
        scale = max(1.0, *(float(np.abs(a).max()) for a in expected))
        if not distance <= BOUND * scale:
            return f"step {step}: {distance:.3g}"
    return "" if their_state == our_state else f"state {our_state} instead of {their_state}"


def build(library: Any, optimizer: Any, name: str, options: dict[str, Any]) -> Any:
    """Return a schedule of a library."""
    options = dict(options)
    where = library.optim.swa_utils if name == "SWALR" else library.optim.lr_scheduler
    inner = [build(library, optimizer, *part) for part in options.pop("inner", [])]
    if name == "ChainedScheduler":
        return where.ChainedScheduler(inner)
    return getattr(where, name)(optimizer, *([inner] if inner else []), **options)


def rates(library: Any, name: str, options: dict[str, Any], dated: bool) -> list[list[float]]:
    """Return the learning rates and momenta of all epochs; ``dated`` passes the epochs, which selects closed forms."""
    first, second = library.ones(1, requires_grad=True), library.ones(1, requires_grad=True)
    optimizer = library.optim.SGD([{"params": [first], "lr": 0.1}, {"params": [second], "lr": 0.4}], momentum=0.9)
    schedule = build(library, optimizer, name, options)
    found = []
    for epoch in range(EPOCHS):
        found.append([float(group[key]) for group in optimizer.param_groups for key in ("lr", "momentum")])
        optimizer.step()
        if name == "ReduceLROnPlateau":
            schedule.step(1.0 + 0.1 * ((7 * epoch) % 5))
        else:
            schedule.step(*([epoch + 1] if dated else []))
    return found


def compare_schedule(name: str, options: dict[str, Any]) -> str:
    """Return how a schedule differs between the libraries; empty if it does not."""
    import torch

    for dated in (False, True):
        if dated and name in ("SequentialLR", "ChainedScheduler", "ReduceLROnPlateau"):
            continue
        expected, got = rates(torch, name, options, dated), rates(tensocket, name, options, dated)
        for epoch, (a, b) in enumerate(zip(expected, got, strict=True)):
            if not np.allclose(a, b, rtol=RATE_BOUND, atol=RATE_BOUND):
                return f"epoch {epoch}{' (given)' if dated else ''}: {b} instead of {a}"
    return ""


def main() -> int:
    """Run the comparison, and print differences and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="interpreter of an environment with PyTorch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="names of classes, by comma")
    options = parser.parse_args()
    add_peer(options.peer_python)
    warnings.simplefilter("ignore")
    chosen = set(filter(None, options.only.split(",")))
    cases = [(name, chosen_options, True) for name, several in OPTIMIZERS.items() for chosen_options in several]
    cases += [(name, chosen_options, False) for name, chosen_options in SCHEDULES]
    count = failed = 0
    for name, given, optimizes in cases:
        if chosen and name not in chosen:
            continue
        count += 1
        try:
            text = compare_optimizer(name, given, options.device) if optimizes else compare_schedule(name, given)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:300]}"
        if text:
            failed += 1
            print(f"{name} {given}: {text}", flush=True)
    print(json.dumps({"device": options.device, "cases": count, "equal": count - failed}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
