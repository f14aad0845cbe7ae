"""Scripts over everything around a function: modules, globals, patches, modes, threads, clocks, files, warnings."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import contextvars
import importlib
import linecache
import os
import random
import sys
import tempfile
import threading
import time
import types
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np

import tensocket as torch
from tensocket.nn import functional as F

from .scripts import CALLS, calls, outcome, told, vector

SCALE = 2.0


def _scaled(x):
    return x * SCALE


@contextlib.contextmanager
def _module(name, **values):
    """Make a module of a program for a block."""
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    try:
        yield module
    finally:
        sys.modules.pop(name, None)


def global_deleted_and_made_again(compiled):
    run = compiled(_scaled)
    space = globals()
    yield from calls(run)
    del space["SCALE"]
    yield from calls(run)
    space["SCALE"] = 3.0
    yield from calls(run)
    space["SCALE"] = 2.0
    yield from calls(run)


def global_hidden_by_a_builtin(compiled):
    space = {"__builtins__": builtins}
    exec("def f(x): return x * KAPPA", space)
    run = compiled(space["f"])
    builtins.KAPPA = 2.0
    try:
        yield from calls(run)
        space["KAPPA"] = 3.0
        yield from calls(run)
        del space["KAPPA"]
        builtins.KAPPA = 5.0
        yield from calls(run)
    finally:
        del builtins.KAPPA
    yield from calls(run)


def function_defined_by_text_again(compiled):
    space = {}
    exec("def g(x): return x * 2\ndef f(x): return g(x) + 1", space)
    run = compiled(space["f"])
    yield from calls(run)
    exec("def g(x): return x * 3", space)
    yield from calls(run)
    exec("def h(x): return g(x) + 100", space)
    space["f"].__code__ = space["h"].__code__
    yield from calls(run)


def local_variables_listed(compiled):
    k = 2.0

    def f(x):
        j = k + 1
        return x * sum(v for n, v in locals().items() if n != "x") + j
    run = compiled(f)
    yield from calls(run)
    k = 3.0
    yield from calls(run)


def module_exchanged_in_the_table(compiled):
    with _module("exchanged", k=2.0):
        def f(x):
            import exchanged
            return x * exchanged.k
        run = compiled(f)
        yield from calls(run)
        with _module("exchanged", k=3.0):
            yield from calls(run)
        yield from calls(run)
        sys.modules["exchanged"] = types.SimpleNamespace(k=7.0)
        yield from calls(run)
    yield from calls(run)


def name_imported_from_a_module(compiled):
    with _module("provider", scale=lambda x: x * 2) as module:
        def f(x):
            from provider import scale
            return scale(x)
        run = compiled(f)
        yield from calls(run)
        module.scale = lambda x: x * 3
        yield from calls(run)
        del module.scale
        yield from calls(run)


def module_named_by_data(compiled):
    with _module("plug_a", k=2.0) as first, _module("plug_b", k=3.0):
        options = {"plug": "".join(["plug", "_a"])}
        run = compiled(lambda x: x * sys.modules[options["plug"]].k)
        yield from calls(run)
        first.k = 5.0
        yield from calls(run)
        options["plug"] = "plug_b"
        yield from calls(run)


def module_imported_by_a_computed_name(compiled):
    with _module("plug_c", k=2.0) as module:
        parts = ["plug", "c"]
        run = compiled(lambda x: x * importlib.import_module("_".join(parts)).k)
        yield from calls(run)
        module.k = 5.0
        yield from calls(run)


def module_looked_up_by_a_computed_name(compiled):
    parts = ["plug", "d"]

    def f(x):
        found = sys.modules.get("_".join(parts))
        return x if found is None else x * found.k
    run = compiled(f)
    yield from calls(run)
    with _module("plug_d", k=2.0) as module:
        yield from calls(run)
        module.k = 5.0
        yield from calls(run)
    yield from calls(run)


def number_of_modules(compiled):
    run = compiled(lambda x: x * (len(sys.modules) - first))
    first = len(sys.modules) - 1
    yield from calls(run)
    with _module("one_more"):
        yield from calls(run)
    yield from calls(run)


def module_with_getattr(compiled):
    with _module("lazy") as module:
        module.__getattr__ = lambda name: 2.0
        run = compiled(lambda x: x * module.k)
        yield from calls(run)
        module.__getattr__ = lambda name: 3.0
        yield from calls(run)
        module.k = 4.0
        yield from calls(run)


def module_of_another_class(compiled):
    class Own(types.ModuleType):
        @property
        def k(self):
            return 3.0
    with _module("classy") as module:
        module.__dict__["k"] = 2.0
        run = compiled(lambda x: x * module.k)
        yield from calls(run)
        module.__class__ = Own
        yield from calls(run)


def module_reloaded(compiled):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reloaded_module.py"
        path.write_text("K = 2.0\ndef scale(x):\n    return x * K\n")
        sys.path.insert(0, folder)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            module = importlib.import_module("reloaded_module")
            run = compiled(lambda x: module.scale(x))
            yield from calls(run)
            path.write_text("K = 3.0\ndef scale(x):\n    return x * K + 1\n")
            importlib.invalidate_caches()
            importlib.reload(module)
            yield from calls(run)
        finally:
            sys.path.remove(folder)
            sys.modules.pop("reloaded_module", None)
            sys.dont_write_bytecode = before
            linecache.checkcache()


def clock_replaced_by_a_function(compiled):
    now = [2.0]
    with patch.object(time, "time", lambda: now[0]):
        run = compiled(lambda x: x * time.time())
        yield from calls(run)
        now[0] = 3.0
        yield from calls(run)


def clock_that_runs(compiled):
    ticks = iter(range(1, 1000))
    with patch.object(time, "monotonic", lambda: next(ticks)):
        run = compiled(lambda x: x * time.monotonic())
        yield from calls(run)
        yield from calls(run)


def environment_changes(compiled):
    os.environ["TENSOCKET_SCRIPT"] = "2"
    try:
        run = compiled(lambda x: x * float(os.environ.get("TENSOCKET_" + "SCRIPT", "7")) + len(os.getenv("SCRIPT", "")))
        yield from calls(run)
        os.environ["TENSOCKET_SCRIPT"] = "3"
        yield from calls(run)
        del os.environ["TENSOCKET_SCRIPT"]
        yield from calls(run)
        with patch.dict(os.environ, {"SCRIPT": "abc"}):
            yield from calls(run)
    finally:
        os.environ.pop("TENSOCKET_SCRIPT", None)


def file_is_rewritten(compiled):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scale"
        path.write_text("2")
        run = compiled(lambda x: x * float(path.read_text()))
        yield from calls(run)
        path.write_text("3")
        yield from calls(run)
        path.unlink()
        yield [type(each).__name__ for each in calls(run)]


def file_read_in_pieces(compiled):
    with tempfile.TemporaryFile("w+") as file:
        file.write("".join(f"{k}\n" for k in range(1, 40)))
        file.seek(0)
        run = compiled(lambda x: x * float(file.readline()))
        yield from calls(run)
        file.seek(0)
        yield from calls(run)


def random_numbers_of_python(compiled):
    random.seed(1)
    run = compiled(lambda x: x * random.random())
    yield from calls(run)
    random.seed(1)
    yield from calls(run)
    own = random.Random(2)
    run = compiled(lambda x: x * own.uniform(0, 1))
    yield from calls(run)


def random_numbers_of_numpy(compiled):
    np.random.seed(1)
    run = compiled(lambda x: x * float(np.random.rand()))
    yield from calls(run)
    generator = np.random.default_rng(3)
    run = compiled(lambda x: x * float(generator.standard_normal()))
    yield from calls(run)


def random_numbers_of_the_runtime(compiled):
    run = compiled(lambda x: x * torch.rand(4) + F.dropout(x, 0.5))
    torch.manual_seed(3)
    yield from calls(run)
    torch.manual_seed(3)
    yield from calls(run)
    state = torch.get_rng_state()
    yield from calls(run)
    torch.set_rng_state(state)
    yield from calls(run)
    with torch.random.fork_rng():
        yield from calls(run)
    yield told(torch.rand(3))


def seed_set_by_the_function(compiled):
    seed = [1]

    def f(x):
        torch.manual_seed(seed[0])
        return x * torch.rand(4)
    run = compiled(f)
    yield from calls(run)
    seed[0] = 2
    yield from calls(run)
    yield told(torch.rand(2))


def warnings_under_changing_filters(compiled):
    def f(x):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return x * 2
    run = compiled(f)
    for action in ("always", "ignore", "error", "once", "always"):
        for _ in range(CALLS):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter(action)
                yield outcome(run, vector()), [str(each.message) for each in seen]


def warning_with_a_changing_text(compiled):
    text = ["first"]

    def f(x):
        warnings.warn(text[0], RuntimeWarning, stacklevel=1)
        return x * 2
    run = compiled(f)
    for k in range(2 * CALLS):
        text[0] = "first" if k < CALLS else f"call {k}"
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield outcome(run, vector()), [str(each.message) for each in seen]


def warning_caught_by_the_function(compiled):
    def f(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn("inside", UserWarning, stacklevel=1)
        return x * len(seen)
    run = compiled(f)
    yield from calls(run)


def context_variable_in_another_context(compiled):
    scale = contextvars.ContextVar("scale", default=2.0)
    run = compiled(lambda x: x * scale.get())
    yield from calls(run)

    def inside():
        scale.set(3.0)
        return list(calls(run))
    yield contextvars.copy_context().run(inside)
    yield from calls(run)


def called_by_other_threads(compiled):
    local = threading.local()
    local.k = 2.0
    run = compiled(lambda x: x * getattr(local, "k", 5.0))
    yield from calls(run)
    found = []

    def work():
        found.extend(calls(run))
        local.k = 7.0
        found.extend(calls(run))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    yield found
    yield from calls(run)


def changed_by_another_thread(compiled):
    box = [2.0]
    run = compiled(lambda x: x * box[0])
    yield from calls(run)
    thread = threading.Thread(target=lambda: box.__setitem__(0, 3.0))
    thread.start()
    thread.join()
    yield from calls(run)


def grad_mode_of_another_thread(compiled):
    w = vector().requires_grad_()
    run = compiled(lambda x: x * w)
    yield from calls(run)
    found = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: found.extend(calls(run)))
        thread.start()
        thread.join()
        yield from calls(run)
    yield found


def called_from_a_coroutine(compiled):
    run = compiled(lambda x: x * box[0])
    box = [2.0]

    async def work():
        found = list(calls(run))
        await asyncio.sleep(0)
        return found
    yield asyncio.run(work())
    box[0] = 3.0
    yield asyncio.run(work())
