"""Scripts over patches, modules, optimizers and modes of the runtime."""

from __future__ import annotations

import builtins
import math
import sys
from unittest.mock import patch

import tensocket as torch
from tensocket import nn
from tensocket.nn import functional as F

from .scripts import CALLS, calls, outcome, told, vector


def function_of_torch_replaced(compiled):
    run = compiled(lambda x: torch.relu(x) + F.gelu(x) + x.sin())
    yield from calls(run)
    with patch.object(torch, "relu", lambda x: x * 10):
        yield from calls(run)
    with patch.object(F, "gelu", lambda x: x * 100):
        yield from calls(run)
    with patch.object(torch.Tensor, "sin", lambda x: x * 1000):
        yield from calls(run)
    yield from calls(run)


def operator_of_tensors_replaced(compiled):
    run = compiled(lambda x: x * 2 + x)
    yield from calls(run)
    with patch.object(torch.Tensor, "__mul__", lambda x, k: x - k):
        yield from calls(run)
    yield from calls(run)


def functions_of_python_replaced(compiled):
    run = compiled(lambda x: x * math.floor(2.5) + sum([1, 2]) + max(1, 2) + abs(-1) + round(2.5))
    yield from calls(run)
    with patch.object(math, "floor", lambda x: 9):
        yield from calls(run)
    for name in ("sum", "max", "abs", "round"):
        with patch.object(builtins, name, lambda *given: 7):
            yield [outcome(run, vector()) for _ in range(4)]
    yield from calls(run)


def method_of_a_user_class_replaced(compiled):
    class Local:
        def scale(self, x):
            return x * 2
    thing = Local()
    run = compiled(thing.scale)
    yield from calls(run)
    with patch.object(Local, "scale", lambda self, x: x * 3):
        yield from calls(run)
        yield from calls(compiled(thing.scale))
    thing.scale = lambda x: x * 4
    yield from calls(run)


def forward_replaced_and_module_swapped(compiled):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    run = compiled(model)
    yield from calls(run)
    model[1].forward = lambda x: x * 3
    yield from calls(run)
    del model[1].forward
    model[1] = nn.Tanh()
    yield from calls(run)
    with patch.object(nn.Linear, "forward", lambda self, x: x @ self.weight.t()):
        yield from calls(run)
    model.append(nn.Softmax(-1))
    yield from calls(run)
    del model[0]
    yield from calls(run)


def hooks_come_and_go(compiled):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    run = compiled(model)
    yield from calls(run)
    handle = model[0].register_forward_hook(lambda module, args, out: out * 2)
    yield from calls(run)
    other = model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    yield from calls(run)
    handle.remove()
    yield from calls(run)
    other.remove()
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: seen.append(1))
    yield from calls(run)
    yield len(seen)
    handle.remove()
    yield from calls(run)


def gradient_hooks_come_and_go(compiled):
    model = nn.Linear(4, 2)
    run = compiled(lambda x: model(x).square().sum())

    def step():
        model.zero_grad()
        run(vector()).backward()
        return model.weight.grad
    yield [outcome(step) for _ in range(CALLS)]
    handle = model.weight.register_hook(lambda g: g * 2)
    yield [outcome(step) for _ in range(CALLS)]
    handle.remove()
    handle = model.register_full_backward_hook(lambda module, grads, outs: (grads[0],))
    yield [outcome(step) for _ in range(CALLS)]
    handle.remove()
    handle = model.weight.register_post_accumulate_grad_hook(lambda w: w.grad.mul_(3))
    yield [outcome(step) for _ in range(CALLS)]
    handle.remove()
    yield [outcome(step) for _ in range(CALLS)]


def parameters_replaced_and_written(compiled):
    model = nn.Linear(4, 2)
    run = compiled(model)
    yield from calls(run)
    with torch.no_grad():
        model.weight.mul_(2)
    yield from calls(run)
    model.weight = nn.Parameter(torch.ones(2, 4))
    yield from calls(run)
    model.weight.data = torch.zeros(2, 4)
    yield from calls(run)
    model.bias = None
    yield from calls(run)
    model.double()
    yield from calls(run, vector().double())
    yield from calls(run)
    model.load_state_dict({"weight": torch.ones(2, 4)})
    model.float()
    yield from calls(run)
    model.load_state_dict({"weight": torch.full((2, 4), 5.0)}, assign=True)
    yield from calls(run)
    model.weight.requires_grad_(False)
    yield from calls(run)


def running_statistics(compiled):
    model = nn.BatchNorm1d(3)
    run = compiled(model)
    for k in range(3 * CALLS):
        model.train(k % CALLS < 6)
        if k == CALLS:
            model.momentum = 0.5
        if k == 2 * CALLS:
            model.reset_running_stats()
            model.momentum = None
        yield outcome(run, torch.arange(12.0).reshape(4, 3) * (k + 1)), told(model.running_mean)
        yield told(model.num_batches_tracked)


def shared_parameters_come_apart(compiled):
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    run = compiled(lambda x: second(first(x)).sum())

    def step():
        first.zero_grad()
        second.zero_grad()
        run(vector()).backward()
        return first.weight.grad, second.weight.grad
    yield [outcome(step) for _ in range(CALLS)]
    second.weight = nn.Parameter(first.weight.detach().clone())
    yield [outcome(step) for _ in range(CALLS)]


def gradients_replaced_between_steps(compiled):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss
    run = compiled(step)
    held = []
    for k in range(3 * CALLS):
        if k % 5 == 1:
            optimizer.zero_grad(set_to_none=k % 2 == 0)
        if k % 7 == 3:
            model.weight.grad = torch.ones(2, 4)
        if k % 6 == 5 and model.bias.grad is not None:
            held.append(model.bias.grad)
            model.bias.grad.mul_(2)
        if k == 20:
            optimizer.param_groups[0]["lr"] = 0.01
        if k == 30:
            optimizer.state.clear()
        yield outcome(run, vector() / 10), told(model.weight), told(model.bias)
    yield told(held)


def gradients_shared_by_two_parameters(compiled):
    v, w = (vector().requires_grad_() for _ in range(2))
    run = compiled(lambda x: ((v * x).sum() + (w * x).sum()).backward())
    for k in range(2 * CALLS):
        if k == CALLS:
            v.grad = w.grad = torch.zeros(4)
        yield outcome(run, vector()), told(v.grad), told(w.grad), v.grad is w.grad


def learning_rate_scheduled(compiled):
    w = nn.Parameter(vector())
    optimizer = torch.optim.Adam([w], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)

    def step(x):
        optimizer.zero_grad()
        loss = (w * x).square().sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss
    run = compiled(step)
    for _ in range(2 * CALLS):
        yield outcome(run, vector()), told(w), scheduler.get_last_lr()


def own_function_of_autograd(compiled):
    class Own(torch.autograd.Function):
        scale = 2.0

        @staticmethod
        def forward(ctx, x):
            ctx.scale = Own.scale
            return x * Own.scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.scale * 10
    run = compiled(lambda x: Own.apply(x).sum())

    def step():
        x = vector().requires_grad_()
        run(x).backward()
        return x.grad
    yield [outcome(step) for _ in range(CALLS)]
    Own.scale = 3.0
    yield [outcome(step) for _ in range(CALLS)]
    Own.backward = staticmethod(lambda ctx, gradient: gradient * 7)
    yield [outcome(step) for _ in range(CALLS)]


def modes_by_turns(compiled):
    w = vector().requires_grad_()
    run = compiled(lambda x: (x * w, torch.ones(2), torch.is_grad_enabled()))
    for _ in range(2):
        yield from calls(run)
        with torch.no_grad():
            yield from calls(run)
        with torch.inference_mode():
            yield from calls(run)
        torch.set_default_dtype(torch.float64)
        yield from calls(run)
        torch.set_default_dtype(torch.float32)
        with torch.device("meta"):
            yield [outcome(lambda: str(run(vector().to("cpu"))[1].device))]
        with torch.autograd.set_detect_anomaly(True):
            yield from calls(run)


def autocast_by_turns(compiled):
    model = nn.Linear(4, 4)
    run = compiled(lambda x: model(x).relu())
    for _ in range(2):
        yield from calls(run)
        with torch.autocast("cpu", torch.bfloat16):
            yield from calls(run)
            with torch.autocast("cpu", enabled=False):
                yield from calls(run)
        with torch.autocast("cpu", torch.float16):
            yield from calls(run)


def modes_that_see_calls(compiled):
    class Counting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))
    seen = []
    run = compiled(lambda x: torch.relu(x) * 2)
    yield from calls(run)
    with Counting():
        yield from calls(run)
    yield len(seen)
    yield from calls(run)


def mode_set_inside_and_left(compiled):
    w = vector().requires_grad_()
    flag = [False]

    def f(x):
        torch.set_grad_enabled(flag[0])
        return x * w
    run = compiled(f)
    try:
        yield from calls(run)
        yield torch.is_grad_enabled()
        flag[0] = True
        yield from calls(run)
        yield torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        yield from calls(run)
        yield torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def determinism_and_precision(compiled):
    run = compiled(lambda x: (
        x * 2, torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()))
    yield from calls(run)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("high")
    try:
        yield from calls(run)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")
    yield from calls(run)


def tensor_replaced_behind_its_name(compiled):
    w = vector()
    run = compiled(lambda x: x * w + w.sum())
    yield from calls(run)
    w.data = torch.ones(4)
    yield from calls(run)
    w.set_(torch.arange(4.0))
    yield from calls(run)
    w.resize_(2, 2)
    yield from calls(run, torch.ones(2))
    w.t_()
    yield from calls(run, torch.ones(2))
    w.requires_grad_()
    yield from calls(run, torch.ones(2))
    w.detach_()
    yield from calls(run, torch.ones(2))


def views_captured_and_written(compiled):
    base = torch.zeros(6)
    left, right = base[:4], base[2:]

    def f(x):
        left.add_(x)
        right.mul_(2)
        return base + 0
    run = compiled(f)
    for k in range(2 * CALLS):
        if k == CALLS:
            base.fill_(1)
        yield outcome(run, vector() / 8), told(base), base._version


def buffer_replaced_by_the_call(compiled):
    model = nn.Module()
    model.register_buffer("mean", torch.zeros(4))

    def f(x):
        model.mean = model.mean * 0.5 + x
        return model.mean * 2
    run = compiled(f)
    for k in range(2 * CALLS):
        if k == CALLS:
            model.mean = torch.ones(4)
        yield outcome(run, vector()), told(model.mean)


def results_of_two_functions_over_one_state(compiled):
    w = torch.zeros(4)

    def write(x):
        w.add_(x)
        return w.clone()

    def read(x):
        return x * w
    first, second = compiled(write), compiled(read)
    for _ in range(2 * CALLS):
        yield outcome(first, vector()), outcome(second, vector())


def function_that_calls_itself(compiled):
    depth = [3]

    def f(x, k=0):
        return x if k >= depth[0] else run(x * 2, k + 1) + 1
    run = compiled(f)
    yield from calls(run)
    depth[0] = 1
    yield from calls(run)


def compiled_inside_of_compiled(compiled):
    k = [2.0]
    inner = compiled(lambda x: x * k[0])
    outer = compiled(lambda x: inner(x) + inner(x + 1))
    yield from calls(outer)
    k[0] = 3.0
    yield from calls(outer)
    yield from calls(inner)


def method_of_many_instances(compiled):
    class Local:
        def __init__(self, k):
            self.k = k

        def scale(self, x):
            return x * self.k
    Local.scale = compiled(Local.scale)
    things = [Local(float(k)) for k in range(1, 4)]
    for k in range(3 * CALLS):
        yield outcome(Local.scale, things[k % 3], vector())
    things[1].k = 50.0
    for k in range(CALLS):
        yield outcome(Local.scale, things[k % 3], vector())


def module_in_training_by_turns(compiled):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    run = compiled(model)
    torch.manual_seed(5)
    for k in range(3 * CALLS):
        model.train(k % 4 < 2 if k >= CALLS else True)
        if k == 2 * CALLS:
            model[1].p = 0.9
        yield outcome(run, vector())
    yield told(torch.rand(2))


def printed_options_of_tensors(compiled):
    w = torch.tensor([1 / 3])
    run = compiled(lambda x: x * len(str(w)))
    yield from calls(run)
    torch.set_printoptions(precision=8)
    try:
        yield from calls(run)
    finally:
        torch.set_printoptions(profile="default")
    yield from calls(run)


def tracing_function_set(compiled):
    run = compiled(lambda x: x * 2)
    seen = []
    yield from calls(run)
    sys.setprofile(lambda frame, event, arg: seen.append(event))
    try:
        found = list(calls(run))
    finally:
        sys.setprofile(None)
    yield found
    yield from calls(run)
