"""Programs in scripts that go on between calls, in ways which change nothing for the function: no false alarms."""

from __future__ import annotations

import collections
import gc
import sys
import threading
import types

import tensocket as torch
from tensocket import nn

STEP = 0
RATE = 0.5
TABLE = {"a": 1.0}


def _scaled():
    """A function, and its change."""
    box = types.SimpleNamespace(k=2.0)
    return (lambda x: x * box.k), lambda: setattr(box, "k", 3.0), box


def other_global_rebound():
    function, change, _ = _scaled()

    def f(x):
        return function(x) * TABLE["a"]

    def idle():
        global STEP
        STEP += 1
    yield f, change, idle


def global_rebound_to_an_equal_value():
    def change():
        global RATE
        RATE = 0.25

    def idle():
        global RATE
        RATE = sum([0.25, 0.25])
    yield (lambda x: x * RATE), change, idle
    globals()["RATE"] = 0.5


def global_created_and_deleted():
    def idle():
        globals()["PASSING"] = object()
        del globals()["PASSING"]
    yield (lambda x: x * TABLE["a"]), lambda: TABLE.update(a=2.0), idle
    TABLE["a"] = 1.0


def many_globals_created():
    def idle():
        for _ in range(50):
            globals()[f"created_{len(globals())}"] = 1
    yield (lambda x: x * TABLE["a"]), lambda: TABLE.update(a=2.0), idle
    TABLE["a"] = 1.0


def attribute_set_to_an_equal_value():
    function, change, box = _scaled()
    yield function, change, lambda: setattr(box, "k", sum([1.0, 1.0]))


def other_attribute_set():
    function, change, box = _scaled()
    yield function, change, lambda: setattr(box, "other", object())


def attribute_of_trainer_counted():
    class Trainer:
        def __init__(self):
            self.model, self.steps, self.losses = nn.Linear(4, 4), 0, []

        def run(self, x):
            return self.model(x)
    trainer = Trainer()

    def idle():
        trainer.steps += 1
        trainer.losses.append(1.0)
    yield trainer.run, lambda: trainer.model.register_parameter("bias", None), idle


def other_instance_of_the_class():
    class Local:
        def __init__(self):
            self.k = 2.0
    thing = Local()

    def idle():
        other = Local()
        other.k = other.extra = 3.0
    yield (lambda x: x * thing.k), lambda: setattr(thing, "k", 3.0), idle


def other_attribute_of_the_class():
    class Local:
        k = 2.0
        other = 0
    yield (lambda x: x * Local.k), lambda: setattr(Local, "k", 3.0), lambda: setattr(Local, "other", object())


def subclass_defined():
    class Local:
        k = 2.0
    yield (lambda x: x * Local().k), lambda: setattr(Local, "k", 3.0), lambda: type("Other", (Local,), {})


def cell_set_to_an_equal_value():
    k = 2.0

    def change():
        nonlocal k
        k = 3.0

    def idle():
        nonlocal k
        k = sum([1.0, 1.0])
    yield (lambda x: x * k), change, idle


def item_set_to_an_equal_value():
    items = [2.0]
    yield (lambda x: x * items[0]), lambda: items.__setitem__(0, 3.0), lambda: items.__setitem__(0, sum([1.0, 1.0]))


def dict_item_set_to_an_equal_value():
    table = {"a": 2.0}
    yield (lambda x: x * table["a"]), lambda: table.update(a=3.0), lambda: table.update(a=sum([1.0, 1.0]))


def tuple_set_to_an_equal_one():
    box = types.SimpleNamespace(size=(2, 3))

    def idle():
        box.size = tuple(sorted([3, 2]))
    yield (lambda x: x * box.size[0]), lambda: setattr(box, "size", (3, 3)), idle


def list_grown_and_cut():
    items = [2.0]

    def idle():
        items.extend(range(100))
        del items[1:]
    yield (lambda x: x * items[0]), lambda: items.__setitem__(0, 3.0), idle


def set_grown_and_cut():
    members = {1, 2}

    def idle():
        members.add(100)
        members.remove(100)
    yield (lambda x: x * len(members)), lambda: members.add(3), idle


def dict_grown_and_cut():
    table = {"a": 2.0}

    def idle():
        table["b"] = 1.0
        del table["b"]
    yield (lambda x: x * table["a"]), lambda: table.update(a=3.0), idle


def modules_imported():
    function, change, _ = _scaled()

    def idle():
        sys.modules.pop("colorsys", None)
        __import__("colorsys")

    def f(x):
        import math
        return function(x) * math.pi
    yield f, change, idle


def collection_of_garbage():
    function, change, _ = _scaled()
    yield function, change, gc.collect


def other_thread():
    function, change, _ = _scaled()

    def idle():
        thread = threading.Thread(target=lambda: torch.ones(4).relu())
        thread.start()
        thread.join()
    yield function, change, idle


def other_model_trained():
    m, other = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.Adam(other.parameters())

    def idle():
        optimizer.zero_grad()
        other(torch.ones(4)).sum().backward()
        optimizer.step()
    yield m, m.double, idle


def parameters_modified_in_place():
    m = nn.Linear(4, 4)

    def idle():
        with torch.no_grad():
            m.weight.add_(1.0)
            m.bias.data.mul_(2.0)
    yield m, lambda: setattr(m, "bias", None), idle


def parameters_loaded():
    m = nn.Linear(4, 4)
    state = {name: value.clone() for name, value in m.state_dict().items()}
    yield m, lambda: setattr(m, "bias", None), lambda: m.load_state_dict(state)


def model_called_with_other_sizes():
    m = nn.Linear(4, 4)
    yield m, lambda: setattr(m, "bias", None), lambda: m(torch.ones(7, 4))


def model_evaluated():
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def idle():
        m.eval()
        with torch.no_grad():
            m(torch.ones(4))
        m.train()
    yield m, m.eval, idle


def gradients_of_parameters():
    m = nn.Linear(4, 4)

    def idle():
        m(torch.ones(4)).sum().backward()
        m.zero_grad()
    yield m, lambda: setattr(m, "bias", None), idle


def requires_gradient_toggled():
    m = nn.Linear(4, 4)

    def idle():
        m.requires_grad_(False)
        m.requires_grad_(True)
    yield m, lambda: m.requires_grad_(False), idle


def hook_added_and_removed():
    m = nn.Linear(4, 4)
    def change():
        m.register_forward_hook(lambda *given: given[2] * 2)
    yield m, change, lambda: m.register_forward_hook(print).remove()


def seeds_set():
    function, change, _ = _scaled()
    yield function, change, lambda: torch.manual_seed(1)


def random_numbers_drawn():
    m = nn.Dropout(0.5)
    yield (lambda x: m(x) * 0), lambda: setattr(m, "p", 1.0) or m.register_forward_hook(lambda *given: 1.0), \
        lambda: torch.rand(3)


def blocks_entered_and_left():
    m = nn.Linear(4, 4)

    def idle():
        with torch.no_grad(), torch.autocast("cpu"), torch.inference_mode():
            torch.ones(3) * 2
    yield m, lambda: setattr(m, "bias", None), idle


def default_dtype_set_and_reset():
    def idle():
        torch.set_default_dtype(torch.float64)
        torch.set_default_dtype(torch.float32)
    yield (lambda x: x * torch.ones(4)), lambda: torch.set_default_dtype(torch.float64), idle
    torch.set_default_dtype(torch.float32)


def views_made():
    w = torch.ones(4, 4)
    yield (lambda x: x * w), lambda: w.resize_(4), lambda: (w[0], w.t(), w.detach())


def learning_rate_set_to_an_equal_value():
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    def f(x):
        with torch.no_grad():
            w.fill_(1.0)
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach().clone()

    def idle():
        for group in optimizer.param_groups:
            group["lr"] = 0.25 + len(optimizer.param_groups) * 0.25
    yield f, lambda: optimizer.param_groups[0].update(lr=0.25), idle


def function_defined_again():
    function, change, _ = _scaled()

    def idle():
        globals()["_passing"] = lambda x: x
    yield (lambda x: function(x)), change, idle


def ordered_dict_read():
    table = collections.OrderedDict(a=1.0, b=2.0)
    yield (lambda x: x * table["a"]), lambda: table.update(a=5.0), lambda: (list(table), table.get("b"), len(table))
