"""The workloads of ``gpu_check.py``: expressions and training steps that tensocket, PyTorch and CuPy run alike."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Run = Callable[[], Any]
Setup = Callable[[Any], Run]


class Library:
    """One library in the worker process: it makes arrays on the device, and waits for the device."""

    def __init__(self, name: str, device: str, scale: int) -> None:
        self.name = name
        self.device = device
        self.scale = scale
        self.module = __import__(name)
        if name != "cupy":
            __import__(f"{name}.nn")

    def array(self, *shape: int, dtype: str = "float32", seed: int = 0) -> Any:
        """Return normal random numbers that are the same in every library; the scale divides the first size."""
        import numpy as np

        shape = (max(shape[0] // self.scale, 1), *shape[1:])
        values = self.upload(np.random.default_rng(seed).standard_normal(shape, np.float32))
        if self.name == "cupy":
            return values.astype(dtype)
        return values.to(getattr(self.module, dtype))

    def integers(self, *shape: int, limit: int, seed: int = 1) -> Any:
        """Return random integers from 0 up to ``limit``."""
        import numpy as np

        shape = (max(shape[0] // self.scale, 1), *shape[1:])
        return self.upload(np.random.default_rng(seed).integers(0, limit, shape))

    def upload(self, values: Any) -> Any:
        """Return a copy of a NumPy array on the device."""
        if self.name == "cupy":
            return self.module.asarray(values)
        return self.module.tensor(values).to(self.device)

    def synchronize(self) -> None:
        """Wait for all queued work."""
        if self.name == "cupy":
            self.module.cuda.Device().synchronize()
        elif self.name == "tensocket":
            self.module.synchronize(self.device)
        elif self.device.startswith("cuda"):
            self.module.cuda.synchronize()

    def magnitude(self, result: Any) -> float | None:
        """Return the mean magnitude of a result, for comparing libraries; None if the result has no values."""
        import numpy as np

        if result is None or isinstance(result, float):
            return result
        values = result.get() if self.name == "cupy" else result.detach().float().cpu().numpy()
        return float(np.abs(values.astype(np.float64)).mean())


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes:
        torch: Prepares the work for PyTorch and tensocket.
        cupy: The same for CuPy; None where it has no such function.
        nbytes: The bytes that the work must read and write, if memory limits it.
        flops: The floating-point operations, if arithmetic limits it.
        calls: The calls in one run; the table shows the time of one.
    """

    torch: Setup
    cupy: Setup | None = None
    nbytes: int = 0
    flops: int = 0
    calls: int = 1

    def bandwidth(self, microseconds: float) -> float:
        """Return the GB/s of one call; 0 if memory does not limit the work."""
        return self.nbytes / microseconds / 1e3

    def throughput(self, microseconds: float) -> float:
        """Return the TFLOP/s of one call; 0 if arithmetic does not limit the work."""
        return self.flops / microseconds / 1e6


@dataclass(frozen=True)
class Expression:
    """A workload's setup in one line.

    Attributes:
        code: Evaluated at each run, with ``torch``, ``F`` and ``cp`` beside the arrays.
        arrays: Their shapes by name.
        dtype: Their element type.
    """

    code: str
    arrays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtype: str = "float32"

    def __call__(self, library: Library) -> Run:
        """Make the arrays, and return the work."""
        scope: dict[str, Any] = {name: library.array(*shape, dtype=self.dtype, seed=i)
                                 for i, (name, shape) in enumerate(self.arrays.items())}
        if library.name == "cupy":
            scope["cp"] = library.module
        else:
            scope |= {"torch": library.module, "F": library.module.nn.functional}
        run: Run = eval(f"lambda: {self.code}", scope)  # the expressions are in this file
        return run


def repeated(setup: Setup, calls: int) -> Setup:
    """Return a setup whose work is ``calls`` calls."""

    def prepare(library: Library) -> Run:
        once = setup(library)

        def run() -> Any:
            for _ in range(calls - 1):
                once()
            return once()

        return run

    return prepare


def small(code: str, **shapes: tuple[int, ...]) -> Workload:
    """Return a workload whose time is the host's: a hundred calls on small arrays."""
    return Workload(repeated(Expression(code, shapes), 100), calls=100)


def _half_matmul(library: Library) -> Run:
    a = library.array(4096, 4096, dtype="float16")
    b = library.array(4096 * library.scale, 4096, dtype="float16", seed=1)  # the scale leaves the inner size alone
    return lambda: a @ b


def _index_select(library: Library) -> Run:
    table, index = library.array(65536, 1024), library.integers(16384, limit=65536 // library.scale)
    return lambda: table[index]


def _cross_entropy(library: Library) -> Run:
    x, y = library.array(8192, 1000).requires_grad_(), library.integers(8192, limit=1000)

    def run() -> Any:
        x.grad = None
        library.module.nn.functional.cross_entropy(x, y).backward()
        return x.grad

    return run


def _training_step(library: Library) -> Run:
    torch = library.module
    layers = [library.array(1024 * library.scale, 1024, seed=i).mul(0.02).requires_grad_() for i in range(3)]
    x = library.array(1024, 1024, seed=9)

    def run() -> Any:
        y = x
        for weight in layers:
            weight.grad = None
            y = torch.relu(y @ weight)
        (y * y).mean().backward()
        return layers[0].grad

    return run


def _gpt(library: Library) -> Run:
    """Return a training step of two pre-norm transformer blocks on 8 sequences of 64 tokens, with AdamW."""
    torch, width, tokens = library.module, 128, 256
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc]  # the library is known at run time only
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).split(width, 2)
            q, k, v = (part.view(batch, length, 4, -1).transpose(1, 2) for part in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
            x = x + self.out(y)
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    model = nn.Sequential(nn.Embedding(tokens, width), Block(), Block(), nn.LayerNorm(width), nn.Linear(width, tokens))
    for i, p in enumerate(model.parameters()):
        values = library.array(p.shape[0] * library.scale, *p.shape[1:], seed=i)
        with torch.no_grad():
            p.copy_(values * 0.02 + (1.0 if p.dim() == 1 else 0.0))
    model.to(library.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    text = library.integers(8 * library.scale, 64, limit=tokens)

    def run() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(text).view(-1, tokens), text.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    return run


def _upload(library: Library) -> Run:
    host = library.module.arange(2.0)
    return lambda: host.to(library.device)


_M16: Final = {"a": (1 << 24,), "b": (1 << 24,)}
_SQUARE: Final = {"a": (4096, 4096)}
_MIB64: Final = 4 << 24
_ATTENTION: Final = {"q": (4, 16, 1024, 64), "k": (4, 16, 1024, 64), "v": (4, 16, 1024, 64)}
_CONVOLUTION: Final = {"x": (32, 64, 56, 56), "w": (64, 64, 3, 3)}

#: The copy whose speed the others are compared with, and all other rows: host costs, memory, arithmetic, steps.
COPY: Final = "copy_256MiB"
WORKLOADS: Final[dict[str, Workload]] = {
    COPY: Workload(Expression("b.copy_(a)", {"a": (1 << 26,), "b": (1 << 26,)}), nbytes=8 * _MIB64),
    "add_1": Workload(repeated(Expression("a + b", {"a": (1,), "b": (1,)}), 100),
                      repeated(Expression("a + b", {"a": (1,), "b": (1,)}), 100), calls=100),
    "add_in_place_1": small("a.add_(b)", a=(1,), b=(1,)),
    "softmax_8x16": small("torch.softmax(a, -1)", a=(8, 16)),
    "layer_norm_8x16": small("F.layer_norm(a, (16,))", a=(8, 16)),
    "linear_8x16x16": small("F.linear(a, w, b)", a=(8, 16), w=(16, 16), b=(16,)),
    "item": small("a.item()", a=(1,)),
    "upload_8B": Workload(repeated(_upload, 100), calls=100),
    "add_16M": Workload(Expression("a + b", _M16), Expression("a + b", _M16), nbytes=3 * _MIB64),
    "add_16M_bf16": Workload(Expression("a + b", _M16, "bfloat16"), nbytes=3 * _MIB64 // 2),
    "exp_16M": Workload(Expression("a.exp()", {"a": (1 << 24,)}), Expression("cp.exp(a)", {"a": (1 << 24,)}),
                        nbytes=2 * _MIB64),
    "gelu_16M": Workload(Expression("F.gelu(a)", {"a": (1 << 24,)}), nbytes=2 * _MIB64),
    "where_16M": Workload(Expression("torch.where(a > b, a, b)", _M16), Expression("cp.where(a > b, a, b)", _M16),
                          nbytes=5 * _MIB64 + 2 * (1 << 24)),
    "sum_16M": Workload(Expression("a.sum()", {"a": (1 << 24,)}), Expression("a.sum()", {"a": (1 << 24,)}),
                        nbytes=_MIB64),
    "sum_rows_4096x4096": Workload(Expression("a.sum(1)", _SQUARE), Expression("a.sum(1)", _SQUARE), nbytes=_MIB64),
    "sum_columns_4096x4096": Workload(Expression("a.sum(0)", _SQUARE), Expression("a.sum(0)", _SQUARE), nbytes=_MIB64),
    "softmax_4096x4096": Workload(Expression("torch.softmax(a, -1)", _SQUARE), nbytes=2 * _MIB64),
    "layer_norm_4096x4096": Workload(Expression("F.layer_norm(a, (4096,))", _SQUARE), nbytes=2 * _MIB64),
    "transpose_4096x4096": Workload(Expression("a.t().contiguous()", _SQUARE),
                                    Expression("cp.ascontiguousarray(a.T)", _SQUARE), nbytes=2 * _MIB64),
    "cumsum_4096x4096": Workload(Expression("a.cumsum(1)", _SQUARE), Expression("a.cumsum(1)", _SQUARE),
                                 nbytes=2 * _MIB64),
    "sort_1M": Workload(Expression("torch.sort(a)[0]", {"a": (1 << 20,)}), Expression("cp.sort(a)", {"a": (1 << 20,)})),
    "index_16384_of_65536x1024": Workload(_index_select, _index_select, nbytes=2 * _MIB64),
    "matmul_4096_f32": Workload(Expression("a @ a.t()", _SQUARE), Expression("a @ a.T", _SQUARE), flops=2 * 4096**3),
    "matmul_4096_f16": Workload(_half_matmul, _half_matmul, flops=2 * 4096**3),
    "bmm_256x256x64x256": Workload(Expression("a @ b", {"a": (256, 256, 64), "b": (256, 64, 256)}),
                                   Expression("a @ b", {"a": (256, 256, 64), "b": (256, 64, 256)}),
                                   flops=2 * 256**3 * 64),
    "attention_64x1024x64": Workload(Expression("F.scaled_dot_product_attention(q, k, v)", _ATTENTION),
                                     flops=4 * 64 * 1024**2 * 64),
    "conv_3x3_64_56x56": Workload(Expression("F.conv2d(x, w, padding=1)", _CONVOLUTION),
                                  flops=2 * 32 * 56 * 56 * 64 * 64 * 9),
    "cross_entropy_backward_8192x1000": Workload(_cross_entropy, nbytes=3 * 4 * 8192 * 1000),
    "training_step_1024": Workload(_training_step, flops=2 * 1024**3 * 8),
    "gpt_step": Workload(_gpt),
}  # fmt: skip


def copy_bandwidth(workloads: Mapping[str, Mapping[str, Any]]) -> float:
    """Return the GB/s of the fastest library's copy in a report; 0 if the report has none."""
    copies = [entry["us"] for entry in workloads.get(COPY, {}).values() if "us" in entry]
    return WORKLOADS[COPY].bandwidth(min(copies)) if copies else 0.0


def measure(library: Library, workload: Workload, seconds: float) -> dict[str, float | None]:
    """Return the best mean of five batches in microseconds per call, after a warm-up, and the result's magnitude."""
    run = (workload.cupy or workload.torch)(library) if library.name == "cupy" else workload.torch(library)
    start = time.perf_counter()
    value = library.magnitude(run())
    first = time.perf_counter() - start
    for _ in range(2):
        run()
    library.synchronize()
    start = time.perf_counter()
    run()
    library.synchronize()
    count = max(1, min(10000, int(seconds / 5 / max(time.perf_counter() - start, 1e-7))))
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            run()
        library.synchronize()
        best = min(best, (time.perf_counter() - start) / count)
    return {"us": best / workload.calls * 1e6, "first_ms": first * 1e3, "value": value}
