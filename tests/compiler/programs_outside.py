"""Programs that read the world outside of the process's objects: clocks, files, random numbers, threads."""

from __future__ import annotations

import builtins
import contextvars
import datetime
import gc
import inspect
import io
import locale
import logging
import os
import pathlib
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings

import numpy as np

import tensocket as torch


def clock():
    yield (lambda x: x * time.time()), lambda: None


def process_clock():
    start = time.perf_counter()  # small differences, which float32 tells apart
    yield (lambda x: x * (time.perf_counter() - start)), lambda: None


def clock_by_alias():
    now, start = time.monotonic, time.monotonic()
    yield (lambda x: x * (now() - start)), lambda: None


def date():
    yield (lambda x: x * datetime.datetime.now().microsecond), lambda: None


def sleeping():
    def f(x):
        time.sleep(0)
        return x
    yield f, lambda: None


def random_number():
    yield (lambda x: x * random.random()), lambda: None


def random_number_by_alias():
    draw = random.random
    yield (lambda x: x * draw()), lambda: None


def random_choice():
    yield (lambda x: x * random.choice([1.0, 2.0])), lambda: None


def own_generator():
    rng = random.Random(0)
    yield (lambda x: x * rng.random()), lambda: None


def generator_made_inside():
    yield (lambda x: x * random.Random().random()), lambda: None


def numpy_random():
    yield (lambda x: x * float(np.random.rand())), lambda: None


def numpy_generator():
    rng = np.random.default_rng(0)
    yield (lambda x: x * float(rng.random())), lambda: None


def secret():
    yield (lambda x: x * secrets.randbelow(100)), lambda: None


def unique_identifier():
    yield (lambda x: x * (uuid.uuid4().int % 7)), lambda: None


def random_bytes():
    yield (lambda x: x * os.urandom(1)[0]), lambda: None


def environment():
    os.environ["TENSOCKET_PROGRAM"] = "2"
    yield (lambda x: x * float(os.environ["TENSOCKET_PROGRAM"])), lambda: os.environ.update(TENSOCKET_PROGRAM="3")
    del os.environ["TENSOCKET_PROGRAM"]


def environment_by_function():
    yield (lambda x: x * float(os.getenv("TENSOCKET_PROGRAM", "1"))), lambda: os.environ.update(TENSOCKET_PROGRAM="3")
    del os.environ["TENSOCKET_PROGRAM"]


def environment_written():
    def f(x):
        os.environ["TENSOCKET_PROGRAM"] = "1"
        return x
    yield f, lambda: None
    del os.environ["TENSOCKET_PROGRAM"]


def working_folder():
    yield (lambda x: x * len(os.getcwd())), lambda: None


def file_read():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "number"
        path.write_text("2")
        yield (lambda x: x * float(path.read_text())), lambda: path.write_text("3")


def file_opened_before():
    with tempfile.TemporaryFile("w+") as file:
        def f(x):
            file.seek(0)
            return x * (1 + len(file.read()))
        yield f, lambda: file.write("abc")


def file_exists():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mark")
        yield (lambda x: x * 2 if os.path.exists(path) else x), lambda: pathlib.Path(path).touch()


def text_buffer():
    buffer = io.StringIO("2")
    yield (lambda x: x * float(buffer.getvalue())), lambda: buffer.write("3")


def text_buffer_iterated():
    buffer = io.StringIO("1\n2\n3\n" * 9)

    def f(x):
        for line in buffer:
            return x * float(line)
        return x
    yield f, lambda: None


def printing():
    def f(x):
        print(end="")
        return x
    yield f, lambda: None


def printing_by_alias():
    show = print

    def f(x):
        show(end="")
        return x
    yield f, lambda: None


def writing_to_output():
    def f(x):
        sys.stdout.write("")
        return x
    yield f, lambda: None


def logging_message():
    logger = logging.getLogger("programs")

    def f(x):
        logger.debug("value")
        return x * 2 if logger.isEnabledFor(logging.DEBUG) else x
    yield f, lambda: logger.setLevel(logging.DEBUG)
    logger.setLevel(logging.NOTSET)


def warning():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("text", stacklevel=1)
        return x
    yield f, lambda: None


def process_started():
    def f(x):
        return x * (1 + subprocess.call(["true"]))
    yield f, lambda: None


def process_number():
    yield (lambda x: x * os.getpid()), lambda: None


def context_variable():
    variable = contextvars.ContextVar("variable", default=2.0)
    yield (lambda x: x * variable.get()), lambda: variable.set(3.0)


def context_variable_by_alias():
    variable = contextvars.ContextVar("variable", default=2.0)
    get = variable.get
    yield (lambda x: x * get()), lambda: variable.set(3.0)


def thread_local():
    local = threading.local()
    local.k = 2.0
    yield (lambda x: x * local.k), lambda: setattr(local, "k", 3.0)


def thread_local_subclass():
    class Local(threading.local):
        k = 2.0
    local = Local()
    yield (lambda x: x * local.k), lambda: setattr(local, "k", 3.0)


def thread_name():
    yield (lambda x: x * len(threading.current_thread().name)), lambda: None


def thread_number():
    yield (lambda x: x * threading.get_ident()), lambda: None


def thread_started():
    def f(x):
        box = []
        thread = threading.Thread(target=lambda: box.append(2.0))
        thread.start()
        thread.join()
        return x * box[0]
    yield f, lambda: None


def lock():
    guard = threading.Lock()

    def f(x):
        with guard:
            return x
    yield f, lambda: None


def lock_state():
    guard = threading.Lock()
    yield (lambda x: x * 2 if guard.locked() else x), guard.acquire


def event():
    mark = threading.Event()
    yield (lambda x: x * 2 if mark.is_set() else x), mark.set


def frames():
    yield (lambda x: x * sys._getframe().f_lineno), lambda: None


def stack():
    yield (lambda x: x * len(inspect.stack())), lambda: None


def recursion_limit():
    before = sys.getrecursionlimit()
    yield (lambda x: x * sys.getrecursionlimit()), lambda: sys.setrecursionlimit(before + 1)
    sys.setrecursionlimit(before)


def reference_count():
    thing = object()
    more = []
    yield (lambda x: x * sys.getrefcount(thing)), lambda: more.append(thing)


def collector():
    yield (lambda x: x * 2 if gc.isenabled() else x), gc.disable
    gc.enable()


def collected_objects():
    yield (lambda x: x * len(gc.get_objects())), lambda: None


def evaluated_text():
    k = [2.0]
    yield (lambda x: x * eval("k[0]", {"k": k})), lambda: k.__setitem__(0, 3.0)


def executed_text():
    code = ["k = 2.0"]

    def f(x):
        space = {}
        exec(code[0], space)
        return x * space["k"]
    yield f, lambda: code.__setitem__(0, "k = 3.0")


def globals_by_function():
    globals()["HIDDEN"] = 2.0
    yield (lambda x: x * globals()["HID" + "DEN"]), lambda: globals().update(HIDDEN=3.0)
    del globals()["HIDDEN"]


def builtins_by_name():
    yield (lambda x: x * getattr(builtins, "o" + "rd")("a")), lambda: setattr(builtins, "ord", lambda given: 5)
    builtins.ord = _ORD


def locale_settings():
    yield (lambda x: x * len(locale.localeconv())), lambda: None


def class_made_inside():
    def f(x):
        class Local:
            k = 2.0
        return x * Local.k
    yield f, lambda: None


def profiler_set():
    def f(x):
        return x

    sys.setprofile(_no_profile)
    yield f, lambda: None
    sys.setprofile(None)


def lazily_run():
    def f(x):
        yield x
    yield f, lambda: None


def coroutine():
    async def f(x):
        return x
    yield (lambda x: f(x).close()), lambda: None


def input_of_user():
    before = builtins.input
    builtins.input = lambda text="": "2"
    yield (lambda x: x * float(input())), lambda: setattr(builtins, "input", lambda text="": "3")
    builtins.input = before


def always_raises():
    def f(x):
        raise ValueError("no")
    yield f, lambda: None


def tensor_from_clock():
    yield (lambda x: torch.tensor([time.time()])), lambda: None


def _no_profile(*event):
    return None


_ORD = ord


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({
    "always_raises", "class_made_inside", "clock", "clock_by_alias", "collected_objects", "collector",
    "context_variable", "context_variable_by_alias", "coroutine", "date", "environment_written",
    "evaluated_text", "executed_text", "file_exists", "file_opened_before", "file_read", "frames",
    "generator_made_inside", "globals_by_function", "lazily_run", "locale_settings", "lock", "lock_state",
    "numpy_generator", "numpy_random", "own_generator", "printing", "printing_by_alias", "process_clock",
    "process_number", "process_started", "profiler_set", "random_bytes", "random_choice", "random_number",
    "random_number_by_alias", "recursion_limit", "reference_count", "secret", "sleeping", "stack",
    "tensor_from_clock", "text_buffer", "text_buffer_iterated", "thread_local", "thread_local_subclass",
    "thread_name", "thread_number", "thread_started", "unique_identifier", "warning", "working_folder",
    "writing_to_output",
    *(("logging_message",) if sys.version_info >= (3, 13) else ())})  # it holds a lock of the library
