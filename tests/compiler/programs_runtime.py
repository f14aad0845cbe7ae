"""Programs that depend on state of the runtime, which guards list."""

from __future__ import annotations

import tensocket as torch
from tensocket import nn


def default_dtype():
    yield (lambda x: x * torch.ones(4)), lambda: torch.set_default_dtype(torch.float64)
    torch.set_default_dtype(torch.float32)


def gradient_mode():
    w = torch.ones(4, requires_grad=True)
    yield (lambda x: x * w), lambda: torch.set_grad_enabled(False)
    torch.set_grad_enabled(True)


def inference_mode():
    w = torch.ones(4, requires_grad=True)
    mode = torch.inference_mode()
    yield (lambda x: x * w), mode.__enter__
    mode.__exit__(None, None, None)


def autocast():
    m = nn.Linear(4, 4)
    block = torch.autocast("cpu", torch.bfloat16)
    yield m, block.__enter__
    block.__exit__(None, None, None)


def autocast_dtype():
    m = nn.Linear(4, 4)

    def f(x):
        with torch.autocast("cpu"):
            return m(x)
    yield f, lambda: torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_autocast_dtype("cpu", torch.bfloat16)


def number_of_threads():
    before = torch.get_num_threads()
    yield (lambda x: x * torch.get_num_threads()), lambda: torch.set_num_threads(before + 1)
    torch.set_num_threads(before)


def determinism():
    def f(x):
        return x * 2 if torch.are_deterministic_algorithms_enabled() else x
    yield f, lambda: torch.use_deterministic_algorithms(True)
    torch.use_deterministic_algorithms(False)


def precision_of_products():
    def f(x):
        return x * len(torch.get_float32_matmul_precision())
    yield f, lambda: torch.set_float32_matmul_precision("high")
    torch.set_float32_matmul_precision("highest")


def default_device():
    yield (lambda x: str(torch.ones(2).device)), lambda: torch.set_default_device("meta")
    torch.set_default_device(None)


def function_mode():
    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.relu else result
    mode = Doubling()
    yield (lambda x: torch.relu(x)), mode.__enter__
    mode.__exit__(None, None, None)


def dispatch_mode():
    class Doubling(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result + 1 if "relu" in str(func) else result
    mode = Doubling()
    yield (lambda x: torch.relu(x)), mode.__enter__
    mode.__exit__(None, None, None)


def anomaly_mode():
    def f(x):
        return x * 2 if torch.is_anomaly_enabled() else x
    mode = torch.autograd.set_detect_anomaly
    yield f, lambda: mode(True)
    mode(False)


def saved_tensor_hooks():
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)

    def f(x):
        y = x.clone().requires_grad_()
        (y * y).sum().backward()
        return y.grad
    yield f, hooks.__enter__
    hooks.__exit__(None, None, None)


def gradient_mode_left_off():
    def f(x):
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return x
    yield f, lambda: None
    torch.set_grad_enabled(True)


def default_dtype_written():
    def f(x):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(2)
        torch.set_default_dtype(torch.float32)
        return y.sum() * x * OFFSET[0]
    yield f, lambda: OFFSET.__setitem__(0, 2.0)
    OFFSET[0] = 1.0


def seed_in_the_function():
    box = [1]

    def f(x):
        torch.manual_seed(box[0])
        return torch.rand(2)
    yield f, lambda: box.__setitem__(0, 2)


def initial_seed():
    yield (lambda x: x * (torch.initial_seed() % 7)), lambda: torch.manual_seed(3)


def kernel_overridden():
    library = torch.library.Library("aten", "IMPL")
    yield (lambda x: torch.sigmoid(x)), lambda: library.impl("sigmoid", lambda x: x * 5, "CPU")
    library._destroy()


OFFSET = [1.0]


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({
    "gradient_mode_left_off", "initial_seed", "seed_in_the_function"})
