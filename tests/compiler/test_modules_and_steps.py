"""Usual modules and training steps are not refused, guards hold, and effects are exactly what they write."""

from __future__ import annotations

import re

import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.capture.layout import LAYOUT

from .judge import guard

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")


class Lists(nn.Module):
    """A module with lists and dicts of modules and parameters."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)])
        self.named = nn.ModuleDict({"a": nn.Linear(16, 16)})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(16))])
        self.shifts = nn.ParameterDict({"a": nn.Parameter(torch.ones(16))})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.named["a"](x) * self.scales[0] + self.shifts["a"]


class Attention(nn.Module):
    """A block of a language model."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (4, 4)).transpose(1, 2) for t in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.drop(self.out(y.transpose(1, 2).flatten(-2)))


torch.manual_seed(0)  # the same inputs, whatever was drawn before
WORDS = torch.randn(4, 8, 16)
IMAGES = torch.randn(2, 4, 8, 8)
IDS = torch.randint(0, 9, (4, 8))
MODULES = {
    "Linear": (lambda: nn.Linear(16, 4), WORDS), "Conv2d": (lambda: nn.Conv2d(4, 6, 3), IMAGES),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), IMAGES), "BatchNorm2d eval": (lambda: nn.BatchNorm2d(4).eval(), IMAGES),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4), IMAGES), "LayerNorm": (lambda: nn.LayerNorm(16), WORDS),
    "RMSNorm": (lambda: nn.RMSNorm(16), WORDS), "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGES),
    "Embedding": (lambda: nn.Embedding(9, 5), IDS), "Dropout": (lambda: nn.Dropout(0.5), WORDS),
    "LSTM": (lambda: nn.LSTM(16, 8, batch_first=True), WORDS), "GRU": (lambda: nn.GRU(16, 8), WORDS),
    "RNN": (lambda: nn.RNN(16, 8), WORDS), "LSTM of two layers": (lambda: nn.LSTM(16, 8, 2, dropout=0.1), WORDS),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), WORDS),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2), WORDS),
    "GELU": (lambda: nn.GELU(), WORDS), "SiLU": (lambda: nn.SiLU(), WORDS), "Softmax": (lambda: nn.Softmax(-1), WORDS),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGES), "AvgPool2d": (lambda: nn.AvgPool2d(2), IMAGES),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(1), IMAGES), "Flatten": (lambda: nn.Flatten(), IMAGES),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 2, 2), IMAGES), "PReLU": (lambda: nn.PReLU(), WORDS),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), IMAGES), "Lists": (Lists, WORDS), "Attention": (Attention, WORDS),
    "Sequential": (lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), WORDS),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(1), IMAGES), "PixelShuffle": (lambda: nn.PixelShuffle(2), IMAGES),
}
OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adamax", "RAdam", "Adadelta", "Adafactor")


def check(function, args=()):
    """Observe a call, check that guards hold over more calls, and return the paths of effects."""
    guards, effects = guard(function, args)
    assert not guards.refusals, [str(refusal) for refusal in guards.refusals]
    for _ in range(5):
        function(*args)
        found = guards.changed()
        assert found is None, found
    return {effect.path for effect in effects}


@pytest.mark.parametrize("name", MODULES)
def test_forward_of_modules(name):
    make, x = MODULES[name]
    assert check(make(), (x,)) == set()


def test_attention_of_three_arguments():
    m = nn.MultiheadAttention(16, 4, batch_first=True)
    assert check(m, (WORDS, WORDS, WORDS)) == set()


@pytest.mark.parametrize("name", MODULES)
def test_backward_of_modules(name):
    make, x = MODULES[name]
    model = make()

    def f():
        for parameter in model.parameters():
            parameter.grad = None
        y = model(x)
        y = y[0] if isinstance(y, tuple) else y
        if y.requires_grad:
            y.sum().backward()
    assert check(f) == {re.sub(r"\.(\d+)", r"[\1]", f"model.{name}.grad") for name, _ in model.named_parameters()}


@pytest.mark.parametrize("loss", ["MSELoss", "L1Loss", "SmoothL1Loss", "BCEWithLogitsLoss", "HuberLoss"])
def test_losses(loss):
    criterion = getattr(nn, loss)()
    assert check(lambda: criterion(WORDS, torch.ones_like(WORDS))) == set()


def test_cross_entropy():
    criterion, logits, labels = nn.CrossEntropyLoss(), torch.randn(4, 5), torch.tensor([0, 1, 2, 3])
    assert check(lambda: criterion(logits, labels)) == set()


def make_step(name, scheduled=False, **options):
    model = nn.Linear(4, 4)
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)

    def step():
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if scheduled:
            scheduler.step()
    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps(name):
    assert check(make_step(name)) == {"model.weight.grad", "model.bias.grad"}


def test_training_step_with_momentum():
    assert check(make_step("SGD", lr=0.1, momentum=0.9)) == {"model.weight.grad", "model.bias.grad"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps_with_a_scheduler(name):
    # The step of the schedule runs apart.
    assert check(make_step(name, scheduled=True)) == {"model.weight.grad", "model.bias.grad"}


def test_gradient_clipping():
    model = nn.Linear(4, 4)

    def f():
        model.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
    assert check(f) == {"model.weight.grad", "model.bias.grad"}


@pytest.mark.parametrize("block", ["autocast", "no_grad", "enable_grad", "inference_mode"])
def test_blocks(block):
    model = nn.Linear(16, 4)

    def f(x):
        with torch.autocast("cpu") if block == "autocast" else getattr(torch, block)():
            return model(x)
    assert check(f, (WORDS,)) == set()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant):
    model = nn.Linear(16, 4)

    def f(x):
        model.zero_grad()
        x = x.clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert check(f, (WORDS,)) == {"model.weight.grad", "model.bias.grad"}


def test_accumulated_gradients_are_no_effect_on_slots():
    """The same tensor holds the sum: only its elements change, which are data."""
    model = nn.Linear(4, 4)
    assert check(lambda: model(torch.ones(2, 4)).sum().backward()) == set()


def test_exponential_moving_average():
    model, average = nn.Linear(4, 4), nn.Linear(4, 4)

    @torch.no_grad()
    def f():
        for target, source in zip(average.parameters(), model.parameters(), strict=True):
            target.lerp_(source, 0.1)
    assert check(f) == set()


def test_evaluation_counts_in_python_are_effects():
    model = nn.Linear(4, 4)
    stats = {"calls": 0}

    def f(x):
        stats["calls"] += 1
        return model(x)
    assert check(f, (torch.ones(4),)) == {"stats['calls']"}
