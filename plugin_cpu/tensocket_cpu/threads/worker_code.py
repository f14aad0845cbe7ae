"""The machine code of workers, as LLVM IR: they wait for kernels, and take pieces of them.

Workers poll one word, which holds the number of the task, and the first and the end of its remaining pieces. The caller
increases the first, a worker decreases the end; who changes the word owns that piece. So each thread gets the same part
of the arrays in kernel after kernel, and finds it in the caches of its core. The task's number in the same word keeps a
late worker from taking a piece of the wrong task. Nobody waits for a worker that still sleeps: the caller takes all
remaining pieces, and then waits only for those that others have begun.
"""

from __future__ import annotations

from string import Template
from typing import Final

#: The bytes of a cache line, or of two that processors fetch together.
LINE: Final = 128
#: The byte offsets of fields in the shared memory. Fields of different writers are on different cache lines.
FIELDS: Final = {
    "ticket": 0, "done": LINE, "entry": 2 * LINE, "args": 2 * LINE + 8, "count": 2 * LINE + 16,
    "size": 2 * LINE + 24, "pieces": 2 * LINE + 32, "busy": 3 * LINE, "most": 3 * LINE + 8, "spins": 3 * LINE + 16,
    "stop": 3 * LINE + 24, "sleepers": 4 * LINE, "waiting": 4 * LINE + 8, "mutex": 5 * LINE, "work": 6 * LINE,
    "rest": 7 * LINE, "functions": 8 * LINE,
}
BYTES: Final = 9 * LINE
#: The most pieces of a task: the word has 16 bits for each of their numbers.
MOST_PIECES: Final = (1 << 16) - 1
#: The functions of POSIX threads, in the order of their table.
FUNCTIONS: Final = ("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait", "pthread_cond_signal",
                    "pthread_cond_broadcast")
#: The functions whose addresses callers need.
NAMES: Final = ("worker", "run", "take", "stop", "release", "look", "probe")
#: The instruction that a processor runs between repeated reads of a word.
_PAUSES: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    **dict.fromkeys(("aarch64", "arm64"), (
        "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")),
}


def workers_text(machine: str) -> str:
    """Return LLVM IR with the functions ``NAMES``.

    Args:
        machine: The kind of processor, a value of ``platform.machine``.
    """
    declare, pause = _PAUSES.get(machine, ("", ""))
    return _TEXT.substitute(FIELDS, declare=declare, pause=pause, most_pieces=MOST_PIECES)


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

; Take pieces until none is left: the caller from the first on, workers from the last on.
define internal void @work(ptr %pool, i1 %is_worker) {
start:
  %ticket.at = getelementptr i8, ptr %pool, i64 $ticket
  br label %next
next:
  %now = load atomic i64, ptr %ticket.at acquire, align 8
  br label %try
try:
  %w = phi i64 [%now, %next], [%found, %take]
  %end.now = and i64 %w, $most_pieces
  %w.high = lshr i64 %w, 16
  %first = and i64 %w.high, $most_pieces
  %none = icmp uge i64 %first, %end.now
  br i1 %none, label %out, label %take
take:
  %less = sub i64 %w, 1
  %more = add i64 %w, 65536
  %rest = select i1 %is_worker, i64 %less, i64 %more
  %pair = cmpxchg ptr %ticket.at, i64 %w, i64 %rest seq_cst seq_cst
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
  %last.now = sub i64 %end.now, 1
  %index = select i1 %is_worker, i64 %last.now, i64 %first
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
  call void @work(ptr %pool, i1 true)
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
  call void @work(ptr %pool, i1 false)
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
