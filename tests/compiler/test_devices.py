"""Compiled functions and training steps compute on every device what plain ones do, also on several devices at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.execute.elements import elements_reader
from tensocket_compiler.memory.regions import Memory
from tensocket_core.device import open_device, set_stream
from tensocket_plugins.contract.registry import registry

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
F = nn.functional
EXAMPLE = Path(__file__).parents[2] / "examples" / "backend_example"
#: ``toy`` is the example of a backend: it has queues, and no code generator.
DEVICES = ["cpu", "ref", "opencl", "toy"]
CALLS = 6


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    """The name of a device."""
    name = request.param
    if name == "toy":
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(EXAMPLE))
            import tensocket_toy

            registry().add(tensocket_toy, name=name)
            yield name
            registry().remove(name)
        return
    try:
        torch.ones(1, device=name)
    except Exception as error:
        pytest.skip(f"no such device here: {error}")
    yield name


@pytest.fixture
def other(device):
    """A device that is not the host."""
    if device == "cpu":
        pytest.skip("tensors do not move from the host to itself")
    return device


def host(values):
    """All tensors in values as arrays of the host; they are copied."""
    if isinstance(values, (tuple, list)):
        return [x for value in values for x in host(value)]
    return [None if values is None else np.array(values.detach().cpu().numpy())]


def run(make, device, compiled):
    """Call a function; return it, and after each call all that it returned and may have changed."""
    torch.manual_seed(0)
    function, inputs, state = make(device)
    function = torch.compile(function) if compiled else function
    torch.manual_seed(1)
    found = []
    for args in inputs:
        result = function(*args)
        found.append(host([result, [x() if callable(x) and not isinstance(x, torch.Tensor) else x for x in state]]))
    return function, found


def compare(make, device, exact=False):
    """Compare calls of a compiled function with plain ones; return its report."""
    _, plain = run(make, device, compiled=False)
    function, found = run(make, device, compiled=True)
    for step, (wanted, values) in enumerate(zip(plain, found, strict=True)):
        for k, (x, y) in enumerate(zip(wanted, values, strict=True)):
            assert (x is None) is (y is None)
            if x is None:
                continue
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            if exact:
                assert x.tobytes() == y.tobytes(), (step, k)
            else:
                scale = max(1.0, float(np.abs(x).max(initial=0)))
                np.testing.assert_allclose(y, x, 1e-4, 1e-5 * scale, err_msg=f"value {k} of call {step}")
    report = torch.compiler.compiled(function).report()
    assert report.tier == "graph", report
    assert report.hits >= 3, report
    return report


def on(device, *shape):
    """Random numbers on a device."""
    return torch.randn(*shape).to(device)


def simple(function, *shapes):
    """Make a function of tensors of some shapes."""
    return lambda device: (function, [[on(device, *shape) for shape in shapes] for _ in range(CALLS)], [])


def in_place(device):
    """Make a function that writes parts of a captured tensor, through views of it."""
    whole = torch.zeros(6, 3, device=device)
    rows = whole[2:5]

    def function(x):
        rows.mul_(0.5).add_(x[1:4])
        whole[:, 0] = x[:, 1]
        return whole.t()[0] + 1

    return function, [[on(device, 6, 3)] for _ in range(CALLS)], [whole]


def embedding(device):
    """Make a function with the gradient of an embedding."""
    table = nn.Embedding(10, 4).to(device)

    def function(index):
        table.weight.grad = None
        loss = table(index).square().sum()
        loss.backward()
        return loss

    return function, [[torch.randint(0, 10, (6,)).to(device)] for _ in range(CALLS)], [lambda: table.weight.grad]


def sizes(device):
    """Make a function that is called with several sizes."""
    inputs = [[on(device, n, 3)] for n in [4] * 4 + [6] * 4 + [0] * 3 + [4, 6]]
    return (lambda x: x.softmax(-1) * x + x.sum(0)), inputs, []


EXACT = {
    "chain": simple(lambda x, y: ((x * 2 + y).relu() * x.sigmoid()).tanh() - torch.where(x > y, x, y), (33, 7), (7,)),
    "dtypes": simple(lambda x: (x.half() * 2 + 1).float() * (x * 9).to(torch.int32), (33,)),
    "made": simple(lambda x: torch.arange(5, device=x.device) + torch.zeros(5, device=x.device).add_(x), (5,)),
    "random": simple(lambda x: F.dropout(x * 2, 0.3) + torch.rand(20, device=x.device), (20,)),
    "in place": in_place,
}
ROUNDED = {
    "rows": simple(lambda x: ((x * 2).softmax(-1), (x - x.mean(-1, keepdim=True)).square().sum(-1)), (9, 20)),
    "product": simple(lambda x, w, b: (x @ w + b).relu(), (5, 9), (9, 4), (4,)),
    "attention": simple(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *[(2, 2, 6, 4)] * 3),
    "convolution": simple(lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2), (2, 3, 8, 8), (4, 3, 3, 3)),
    "embedding": embedding,
    "sizes": sizes,
}


@pytest.mark.parametrize("name", EXACT)
def test_pointwise_functions(device, name):
    compare(EXACT[name], device, exact=True)


@pytest.mark.parametrize("name", ROUNDED)
def test_functions(device, name):
    compare(ROUNDED[name], device)


def test_a_tape_launches_all_kernels(device):
    if device == "toy":
        pytest.skip("it has no code generator, so that its operators are called")
    function, _ = run(ROUNDED["product"], device, compiled=True)
    statistics = function._compiled.variants[0].runner.statistics
    assert (statistics.tapes, statistics.python) == (1, 0)


# ------------------------------------------------------------------------------------------------------ training steps

def training(optimizer, clip=False):
    """Make whole training steps."""

    def make(device):
        model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
        stepped = optimizer(model.parameters())

        def step(x, labels):
            stepped.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            stepped.step()
            return loss

        inputs = [[on(device, 5, 6), torch.randint(0, 3, (5,)).to(device)] for _ in range(CALLS)]
        return step, inputs, [*model.parameters(), *[lambda p=p: p.grad for p in model.parameters()]]

    return make


STEPS = {
    "SGD": training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "AdamW": training(lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3)),
    "Adam, counting on the device": training(lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3, capturable=True)),
}


@pytest.mark.parametrize("name", STEPS)
def test_training_steps(device, name):
    compare(STEPS[name], device)


def test_clipped_steps(device):
    compare(training(lambda p: torch.optim.SGD(p, lr=0.1), clip=True), device)


def test_batch_norm_updates_its_statistics(device):
    def make(device):
        norm = nn.BatchNorm1d(4).to(device)
        return norm, [[on(device, 6, 4)] for _ in range(CALLS)], list(norm.buffers())

    compare(make, device)


# ------------------------------------------------------------------------------------ numbers from memory of a device

def count_waits(monkeypatch, device):
    """Return a list that grows by one for each copy from a device to the host."""
    runtime, waits = open_device(device).runtime, []
    copy = runtime.copy

    def counting(target, source, stream):
        if type(target) is np.ndarray:
            waits.append(target.nbytes)
        copy(target, source, stream)

    monkeypatch.setattr(runtime, "copy", counting)
    return waits


@pytest.mark.parametrize("device", ["ref", "opencl"], indirect=True)
def test_graphs_wait_for_a_device_less_often_than_eager_steps(device, monkeypatch):
    torch.manual_seed(0)
    step, inputs, _ = STEPS["Adam, counting on the device"](device)
    compiled = torch.compile(step)
    for args in inputs:
        compiled(*args)
    waits = count_waits(monkeypatch, device)
    step(*inputs[0])
    eager = list(waits)
    hits = compiled._compiled.variants[0].hits
    waits.clear()
    compiled(*inputs[0])
    assert compiled._compiled.variants[0].hits == hits + 1
    assert eager[-6:] == [4] * 6  # the count of each parameter
    assert waits[-2:] == [6 * 4, 4]  # whether the counts are equal, then their value
    assert len(waits) < len(eager)


def test_counts_that_begin_to_differ(device):
    def stepped(compiled):
        torch.manual_seed(0)
        step, inputs, state = STEPS["Adam, counting on the device"](device)
        optimizer = step.__closure__[step.__code__.co_freevars.index("stepped")].cell_contents
        function = torch.compile(step) if compiled else step
        for k, args in enumerate(inputs):
            if k == 5:
                next(iter(optimizer.state.values()))["step"].fill_(50)
            function(*args)
        return function, host([state[:6], [x["step"] for x in optimizer.state.values()]])

    _, wanted = stepped(compiled=False)
    function, found = stepped(compiled=True)
    assert wanted[-6:] == [51, 6, 6, 6, 6, 6]
    for x, y in zip(wanted, found, strict=True):
        np.testing.assert_allclose(y, x, 1e-4, 1e-5)
    assert torch.compiler.compiled(function).report().hits == 2  # the fourth and the fifth call


def test_elements_of_several_devices_and_dtypes(other):
    values = [torch.tensor(2.5), torch.tensor(3, device=other), torch.tensor(4.5, device=other),
              torch.arange(6, device=other)[4], torch.tensor(-1.5, dtype=torch.float16, device=other), torch.tensor(7)]
    memory = Memory()
    regions = [memory.region(x._array, x.dtype, device=x._device_state) for x in values]
    assert elements_reader(regions)([x._array for x in values]) == [2.5, 3, 4.5, 4, -1.5, 7]


# ------------------------------------------------------------------------------------------------------ several devices

def moving(function):
    """Make a function of a tensor of the host, and of a device's name."""
    return lambda device: (lambda x: function(x, device), [[torch.randn(5, 3)] for _ in range(CALLS)], [])


def copied(to):
    """Make a function that copies to a tensor of one device from another one."""
    def make(device):
        target = torch.zeros(5, 3, device=device if to == "device" else "cpu")

        def function(x):
            target.copy_(x * 2)
            return target + 1

        inputs = [[on("cpu" if to == "device" else device, 5, 3)] for _ in range(CALLS)]
        return function, inputs, [target]

    return make


def host_number(device):
    """Make a function of tensors of a device, and a number of the host that it changes."""
    number = torch.tensor(2.5)

    def function(x):
        number.add_(1)
        return x * number + (number * 2).sqrt()

    return function, [[on(device, 5, 3)] for _ in range(CALLS)], [number]


MOVING = {
    "to the device": moving(lambda x, device: (x * 3).to(device) * 2 + 1),
    "to the host": simple(lambda x: ((x * 3).cpu(), (x + 1).cpu() * 2, x * 3), (5, 3)),
    "there and back": moving(lambda x, device: ((x * 3).to(device).exp().cpu() + 1).to(device)),
    "random numbers of the host": moving(lambda x, device: x.to(device) + torch.randn(5, 3).to(device)),
    "written on the device": copied("device"),
    "written on the host": copied("host"),
    "a number of the host": host_number,
}


@pytest.mark.parametrize("name", MOVING)
def test_several_devices(other, name):
    compare(MOVING[name], other, exact=True)


def test_gradients_through_both_devices(other):
    def make(device):
        first, second = nn.Linear(3, 4), nn.Linear(4, 2).to(device)

        def function(x):
            for p in (*first.parameters(), *second.parameters()):
                p.grad = None
            loss = second(first(x).relu().to(device)).square().mean()
            loss.backward()
            return loss

        return function, [[torch.randn(5, 3)] for _ in range(CALLS)], [
            lambda p=p: p.grad for p in (*first.parameters(), *second.parameters())]

    compare(make, other)


def test_generators_of_a_program_draw_in_graphs(device):
    generator = torch.Generator(device=device).manual_seed(3)
    function = torch.compile(lambda x: x + torch.rand(4, generator=generator, device=device))
    found = [function(torch.zeros(4, device=device)).tolist() for _ in range(CALLS)]
    generator.manual_seed(3)
    assert found == [torch.rand(4, generator=generator, device=device).tolist() for _ in range(CALLS)]
    assert torch.compiler.compiled(function).report().graph_count == 1


@pytest.mark.parametrize("device", ["opencl", "toy"], indirect=True)
def test_a_stream_waits_for_the_last_run_of_a_graph_on_another_stream(device, monkeypatch):
    function = torch.compile(lambda x: (x @ x).relu() @ x)
    x = on(device, 4, 4)
    wanted = host(function.__wrapped__(x))[0]
    runtime = open_device(device).runtime
    first, second, waiting, found = runtime.create_stream(), runtime.create_stream(), [], []
    wait = type(first).wait

    def noted(stream, event):
        waiting.append(stream)
        wait(stream, event)

    open_device(device).runtime.synchronize()  # the operand is there for all streams
    try:
        for stream in (first, first, first, first, second, second, first):
            set_stream(device, stream)
            if len(found) == 4:
                monkeypatch.setattr(type(first), "wait", noted)
            found.append(function(x))
    finally:
        set_stream(device, runtime.default_stream)
    runtime.synchronize()
    assert waiting == [second, first]
    assert torch.compiler.compiled(function).report().hits == 4
    for result in found:
        assert host(result)[0].tobytes() == wanted.tobytes()
