"""Steps of the optimizers against the published formulas, computed by NumPy in float64."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tensocket as torch
from tensocket import optim
from tensocket.errors import ArgumentError
from tensocket.optim import _functional
from tensocket.optim.line_search import Point, strong_wolfe

STEPS = 25
START = np.array([[0.8, -1.2, 0.4], [2.0, -0.3, 1.1]])
CURVATURE = np.array([[1.0, 3.0, 0.2], [0.7, 2.0, 5.0]])


def gradient(x, k):
    """A gradient that depends on the place and on the step."""
    return CURVATURE * x + 0.3 * np.sin(k + np.arange(6).reshape(2, 3))


def sgd(lr=0.001, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    x, velocity = START.copy(), None
    for k in range(STEPS):
        g = (-1 if maximize else 1) * gradient(x, k) + weight_decay * x
        if momentum:
            velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        x = x - lr * g
        yield x


def adam(lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False, decoupled=False):
    x, m, v, largest = START.copy(), np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3))
    for k in range(1, STEPS + 1):
        g = (-1 if maximize else 1) * gradient(x, k - 1)
        if decoupled:
            x = x - lr * weight_decay * x
        else:
            g = g + weight_decay * x
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        largest = np.maximum(largest, v)
        corrected = (largest if amsgrad else v) / (1 - betas[1] ** k)
        x = x - lr * (m / (1 - betas[0] ** k)) / (np.sqrt(corrected) + eps)
        yield x


def adamw(weight_decay=0.01, **options):
    return adam(weight_decay=weight_decay, decoupled=True, **options)


def points(weight_decay=0.0, maximize=False):
    """Pairs of a step's number and the function that gives its gradient at a place."""
    for k in range(STEPS):
        yield k + 1, lambda x, k=k: (-1 if maximize else 1) * gradient(x, k) + weight_decay * x


def nadam(lr=0.002, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=0.004,
          decoupled_weight_decay=False, maximize=False):
    x, m, v, product = START.copy(), 0.0, 0.0, 1.0
    for t, grad in points(0.0 if decoupled_weight_decay else weight_decay, maximize):
        g = grad(x)
        x = x * (1 - lr * weight_decay) if decoupled_weight_decay else x
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        now, then = (betas[0] * (1 - 0.96 ** (s * momentum_decay) / 2) for s in (t, t + 1))
        product = np.float64(np.float32(product * now))
        ahead = then * m / (1 - product * then) + (1 - now) * g / (1 - product)
        x = x - lr * ahead / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield x


def radam(lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False):
    x, m, v = START.copy(), 0.0, 0.0
    limit = 2 / (1 - betas[1]) - 1
    for t, grad in points(0.0 if decoupled_weight_decay else weight_decay):
        g = grad(x)
        x = x * (1 - lr * weight_decay) if decoupled_weight_decay else x
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        corrected, length = m / (1 - betas[0] ** t), limit - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if length > 5:
            r = np.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            corrected = corrected * r * np.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
        x = x - lr * corrected
        yield x


def adamax(lr=0.002, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, maximize=False):
    x, m, u = START.copy(), 0.0, np.zeros((2, 3))
    for t, grad in points(weight_decay, maximize):
        g = grad(x)
        m, u = betas[0] * m + (1 - betas[0]) * g, np.maximum(betas[1] * u, np.abs(g) + eps)
        x = x - lr / (1 - betas[0] ** t) * m / u
        yield x


def adagrad(lr=0.01, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10):
    x, total = START.copy(), initial_accumulator_value
    for t, grad in points(weight_decay):
        g = grad(x)
        total = total + g * g
        x = x - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(total) + eps)
        yield x


def adadelta(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0):
    x, v, u = START.copy(), 0.0, 0.0
    for _, grad in points(weight_decay):
        g = grad(x)
        v = rho * v + (1 - rho) * g * g
        delta = np.sqrt(u + eps) / np.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * delta**2
        x = x - lr * delta
        yield x


def rmsprop(lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    x, v, mean, buffer = START.copy(), 0.0, 0.0, 0.0
    for _, grad in points(weight_decay):
        g = grad(x)
        v, mean = alpha * v + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        buffer = momentum * buffer + g / (np.sqrt(v - mean**2 if centered else v) + eps)
        x = x - lr * buffer
        yield x


def rprop(lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    x, before, size = START.copy(), np.zeros((2, 3)), np.full((2, 3), lr)
    for _, grad in points():
        g = grad(x)
        for i in np.ndindex(2, 3):
            if g[i] * before[i] < 0:
                size[i], g[i] = max(size[i] * etas[0], step_sizes[0]), 0.0
            elif g[i] * before[i] > 0:
                size[i] = min(size[i] * etas[1], step_sizes[1])
        before = g
        x = x - np.sign(g) * size
        yield x


def asgd(lr=0.01, lambd=1e-4, alpha=0.75, weight_decay=0.0, t0=1e6):
    x, eta = START.copy(), np.float64(np.float32(lr))
    for t, grad in points(weight_decay):
        x = x * (1 - lambd * eta) - eta * grad(x)
        eta = np.float64(np.float32(lr / (1 + lambd * lr * t) ** alpha))
        yield x


def adafactor(lr=0.01, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0):
    x, rows, columns = START.copy(), 0.0, 0.0
    floor = np.finfo(np.float64).eps if eps[0] is None else eps[0]
    for t, grad in points():
        g, share = grad(x), t**beta2_decay
        size = max(eps[1], np.sqrt((x**2).mean())) * min(lr, t**-0.5)
        rows = (1 - share) * rows + share * (g**2).mean(1, keepdims=True)
        columns = (1 - share) * columns + share * (g**2).mean(0, keepdims=True)
        update = g / np.sqrt(np.maximum(rows @ columns / max(rows.mean(), floor), floor**2))
        x = x * (1 - lr * weight_decay) - size * update / max(1, np.sqrt((update**2).mean()) / d)
        yield x


CASES = [
    (optim.NAdam, nadam, {}),
    (optim.NAdam, nadam, {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.1, "momentum_decay": 0.1}),
    (optim.NAdam, nadam, {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    (optim.RAdam, radam, {}),
    (optim.RAdam, radam, {"lr": 0.03, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    (optim.RAdam, radam, {"lr": 0.03, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.Adamax, adamax, {}),
    (optim.Adamax, adamax, {"lr": 0.05, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    (optim.Adagrad, adagrad, {}),
    (optim.Adagrad, adagrad, {"lr": 0.3, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    (optim.Adadelta, adadelta, {}),
    (optim.Adadelta, adadelta, {"lr": 0.5, "rho": 0.7, "eps": 1e-3, "weight_decay": 0.1}),
    (optim.RMSprop, rmsprop, {}),
    (optim.RMSprop, rmsprop, {"momentum": 0.8, "weight_decay": 0.1, "alpha": 0.9}),
    (optim.RMSprop, rmsprop, {"momentum": 0.5, "centered": True}),
    (optim.Rprop, rprop, {}),
    (optim.Rprop, rprop, {"lr": 0.1, "etas": (0.3, 1.6), "step_sizes": (0.01, 0.2)}),
    (optim.ASGD, asgd, {}),
    (optim.ASGD, asgd, {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "weight_decay": 0.1}),
    (optim.Adafactor, adafactor, {"eps": (1e-8, 1e-3)}),
    (optim.Adafactor, adafactor, {"lr": 0.2, "eps": (1e-4, 0.1), "d": 2.0, "weight_decay": 0.1}),
    (optim.SGD, sgd, {}),
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.5, "dampening": 0.3, "weight_decay": 0.2}),
    (optim.SGD, sgd, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    (optim.SGD, sgd, {"lr": 0.01, "momentum": 0.9, "maximize": True, "weight_decay": 0.1}),
    (optim.Adam, adam, {}),
    (optim.Adam, adam, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    (optim.Adam, adam, {"lr": 0.1, "amsgrad": True}),
    (optim.Adam, adam, {"lr": 0.05, "maximize": True}),
    (optim.AdamW, adamw, {}),
    (optim.AdamW, adamw, {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True}),
]


@pytest.mark.parametrize(("kind", "formula", "options"), CASES)
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-12), ("float32", 2e-5)])
def test_trajectory(kind, formula, options, dtype, bound):
    parameter = torch.tensor(START, dtype=getattr(torch, dtype), requires_grad=True)
    optimizer = kind([parameter], **options)
    # The product of NAdam's momenta is a float32, whatever the parameters are.
    bound = max(bound, 1e-6) if kind is optim.NAdam else bound
    for k, expected in enumerate(formula(**options)):
        parameter.grad = torch.tensor(gradient(parameter.detach().numpy().astype(np.float64), k), dtype=parameter.dtype)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), expected, atol=bound, rtol=bound)


#: Where the lists of the functions start, if not with zeros like the parameter.
STARTS = {"momentum_buffer_list": lambda options: None if "dampening" in options else np.zeros((2, 3)),
          "mu_products": lambda options: 1.0, "state_steps": lambda options: 0.0, "mus": lambda options: 1.0,
          "state_sums": lambda options: np.full((2, 3), options["initial_accumulator_value"]),
          "step_sizes": lambda options: np.full((2, 3), options["lr"]), "etas": lambda options: options["lr"],
          "row_vars": lambda options: np.zeros((2, 1)), "col_vars": lambda options: np.zeros((1, 3)),
          "variances": lambda options: None}


def parts(options):
    """Options as the functions take them: pairs apart."""
    names = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "eps": ("eps1", "eps2"),
             "step_sizes": ("step_size_min", "step_size_max")}
    for name, value in options.items():
        yield from zip(names[name], value, strict=True) if isinstance(value, tuple) else [(name, value)]


@pytest.mark.parametrize(("kind", "formula", "options"), CASES)
def test_functions_over_lists(kind, formula, options):
    step = getattr(_functional, kind.__name__.lower())
    names = list(inspect.signature(step).parameters)
    parameter = torch.tensor(START, dtype=torch.float64)
    options_of = {**kind([parameter]).defaults, **options}
    given = {name: value for name, value in parts(options_of) if name in names}
    lists = {}
    for name in names[2:names.index("state_steps") + 1 if "state_steps" in names else 3]:
        start = STARTS.get(name, lambda _: np.zeros((2, 3)))(options_of)
        lists[name] = [None if start is None else torch.tensor(start, dtype=torch.float64)]
    for k, expected in enumerate(formula(**options)):
        step([parameter], [torch.tensor(gradient(parameter.numpy(), k))], **lists, **given)
        np.testing.assert_allclose(parameter.numpy(), expected, atol=1e-6, rtol=1e-6)


def test_functions_refuse_what_they_cannot_do():
    x, options = torch.ones(2), {"weight_decay": 0, "momentum": 0, "lr": 1, "dampening": 0, "nesterov": False,
                                 "maximize": False}
    with pytest.raises(ArgumentError, match="gradients are not scaled"):
        _functional.sgd([x], [x], [None], grad_scale=torch.ones(()), **options)
    with pytest.raises(ArgumentError, match="gradients and states are tensors, one for each parameter"):
        _functional.sgd([x], [x, x], [None], **options)
    with pytest.raises(ArgumentError, match="functions take dense gradients"):
        _functional.sgd([x], [x.to_sparse()], [None], **options)


def test_gradients_of_a_real_loss():
    """The same through backward: the loss is a quadratic form."""
    parameter = torch.tensor(START, requires_grad=True)
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)
    x, velocity = START.copy(), np.zeros((2, 3))
    for _ in range(10):
        optimizer.zero_grad()
        (0.5 * torch.tensor(CURVATURE) * parameter * parameter).sum().backward()
        optimizer.step()
        velocity = 0.9 * velocity + CURVATURE * x
        x = x - 0.1 * velocity
    np.testing.assert_allclose(parameter.detach().numpy(), x, rtol=1e-12)


def test_the_average_of_asgd():
    """From step ``t0`` on the average is the mean of the places since."""
    parameter = torch.tensor(START, requires_grad=True)
    optimizer = optim.ASGD([parameter], lr=0.1, t0=4)
    places = []
    for k in range(STEPS):
        parameter.grad = torch.tensor(gradient(parameter.detach().numpy(), k))
        optimizer.step()
        places.append(parameter.detach().numpy().copy())
    np.testing.assert_allclose(optimizer.state[parameter]["ax"].numpy(), np.mean(places[5:], 0), rtol=1e-6)


def test_parameters_of_a_group_are_independent():
    """Parameters that get their first gradient later count their own steps."""
    for kind in (optim.Adam, optim.RAdam, optim.NAdam):
        together = [torch.zeros(2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        alone = [torch.zeros(2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        one, several = kind(together, betas=(0.5, 0.6)), [kind([p], betas=(0.5, 0.6)) for p in alone]
        for k in range(12):
            for index in range(2):
                if k >= 4 * index:
                    together[index].grad = torch.tensor([1.0 + k, index - 3.0], dtype=torch.float64)
                    alone[index].grad = together[index].grad
            one.step()
            for optimizer in several:
                optimizer.step()
        for x, y in zip(together, alone, strict=True):
            assert x.tolist() == y.tolist()


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum_of_rosenbrock(search):
    """The valley of Rosenbrock's function has its minimum at (1, 1)."""
    x = torch.tensor([-0.5, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], lr=1.0 if search else 0.05, max_iter=60 if search else 1500, line_search_fn=search)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        losses.append(loss.item())
        return loss

    assert optimizer.step(closure).item() == losses[0] == 58.5
    np.testing.assert_allclose(x.detach().numpy(), [1.0, 1.0], rtol=1e-4 if search else 1e-3)
    state = optimizer.state[x]
    assert state["func_evals"] == len(losses)


def test_lbfgs_stays_where_gradients_are_zero():
    """A negative tolerance lets it go on; the length of its first step is not a quotient of 0."""
    x = torch.tensor([1.5, -2.0], requires_grad=True)
    optimizer = optim.LBFGS([x], tolerance_grad=-np.inf)
    assert optimizer.step(lambda: torch.tensor([10.0])).tolist() == [10.0]
    assert x.tolist() == [1.5, -2.0]


def test_the_line_search_keeps_the_wolfe_conditions():
    def value(place):
        return np.cos(3 * place) + 0.1 * place**2

    def slope(place):
        return -3 * np.sin(3 * place) + 0.2 * place

    def evaluate(place):
        return Point(place, value(place), None, slope(place))

    for length in (1e-3, 0.1, 1.0, 30.0):
        start = evaluate(0.3)
        found, count = strong_wolfe(lambda place: evaluate(0.3 + place)._replace(place=place), length,
                                    start._replace(place=0.0), 1.0)
        assert found.value <= start.value + 1e-4 * found.place * start.slope
        assert abs(found.slope) <= 0.9 * abs(start.slope)
        assert count < 20


def test_complex_parameters_are_pairs_of_real_ones():
    for kind, options in ((optim.SGD, {"momentum": 0.9}), (optim.Adam, {"amsgrad": True}), (optim.Adagrad, {}),
                          (optim.Rprop, {}), (optim.Adamax, {}), (optim.RMSprop, {"centered": True})):
        z = torch.tensor([1 + 2j, -1 + 0.5j], dtype=torch.complex128, requires_grad=True)
        pairs = torch.tensor([[1.0, 2.0], [-1.0, 0.5]], dtype=torch.float64, requires_grad=True)
        first, second = kind([z], lr=0.1, **options), kind([pairs], lr=0.1, **options)
        for k in range(5):
            z.grad = torch.tensor([0.3 + 1j * k, 1 - 1j], dtype=torch.complex128)
            pairs.grad = torch.view_as_real(z.grad)
            first.step()
            second.step()
        np.testing.assert_allclose(torch.view_as_real(z.detach()).numpy(), pairs.detach().numpy(), rtol=1e-12)
