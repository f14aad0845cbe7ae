"""Threads of the operating system that run pieces of one kernel at a time, in machine code throughout.

Waking a Python thread takes about 40 microseconds, because it needs the interpreter's lock. These workers know nothing
of the interpreter: they look at one word of memory for a few tens of microseconds, which is how long the next kernel of
a program usually takes to come, and sleep after that. A worker that looks starts within a microsecond.

The word holds the number of the task and how many of its pieces are left. Who lowers it by one has that piece; the
number of the task in the same word keeps a worker that comes late from taking a piece of another task than it thinks.
So nobody waits for a worker that still sleeps: the caller takes whatever pieces are left, and then waits for those that
others have begun.

All of this is LLVM IR, because users have no C compiler; it lies in the disk cache like every kernel. POSIX threads are
found in the process. Where they are missing, or the functions do not work, there are no workers of this kind.
"""

from __future__ import annotations

import atexit
import ctypes
import platform
import signal
import threading
import time
from string import Template
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.errors import KernelError

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: How long a worker, or a caller that has finished its own pieces, looks before it sleeps.
_PATIENCE: Final = 30e-6
#: Pieces for each thread: so many that threads which start late or are interrupted leave their share to others.
_SHARES: Final = 4
_LINE: Final = 128
#: Byte offsets in the shared memory. What different threads write lies on different cache lines.
_FIELDS: Final = {
    "ticket": 0, "done": _LINE, "entry": 2 * _LINE, "args": 2 * _LINE + 8, "count": 2 * _LINE + 16,
    "size": 2 * _LINE + 24, "pieces": 2 * _LINE + 32, "busy": 3 * _LINE, "most": 3 * _LINE + 8, "spins": 3 * _LINE + 16,
    "stop": 3 * _LINE + 24, "sleepers": 4 * _LINE, "waiting": 4 * _LINE + 8, "mutex": 5 * _LINE, "work": 6 * _LINE,
    "rest": 7 * _LINE, "functions": 8 * _LINE,
}
_BYTES: Final = 9 * _LINE
_FUNCTIONS: Final = ("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait", "pthread_cond_signal",
                     "pthread_cond_broadcast")
_NAMES: Final = ("worker", "run", "take", "stop", "release", "look", "probe")
#: What a processor is told while it looks at a word again and again.
_PAUSES: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    **dict.fromkeys(("aarch64", "arm64"), (
        "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")),
}
_TEXT: Final = Template("""\
$declare
define internal void @locked(ptr %pool, i64 %which, i64 %field) {
  %function = call ptr @function(ptr %pool, i64 %which)
  %at = getelementptr i8, ptr %pool, i64 %field
  %r = call i32 %function(ptr %at)
  ret void
}
define internal ptr @function(ptr %pool, i64 %which) {
  %table = getelementptr i8, ptr %pool, i64 $functions
  %at = getelementptr ptr, ptr %table, i64 %which
  %function = load ptr, ptr %at
  ret ptr %function
}
define internal void @doze(ptr %pool, i64 %field) {
  %function = call ptr @function(ptr %pool, i64 2)
  %condition = getelementptr i8, ptr %pool, i64 %field
  %mutex = getelementptr i8, ptr %pool, i64 $mutex
  %r = call i32 %function(ptr %condition, ptr %mutex)
  ret void
}

; Wait until a word, shifted, is (or, with differ, is not) a value: look first, then sleep on a condition.
define internal i64 @await(ptr %pool, i64 %word, i64 %shift, i64 %value, i1 %differ, i64 %condition, i64 %mark) {
start:
  %at = getelementptr i8, ptr %pool, i64 %word
  %spins.at = getelementptr i8, ptr %pool, i64 $spins
  %spins = load i64, ptr %spins.at
  br label %look
look:
  %k = phi i64 [0, %start], [%k1, %again]
  %w = load atomic i64, ptr %at acquire, align 8
  %v = lshr i64 %w, %shift
  %other = icmp ne i64 %v, %value
  %found = icmp eq i1 %other, %differ
  br i1 %found, label %seen, label %again
again:
  $pause
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %spins
  br i1 %more, label %look, label %sleep
sleep:
  call void @locked(ptr %pool, i64 0, i64 $mutex)
  %mark.at = getelementptr i8, ptr %pool, i64 %mark
  %before = atomicrmw add ptr %mark.at, i64 1 seq_cst
  br label %check
check:
  %w2 = load atomic i64, ptr %at seq_cst, align 8
  %v2 = lshr i64 %w2, %shift
  %other2 = icmp ne i64 %v2, %value
  %found2 = icmp eq i1 %other2, %differ
  br i1 %found2, label %awake, label %dozing
dozing:
  call void @doze(ptr %pool, i64 %condition)
  br label %check
awake:
  %after = atomicrmw sub ptr %mark.at, i64 1 seq_cst
  call void @locked(ptr %pool, i64 1, i64 $mutex)
  br label %seen
seen:
  %result = phi i64 [%v, %look], [%v2, %awake]
  ret i64 %result
}

; Take pieces until none is left.
define internal void @work(ptr %pool) {
start:
  %ticket.at = getelementptr i8, ptr %pool, i64 $ticket
  br label %next
next:
  %now = load atomic i64, ptr %ticket.at acquire, align 8
  br label %try
try:
  %w = phi i64 [%now, %next], [%found, %take]
  %left = and i64 %w, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %out, label %take
take:
  %less = sub i64 %w, 1
  %pair = cmpxchg ptr %ticket.at, i64 %w, i64 %less seq_cst seq_cst
  %found = extractvalue {i64, i1} %pair, 0
  %mine = extractvalue {i64, i1} %pair, 1
  br i1 %mine, label %piece, label %try
piece:
  %entry.at = getelementptr i8, ptr %pool, i64 $entry
  %args.at = getelementptr i8, ptr %pool, i64 $args
  %count.at = getelementptr i8, ptr %pool, i64 $count
  %size.at = getelementptr i8, ptr %pool, i64 $size
  %pieces.at = getelementptr i8, ptr %pool, i64 $pieces
  %entry = load ptr, ptr %entry.at
  %args = load ptr, ptr %args.at
  %count = load i64, ptr %count.at
  %size = load i64, ptr %size.at
  %pieces = load i64, ptr %pieces.at
  %index = sub i64 %pieces, %left
  %begin = mul i64 %index, %size
  %stop = add i64 %begin, %size
  %over = icmp sgt i64 %stop, %count
  %end = select i1 %over, i64 %count, i64 %stop
  call void %entry(ptr %args, i64 %begin, i64 %end)
  %done.at = getelementptr i8, ptr %pool, i64 $done
  %before = atomicrmw add ptr %done.at, i64 1 seq_cst
  %done = add i64 %before, 1
  %last = icmp eq i64 %done, %pieces
  br i1 %last, label %all, label %next
all:
  %waiting.at = getelementptr i8, ptr %pool, i64 $waiting
  %waiting = load atomic i64, ptr %waiting.at seq_cst, align 8
  %alone = icmp eq i64 %waiting, 0
  br i1 %alone, label %next, label %tell
tell:
  call void @locked(ptr %pool, i64 0, i64 $mutex)
  call void @locked(ptr %pool, i64 3, i64 $rest)
  call void @locked(ptr %pool, i64 1, i64 $mutex)
  br label %next
out:
  ret void
}

define ptr @worker(ptr %pool) {
start:
  br label %idle
idle:
  %seen = phi i64 [0, %start], [%task, %ready]
  %task = call i64 @await(ptr %pool, i64 $ticket, i64 32, i64 %seen, i1 true, i64 $work, i64 $sleepers)
  %stop.at = getelementptr i8, ptr %pool, i64 $stop
  %stop = load atomic i64, ptr %stop.at acquire, align 8
  %end = icmp ne i64 %stop, 0
  br i1 %end, label %out, label %ready
ready:
  call void @work(ptr %pool)
  br label %idle
out:
  ret ptr null
}

; Announce a task of so many pieces, and wake who sleeps.
define internal void @announce(ptr %pool, i64 %pieces) {
  %ticket.at = getelementptr i8, ptr %pool, i64 $ticket
  %old = load atomic i64, ptr %ticket.at acquire, align 8
  %number = lshr i64 %old, 32
  %next = add i64 %number, 1
  %high = shl i64 %next, 32
  %new = or i64 %high, %pieces
  store atomic i64 %new, ptr %ticket.at seq_cst, align 8
  %sleepers.at = getelementptr i8, ptr %pool, i64 $sleepers
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %none = icmp eq i64 %sleepers, 0
  br i1 %none, label %out, label %wake
wake:
  call void @locked(ptr %pool, i64 0, i64 $mutex)
  %few = icmp eq i64 %pieces, 2
  %which = select i1 %few, i64 3, i64 4
  call void @locked(ptr %pool, i64 %which, i64 $work)
  call void @locked(ptr %pool, i64 1, i64 $mutex)
  br label %out
out:
  ret void
}

; Take the workers for a task; 0 where somebody else has them.
define i64 @take(ptr %pool) {
  %busy.at = getelementptr i8, ptr %pool, i64 $busy
  %before = atomicrmw xchg ptr %busy.at, i64 1 acquire
  %mine = xor i64 %before, 1
  ret i64 %mine
}
define void @release(ptr %pool) {
  %busy.at = getelementptr i8, ptr %pool, i64 $busy
  store atomic i64 0, ptr %busy.at release, align 8
  ret void
}
define void @stop(ptr %pool) {
  %stop.at = getelementptr i8, ptr %pool, i64 $stop
  store atomic i64 1, ptr %stop.at release, align 8
  call void @announce(ptr %pool, i64 0)
  ret void
}

; Run entry(args, begin, end) over range(count) in at most so many pieces; alone where that is not worth it.
define void @run(ptr %pool, ptr %entry, ptr %args, i64 %count, i64 %wanted) {
start:
  %most.at = getelementptr i8, ptr %pool, i64 $most
  %most = load i64, ptr %most.at
  %a = call i64 @llvm.smin.i64(i64 %most, i64 %wanted)
  %b = call i64 @llvm.smin.i64(i64 %a, i64 %count)
  %some = icmp sgt i64 %b, 1
  br i1 %some, label %several, label %alone
several:
  %rounding = sub i64 %b, 1
  %sum = add i64 %count, %rounding
  %even = sdiv i64 %sum, %b
  %sum64 = add i64 %even, 63
  %lines = and i64 %sum64, -64
  %long = icmp sgt i64 %even, 1024
  %size = select i1 %long, i64 %lines, i64 %even
  %less = sub i64 %size, 1
  %all = add i64 %count, %less
  %pieces = sdiv i64 %all, %size
  %mine = call i64 @take(ptr %pool)
  %free = icmp ne i64 %mine, 0
  br i1 %free, label %together, label %alone
together:
  %entry.at = getelementptr i8, ptr %pool, i64 $entry
  %args.at = getelementptr i8, ptr %pool, i64 $args
  %count.at = getelementptr i8, ptr %pool, i64 $count
  %size.at = getelementptr i8, ptr %pool, i64 $size
  %pieces.at = getelementptr i8, ptr %pool, i64 $pieces
  %done.at = getelementptr i8, ptr %pool, i64 $done
  store ptr %entry, ptr %entry.at
  store ptr %args, ptr %args.at
  store i64 %count, ptr %count.at
  store i64 %size, ptr %size.at
  store i64 %pieces, ptr %pieces.at
  store atomic i64 0, ptr %done.at release, align 8
  call void @announce(ptr %pool, i64 %pieces)
  call void @work(ptr %pool)
  %finished = call i64 @await(ptr %pool, i64 $done, i64 0, i64 %pieces, i1 false, i64 $rest, i64 $waiting)
  call void @release(ptr %pool)
  ret void
alone:
  call void %entry(ptr %args, i64 0, i64 %count)
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)

; So many looks at a word, to find out how long one takes.
define i64 @look(ptr %pool, i64 %times) {
start:
  br label %look
look:
  %k = phi i64 [0, %start], [%k1, %look]
  %w = load atomic i64, ptr %pool acquire, align 8
  $pause
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %times
  br i1 %more, label %look, label %out
out:
  ret i64 %w
}

; Adds up the numbers of its range.
define void @probe(ptr %total, i64 %begin, i64 %end) {
start:
  br label %next
next:
  %k = phi i64 [%begin, %start], [%k1, %next]
  %old = atomicrmw add ptr %total, i64 %k seq_cst
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %end
  br i1 %more, label %next, label %out
out:
  ret void
}
""")


class Workers:
    """The machine code, its shared memory and its threads.

    Args:
        compiler: Makes machine code.

    Attributes:
        run: ``run(entry address, args, count, pieces)``: the entry over ``range(count)`` in at most ``pieces`` pieces.
            Releases the interpreter's lock. Runs everything in the caller while workers are busy or there are none.

    Raises:
        KernelError: LLVM has no code for this, or the process no POSIX threads.
        AttributeError: The process lacks a function of POSIX threads.
    """

    def __init__(self, compiler: Compiler) -> None:
        declare, pause = _PAUSES.get(platform.machine(), ("", ""))
        text = _TEXT.substitute(_FIELDS, declare=declare, pause=pause)
        addresses, library = compiler.compile_text("workers", text, _NAMES)
        self._at = dict(zip(_NAMES, addresses, strict=True))
        self._memory = ctypes.create_string_buffer(_BYTES + _LINE)
        self._pool = -(-ctypes.addressof(self._memory) // _LINE) * _LINE
        # Never given back: a worker may still sleep in this code and memory when the interpreter ends.
        for kept in (library, self._memory):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        self._posix: Any = ctypes.CDLL(None)
        self._threads: list[int] = []
        self._lock = threading.Lock()
        self.run: Any = self._bind()
        self.reset()
        self._set("spins", self._spins())
        atexit.register(self.close)

    def _bind(self) -> Any:
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        call = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, word, word)(self._at["run"])
        pool = self._pool

        def run(entry: int, args: bytes | int, count: int, pieces: int) -> None:
            call(pool, entry, args, count, pieces)

        self._take = ctypes.CFUNCTYPE(word, pointer)(self._at["take"])
        self._release = ctypes.CFUNCTYPE(None, pointer)(self._at["release"])
        self._stop = ctypes.CFUNCTYPE(None, pointer)(self._at["stop"])
        self._look = ctypes.CFUNCTYPE(word, pointer, word)(self._at["look"])
        return run

    def reset(self) -> None:
        """No workers, nothing taken: at the start, and in a forked child, which has none of the threads."""
        spins = ctypes.c_int64.from_address(self._pool + _FIELDS["spins"]).value
        ctypes.memset(self._pool, 0, _BYTES)
        self._set("spins", spins)
        for place, name in enumerate(_FUNCTIONS):
            address = ctypes.cast(getattr(self._posix, name), ctypes.c_void_p).value or 0
            ctypes.c_uint64.from_address(self._pool + _FIELDS["functions"] + 8 * place).value = address
        self._posix.pthread_mutex_init(ctypes.c_void_p(self._pool + _FIELDS["mutex"]), None)
        for condition in ("work", "rest"):
            self._posix.pthread_cond_init(ctypes.c_void_p(self._pool + _FIELDS[condition]), None)
        self._threads = []
        self._lock = threading.Lock()

    def _set(self, field: str, value: int) -> None:
        ctypes.c_int64.from_address(self._pool + _FIELDS[field]).value = value

    def _spins(self) -> int:
        """Looks that take ``_PATIENCE``."""
        times, best = 200, 1.0
        for _ in range(3):
            began = time.perf_counter()
            self._look(self._pool, times)
            best = min(best, time.perf_counter() - began)
        return max(100, min(20_000, int(_PATIENCE / max(best, 1e-7) * times)))

    def resize(self, threads: int) -> None:
        """Use ``threads`` threads, of which the caller is one, from now on.

        Raises:
            KernelError: The system starts no more threads.
        """
        with self._lock:
            self._taken()
            try:
                self._join()
                for _ in range(threads - 1):
                    self._threads.append(self._start())
                self._set("most", _SHARES * threads if self._threads else 1)
            finally:
                self._release(self._pool)

    def close(self) -> None:
        """End all workers, when the interpreter ends; what runs later runs alone."""
        with self._lock:
            if self._threads and self._taken(seconds=1.0):
                self._join()
                self._set("most", 1)
                self._release(self._pool)

    def _taken(self, seconds: float = float("inf")) -> bool:
        until = time.monotonic() + seconds
        while not self._take(self._pool):
            if time.monotonic() > until:
                return False
            time.sleep(1e-4)
        return True

    def _join(self) -> None:
        if self._threads:
            self._stop(self._pool)
            for thread in self._threads:
                self._posix.pthread_join(ctypes.c_void_p(thread), None)
            self._threads = []
            self._set("stop", 0)

    def _start(self) -> int:
        made = ctypes.c_void_p()
        # Signals are for threads that run Python.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            failed = self._posix.pthread_create(ctypes.byref(made), None, ctypes.c_void_p(self._at["worker"]),
                                                ctypes.c_void_p(self._pool))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if failed:
            raise KernelError("set_num_threads", f"{len(self._threads) + 2} threads", f"the system answers {failed}",
                              "use fewer threads")
        return made.value or 0

    def works(self) -> bool:
        """Whether pieces cover everything once."""
        total, count = ctypes.c_int64(), 1000
        self.resize(2)
        self.run(self._at["probe"], ctypes.addressof(total), count, count)
        return total.value == count * (count - 1) // 2


def make_workers(compiler: Compiler) -> Workers | None:
    """Native workers; None where the process has no POSIX threads, or the workers don't do what they should."""
    try:
        workers = Workers(compiler)
        return workers if workers.works() else None
    except (AttributeError, KernelError, OSError, TypeError):  # TypeError: a system that does not dlopen itself
        return None
