"""Eight threads at once: shared leaves, modes that differ by thread, caches that all fill and somebody clears."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.autograd.graph import saved_tensors_hooks
from tensocket_core.device import open_device, thread_streams
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_core.dispatch.registry import clear_tables
from tensocket_core.launch import entries as native
from tensocket_core.recording import RECORDING_SLOW_PATHS
from tensocket_operators.autograd import Function
from tensocket_operators.transforms import grad, jvp, vmap
from tensocket_plugins.contract.plans import ProgramPlan

COUNT, SECONDS = 8, 120


@pytest.fixture(autouse=True)
def eager_switching() -> Iterator[None]:
    """Threads take turns after a few instructions; nothing of theirs may stay."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
    assert ACTIVE == []
    assert RECORDING_SLOW_PATHS == []
    assert (STATE.include, STATE.exclude, STATE.function_modes, STATE.transforms) == (0, 0, (), ())
    assert thread_streams() is None


def run_threads(*bodies: Callable[[], None], device: str = "ref") -> None:
    """Run all at once; each begins on its own with the default device."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(bodies), timeout=SECONDS)

    def run(body: Callable[[], None]) -> None:
        try:
            torch.set_default_device(device)
            barrier.wait()
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not [thread for thread in threads if thread.is_alive()], "threads wait for each other"
    if errors:
        raise errors[0]


def run_indexed(body: Callable[[int], None], device: str = "ref") -> None:
    run_threads(*[lambda k=k: body(k) for k in range(COUNT)], device=device)  # type: ignore[misc]


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


# -------------------------------------------------------------------------------------------------------------- modes


class Doubled(TorchFunctionMode):
    """Doubles what ``mul`` returns, and counts calls."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[threading.get_ident()] += 1
        result = func(*args, **(kwargs or {}))
        return result + result if func is torch.mul else result


class Tripled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        assert ctx.saved_tensors[0].tolist() == [1.0, 2.0]
        return gradient * 3


def plain(x: Any) -> float:
    y = x * x
    assert y.requires_grad
    y.sum().backward()
    return 2.0


def without_recording(x: Any) -> float:
    with torch.no_grad():
        y = x * x
        assert not y.requires_grad
        with torch.enable_grad():
            (x * 5).sum().backward()
        assert not torch.is_grad_enabled()
    assert y.tolist() == [1.0, 4.0]
    return 0.0


def inferring(x: Any) -> float:
    with torch.inference_mode():
        y = x * 2
        y.add_(1)
        assert torch.is_inference(y)
        assert not y.requires_grad
    assert y.tolist() == [3.0, 5.0]
    assert torch.is_inference_mode_enabled() is False
    return 0.0


def doubling(x: Any) -> float:
    mode = Doubled()
    with mode:
        y = torch.mul(x, x)
    y.sum().backward()
    assert y.tolist() == [2.0, 8.0]
    assert mode.seen == {threading.get_ident(): 1}
    return 4.0


def elsewhere(x: Any) -> float:
    with torch.device("ref:1"):
        there = torch.ones(2, dtype=torch.float64)
        assert str(there.device) == "ref:1"
        assert (there + x.to("ref:1")).tolist() == [2.0, 3.0]
    assert str(torch.ones(1).device) == "ref:0"
    return 0.0


def packing(x: Any) -> float:
    packed: list[Any] = []
    with saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t, lambda t: t * 10):
        y = x.square()
    assert packed == [[1.0, 2.0]]
    y.sum().backward()
    return 20.0


def on_a_stream(x: Any) -> float:
    stream = torch.Stream("ref:0")
    with stream:
        y = x * x
        assert open_device("ref:0").stream is stream or open_device("ref:0").stream == torch.current_stream("ref:0")
    y.sum().backward()
    return 2.0


def of_a_function(x: Any) -> float:
    y = Tripled.apply(x)
    y.sum().backward()
    return 0.0


def transforming(x: Any) -> float:
    own = x.detach()
    assert grad(lambda t: (t**3).sum())(own).tolist() == [3.0, 12.0]
    assert vmap(lambda t: t * 2)(own).tolist() == [2.0, 4.0]
    assert jvp(torch.square, (own,), (own,))[1].tolist() == [2.0, 8.0]
    assert vmap(grad(lambda t: t**4))(own).tolist() == [4.0, 32.0]
    return 0.0


#: Each adds its multiple of x to the gradient of the leaf x, and a constant.
MODES = [plain, without_recording, inferring, doubling, elsewhere, packing, on_a_stream, of_a_function, transforming]
CONSTANT = {without_recording: 5.0, of_a_function: 3.0}


def test_modes_belong_to_their_thread() -> None:
    shared, values, rounds = leaf([1.0, 2.0]), np.array([1.0, 2.0]), 12

    def body(index: int) -> None:
        own = leaf([1.0, 2.0])
        expected = np.zeros(2)
        for step in range(rounds):
            mode = MODES[(index + step) % len(MODES)]
            for x in (shared, own):
                factor = mode(x)
            expected += factor * values + CONSTANT.get(mode, 0.0)
            assert own.grad is None or own.grad.tolist() == expected.tolist()
        totals.append(expected)

    totals: list[Any] = []
    run_indexed(body)
    assert len(totals) == COUNT
    assert shared.grad.tolist() == sum(totals).tolist()


def test_one_mode_object_in_many_threads() -> None:
    """The modes that a thread enters and leaves are its own, also by the same object and inside others."""
    mode = Doubled()
    x = torch.ones(2)

    def body(index: int) -> None:
        for _ in range(30):
            if index % 2:
                with Doubled() as outer, mode:
                    assert torch.mul(x, x).tolist() == [4.0, 4.0]
                    assert STATE.function_modes == (outer, mode)
            else:
                with mode:
                    assert torch.mul(x, x).tolist() == [2.0, 2.0]
                    assert STATE.function_modes == (mode,)
            assert STATE.function_modes == ()

    run_indexed(body)


def test_decorated_functions_in_many_threads() -> None:
    x = leaf([1.0])

    @torch.no_grad()
    def quiet(depth: int) -> bool:
        return (x * 2).requires_grad or (depth > 0 and quiet(depth - 1))

    @torch.inference_mode()
    def inferred() -> bool:
        return torch.is_inference(x * 2)

    def body(index: int) -> None:
        for _ in range(40):
            assert not quiet(2)
            assert inferred()
            assert (x * 2).requires_grad

    run_indexed(body)


def test_modes_end_with_their_thread() -> None:
    """A thread that leaves a mode on takes it with it."""
    stream = torch.Stream("ref:0")

    def body(index: int) -> None:
        if index % 2:
            torch.set_grad_enabled(False)
        else:
            torch.set_stream("ref:0", stream)
        torch.set_default_device("ref:1")

    run_indexed(body)
    gc.collect()
    assert ACTIVE == RECORDING_SLOW_PATHS == []
    assert torch.is_grad_enabled()


# -------------------------------------------------------------------------------------------------------------- hooks


def test_hooks_are_added_run_and_removed_at_once() -> None:
    shared = leaf([1.0, 2.0])
    calls: Counter[str] = Counter()
    lock, rounds = threading.Lock(), 15

    def note(name: str) -> None:
        with lock:
            calls[name] += 1

    handle = shared.register_hook(lambda gradient: note("leaf"))
    after = shared.register_post_accumulate_grad_hook(lambda x: note("after"))

    def body(index: int) -> None:
        for _ in range(rounds):
            other = shared.register_hook(lambda gradient: None)
            y = shared * (index + 1)
            y.retain_grad()
            y.register_hook(lambda gradient: gradient * 2)
            y.grad_fn.register_prehook(lambda gradients: note("node"))
            y.sum().backward()
            assert y.grad.tolist() == [2.0, 2.0]
            other.remove()

    run_indexed(body)
    total = COUNT * rounds
    assert calls == {"leaf": total, "after": total, "node": total}
    assert shared.grad.tolist() == [2.0 * rounds * sum(range(1, COUNT + 1))] * 2
    handle.remove()
    after.remove()


def test_threads_inside_of_a_pass_back() -> None:
    """A hook may wait for threads that go back themselves."""
    inner, x = leaf([3.0, 3.0]), leaf([1.0, 1.0])

    def hook(gradient: Any) -> None:
        run_threads(*[lambda: (inner * inner).sum().backward() for _ in range(4)])

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert inner.grad.tolist() == [24.0, 24.0]
    assert x.grad.tolist() == [2.0, 2.0]


# -------------------------------------------------------------------------------------------------------------- caches

SIZE = 3000  # above what goes through NumPy directly
VALUES = np.linspace(-1.0, 1.0, SIZE).reshape(50, 60)
OPERATORS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x.tanh() + x, lambda v: np.tanh(v) + v),
    (lambda x: x.sum(1), lambda v: v.sum(1)),
    (lambda x: x[:, ::2].exp(), lambda v: np.exp(v[:, ::2])),
    (lambda x: x.t().contiguous().amax(0), lambda v: v.max(1)),
    (lambda x: x.softmax(-1), lambda v: np.exp(v) / np.exp(v).sum(-1, keepdims=True)),
    (lambda x: (x > 0).sum(), lambda v: (v > 0).sum()),
    (lambda x: torch.where(x > 0, x, x * x), lambda v: np.where(v > 0, v, v * v)),
    (lambda x: x.clone().mul_(2).sub_(1), lambda v: v * 2 - 1),
    (lambda x: torch.cat([x, x[:1]]).sigmoid(), lambda v: 1 / (1 + np.exp(-np.concatenate([v, v[:1]])))),
    (lambda x: x.mean((0, 1)) + x.to(torch.int64).sum(), lambda v: v.mean() + v.astype(int).sum()),
]


@pytest.fixture
def cold(device: str) -> Iterator[None]:
    """The device as if nothing had run."""
    state = open_device(device)
    kept = [(cache, dict(cache)) for cache in (state.programs, state.native_entries)]
    for cache, _ in kept:
        cache.clear()
    clear_tables()
    yield
    for cache, before in kept:
        cache.update(before)
    clear_tables()


@pytest.mark.usefixtures("cold")
def test_cold_caches_fill_at_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program is compiled once, whoever asks first; a ninth thread keeps forgetting closures."""
    state = open_device(device)
    built: Counter[str] = Counter()
    compile_ir, compile_plan = type(state.runtime).compile_ir, type(state.runtime).compile_plan

    def counted(self: Any, program: Any) -> Any:
        built[repr(program)] += 1
        return compile_ir(self, program)

    def counted_plan(self: Any, plan: Any, next_path: Any) -> Any:
        made = compile_plan(self, plan, next_path)
        built.update([plan.text] if type(plan) is ProgramPlan and made is not None else [])
        return made

    monkeypatch.setattr(type(state.runtime), "compile_ir", counted)
    monkeypatch.setattr(type(state.runtime), "compile_plan", counted_plan)
    done = threading.Event()

    def body(index: int) -> None:
        x = torch.tensor(VALUES)
        for turn in range(2):
            for k in range(len(OPERATORS)):
                run, reference = OPERATORS[(k + index * (1 if turn else 3)) % len(OPERATORS)]
                found = np.array(run(x).tolist())
                np.testing.assert_allclose(found, reference(VALUES), rtol=1e-12, atol=1e-12)

    def forget() -> None:
        while not done.wait(1e-3):
            clear_tables()

    clearing = threading.Thread(target=forget, daemon=True)
    clearing.start()
    try:
        run_indexed(body, device)
    finally:
        done.set()
        clearing.join(SECONDS)
    assert max(built.values(), default=1) == 1
    assert bool(built) == (state.runtime.target is not None)


@pytest.mark.usefixtures("cold")
def test_gradients_with_cold_caches(device: str) -> None:
    shared = torch.tensor(VALUES, requires_grad=True)
    rounds = 2

    def body(index: int) -> None:
        own = torch.tensor(VALUES[:, :1] + index, requires_grad=True)
        for _ in range(rounds):
            (shared.sin() * own).sum().backward()
        np.testing.assert_allclose(np.array(own.grad.tolist())[:, 0], rounds * np.sin(VALUES).sum(1), rtol=1e-10)

    run_indexed(body, device)
    factor = sum(VALUES[:, :1] + k for k in range(COUNT))
    np.testing.assert_allclose(np.array(shared.grad.tolist()), rounds * factor * np.cos(VALUES), rtol=1e-10)


@pytest.mark.skipif(not torch.is_available("cpu"), reason="native entries are the CPU backend's")
def test_operators_are_promoted_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promotion clears tables under the feet of callers; results do not change, and every operator arrives."""
    state = open_device("cpu")
    before = dict(state.native_entries)
    state.native_entries.clear()
    monkeypatch.setattr(native, "_CALLS", 60)
    clear_tables()
    values = np.arange(-6.0, 6.0).reshape(3, 4)
    operators = {
        "add": (lambda x: x + x, values + values), "mul": (lambda x: x * x, values * values),
        "sub": (lambda x: x - 1.5, values - 1.5), "neg": (lambda x: -x, -values), "abs": (abs, np.abs(values)),
        "relu": (lambda x: x.relu(), values.clip(0)), "lt": (lambda x: x < 0, values < 0),
        "floor": (lambda x: (x / 4).floor(), np.floor(values / 4)),
    }

    def body(index: int) -> None:
        dtype = (torch.float32, torch.float64)[index % 2]
        x = torch.tensor(values, dtype=dtype)
        names = [*operators]
        for turn in range(400):
            run, expected = operators[names[(turn + index) % len(names)]]
            assert run(x).tolist() == expected.tolist()
            if turn % 97 == index:
                clear_tables()

    try:
        run_indexed(body, "cpu")
        # Without threads that clear tables, what is called often enough is promoted.
        for name, (run, expected) in operators.items():
            x = torch.tensor(values, device="cpu")
            for _ in range(200):
                assert run(x).tolist() == expected.tolist()
            assert not native.ENABLED or any(key[0] == name for key in state.native_entries), name
    finally:
        monkeypatch.undo()
        state.native_entries.update(before)
        clear_tables()


# ------------------------------------------------------------------------------------------------- what threads share


def test_memory_is_counted_right(device: str) -> None:
    def body(index: int) -> None:
        kept: list[Any] = []
        for step in range(40):
            kept.append(torch.ones(50 + index) * step)
            if len(kept) > 5:
                assert kept.pop(0).sum().item() == (step - 5) * (50 + index)

    torch.ones(2) * 2
    gc.collect()
    before = torch.memory_stats(device)
    run_indexed(body, device)
    gc.collect()
    after = torch.memory_stats(device)
    assert after["allocated"] == before["allocated"]
    assert after["allocations"] - before["allocations"] == after["frees"] - before["frees"]


def test_no_random_number_is_drawn_twice(device: str) -> None:
    torch.manual_seed(3)
    drawn: list[float] = []
    lock, rounds = threading.Lock(), 20

    def body(index: int) -> None:
        for _ in range(rounds):
            values = torch.rand(8, dtype=torch.float64).tolist()
            with lock:
                drawn.extend(values)

    run_indexed(body, device)
    torch.manual_seed(3)
    alone = [value for _ in range(COUNT * rounds) for value in torch.rand(8, dtype=torch.float64).tolist()]
    assert sorted(drawn) == sorted(alone)
    assert len(set(drawn)) == 8 * COUNT * rounds


def test_the_ledger_counts_every_use() -> None:
    torch.reset_fallback_ledger()
    x = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
    x.det()
    once = sum(record.count for record in torch.fallback_ledger())
    assert once > 0
    torch.reset_fallback_ledger()

    def body(index: int) -> None:
        for _ in range(20):
            assert x.det().item() == 8.0

    run_indexed(body)
    assert sum(record.count for record in torch.fallback_ledger()) == once * COUNT * 20
    torch.reset_fallback_ledger()
