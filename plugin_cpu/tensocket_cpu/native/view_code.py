"""The machine code of views: one function that looks a call up in a table and makes new objects on the same memory."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from tensocket_plugins.contract.plans import ViewPlan

from .layout import Layout
from .view_words import WORDS, describe, helpers, loop
from .writer import Text

NAME: Final = "tensocket_views"
#: Number of places in a table.
PLACES: Final = 128
_EMPTY: Final = ()


class Head(IntEnum):
    """Words at the beginning of a table; the addresses that the code uses follow."""

    NEXT_PATH = 0
    MISS = 1
    PLACES = 2
    WORDS = 3
    MISSED_WORDS = 4
    COUNT = 5
    HASH = 6
    MISSES = 7
    OVERRIDES = 8


class Kind(IntEnum):
    """Outcomes of calls: that of the next path, the first argument, one view, or a tuple of views."""

    OTHER = 0
    SAME = 1
    VIEW = 2
    VIEWS = 3


class Record(IntEnum):
    """Words of the record of one call."""

    HASH = 0
    COUNT = 1
    WORDS = 2
    KIND = 3
    RESULTS = 4
    RESULTS_PLACE = 5
    OWNER = 6


class Result(IntEnum):
    """Words of the record of one result."""

    DTYPE = 0
    RANK = 1
    SHAPE = 2
    STRIDES = 3
    OFFSET = 4
    FLAGS = 5
    KEY = 6
    MARK = 7


def view_text(w: Text, layout: Layout, plan: ViewPlan, offsets: dict[str, int]) -> str:
    """Return the function's LLVM IR.

    It describes a call by words: for each argument its type, and an integer, the integers of a tuple or list, the
    dtype, sizes and strides of a tensor, or the identity of any other object. It holds no references until the call is
    found, because nothing before runs Python code.

    Args:
        w: A text without lines; its addresses are the head.
        layout: The byte offsets of fields.
        plan: The plan; only its wrapper and the names of its slots matter.
        offsets: The byte offsets of the slots.
    """
    w.do(f"%table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    overrides = w.field(w.item("%table", Head.OVERRIDES, "ptr"), layout.length, "i64")
    w.do(f"%words = load ptr, ptr {w.op(f'getelementptr i64, ptr %table, i64 {int(Head.WORDS)}')}")
    w.branch([w.op(f"icmp eq i64 {overrides}, 0"), w.op("icmp sge i64 %count, 1")], "begin")
    describe(w, layout, plan, offsets)
    _find(w)
    _answer(w, layout, plan, offsets)
    for label, place in (("slow", Head.NEXT_PATH), ("miss", Head.MISS)):
        w.do(f"{label}:")
        if place == Head.MISS:
            _note_miss(w)
        answer = w.op(f"call ptr {w.known(layout.call)}(ptr {w.item('%table', place, 'ptr')}, ptr %args, i64 %count, "
                      "ptr %names)")
        w.do(f"ret ptr {answer}")
    w.do("failed:")
    w.do("ret ptr null")
    head = f"define ptr @{NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{"
    return "\n".join([helpers(layout), head, "entry:", "  %beyond = alloca i32", *w.lines, "}",
                      "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)", ""])


def _find(w: Text) -> None:
    """Set ``%record``, the record of the call; go to ``miss`` if there is none."""
    places = w.item("%table", Head.PLACES, "ptr")
    w.do("br label %probe")
    w.do("probe:")
    w.do("%place = phi i64 [%mix.out, %mix.done], [%place.next, %probe.next]")
    w.do("%place.next = add i64 %place, 1")
    number = w.op(f"and i64 %place, {PLACES - 1}")
    w.do(f"%record = load ptr, ptr {w.op(f'getelementptr ptr, ptr {places}, i64 {number}')}")
    w.branch([w.op("icmp ne ptr %record, null")], "there", "miss")
    w.branch([w.op(f"icmp eq i64 {w.item('%record', Record.HASH, 'i64')}, %mix.out"),
              w.op(f"icmp eq i64 {w.item('%record', Record.COUNT, 'i64')}, %size")], "alike", "probe.next")
    known = w.item("%record", Record.WORDS, "ptr")
    w.do("br label %compare")
    w.do("compare:")
    w.do("%c = phi i64 [0, %alike], [%c.next, %equal]")
    w.do("%c.more = icmp slt i64 %c, %size")
    w.do("br i1 %c.more, label %compare.word, label %found")
    w.do("compare.word:")
    same = w.op(f"icmp eq i64 {w.item('%words', '%c', 'i64')}, {w.item(known, '%c', 'i64')}")
    w.do(f"br i1 {same}, label %equal, label %probe.next")
    w.do("equal:")
    w.do("%c.next = add i64 %c, 1")
    w.do("br label %compare")
    w.do("probe.next:")
    w.do("br label %probe")
    w.do("found:")


def _note_miss(w: Text) -> None:
    """Note the words of the call for the function that adds a record, and count the misses.

    A garbage collection before that function begins may run code with other calls; a count tells whether one missed.
    """
    for head, value in ((Head.COUNT, "%size"), (Head.HASH, "%mix.out")):
        w.do(f"store i64 {value}, ptr {w.op(f'getelementptr i64, ptr %table, i64 {int(head)}')}")
    place = w.op(f"getelementptr i64, ptr %table, i64 {int(Head.MISSES)}")
    w.do(f"store i64 {w.op('add i64 1, ' + w.op(f'load i64, ptr {place}'))}, ptr {place}")
    w.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {w.item('%table', Head.MISSED_WORDS, 'ptr')}, ptr %words, "
         f"i64 {8 * WORDS}, i1 false)")


def _answer(w: Text, layout: Layout, plan: ViewPlan, offsets: dict[str, int]) -> None:
    """Return what the record tells; go to ``slow`` where the next path has to."""
    retain, release = w.known(layout.retain), w.known(layout.release)
    source, nothing = w.item("%args", 0, "ptr"), w.known(id(None))
    kind = w.item("%record", Record.KIND, "i64")
    w.branch([w.op(f"icmp ne i64 {kind}, {int(Kind.OTHER)}")])
    w.do(f"br i1 {w.op(f'icmp eq i64 {kind}, {int(Kind.SAME)}')}, label %itself, label %new")
    w.do("itself:")
    w.do(f"call void {retain}(ptr {source})")
    w.do(f"ret ptr {source}")
    w.do("new:")
    owner = w.item("%record", Record.OWNER, "ptr")
    w.do(f"call void {retain}(ptr {owner})")
    w.do(f"%base.known = load ptr, ptr {w.op(f'getelementptr i8, ptr {source}, i64 {offsets[plan.base]}')}")
    w.do("%counter.at = getelementptr i8, ptr " + f"{source}, i64 {offsets[plan.wrapper.counter]}")
    w.do("%counter.known = load ptr, ptr %counter.at")
    w.branch([w.op("icmp ne ptr %base.known, null"), w.op("icmp ne ptr %counter.known, null")], "slots", "drop.slow")
    _base(w, layout, plan, source, nothing)
    _counter(w, layout, nothing)
    _results(w, layout, plan, offsets, source, kind)
    w.do("drop.slow:")
    w.do(f"call void {release}(ptr {owner})")
    w.do("br label %slow")
    w.do("drop.failed:")
    w.do(f"call void {release}(ptr {owner})")
    w.do("br label %failed")
    w.do("answered:")
    w.do(f"call void {release}(ptr {owner})")
    w.do("ret ptr %answer")


def _base(w: Text, layout: Layout, plan: ViewPlan, source: str, nothing: str) -> None:
    """Set ``%base``, that of the views: the base of the first argument if it is a view, else the argument."""
    w.do(f"br i1 {w.op(f'icmp eq ptr %base.known, {nothing}')}, label %own, label %view")
    w.do("view:")
    # A mark of a view passes on to its views; the next path does that.
    mark = w.op(f"call ptr {w.known(layout.get_attribute)}(ptr {source}, ptr {w.known(id(plan.mark))})")
    w.branch([w.op(f"icmp ne ptr {mark}, null")], otherwise="drop.failed")
    w.do(f"call void {w.known(layout.release)}(ptr {mark})")
    w.branch([w.op(f"icmp eq ptr {mark}, {nothing}")], "unmarked", "drop.slow")
    w.do("br label %own")
    w.do("own:")
    w.do(f"%base = phi ptr [{source}, %slots], [%base.known, %unmarked]")


def _counter(w: Text, layout: Layout, nothing: str) -> None:
    """Set ``%counter``, that of the first argument, which gets one if it has none."""
    w.do(f"br i1 {w.op(f'icmp eq ptr %counter.known, {nothing}')}, label %count.first, label %count.known")
    w.do("count.known:")
    w.branch([w.op(f"icmp eq ptr {w.field('%counter.known', layout.type, 'ptr')}, {w.known(id(list))}")],
             "count.list", "drop.slow")
    w.do("br label %counter.ready")
    w.do("count.first:")
    w.do(f"%counter.new = call ptr {w.known(layout.list_new)}(i64 1)")
    w.branch([w.op("icmp ne ptr %counter.new, null")], "count.made", "drop.failed")
    zero = w.op(f"call ptr {w.known(layout.new_integer)}(i64 0)")
    w.op(f"call i32 {w.known(layout.list_set)}(ptr %counter.new, i64 0, ptr {zero})")
    w.do("store ptr %counter.new, ptr %counter.at")
    w.do(f"call void {w.known(layout.release)}(ptr %counter.known)")
    w.do("br label %counter.ready")
    w.do("counter.ready:")
    w.do("%counter = phi ptr [%counter.known, %count.list], [%counter.new, %count.made]")


def _results(w: Text, layout: Layout, plan: ViewPlan, offsets: dict[str, int], source: str, kind: str) -> None:
    """Make the views; set ``%answer``."""
    retain, release = w.known(layout.retain), w.known(layout.release)
    memory = w.field(source, offsets[plan.wrapper.array], "ptr")
    data = w.field(memory, layout.data, "ptr")
    flags = w.field(memory, layout.flags, "i32")
    count, first = w.item("%record", Record.RESULTS, "i64"), w.item("%record", Record.RESULTS_PLACE, "ptr")
    w.do(f"br i1 {w.op(f'icmp eq i64 {kind}, {int(Kind.VIEWS)}')}, label %several, label %views.begin")
    w.do("several:")
    w.do(f"%tuple = call ptr {w.known(layout.tuple_new)}(i64 {count})")
    w.branch([w.op("icmp ne ptr %tuple, null")], "several.made", "drop.failed")
    w.do("br label %views.begin")
    w.do("views.begin:")
    w.do("%into = phi ptr [null, %counter.ready], [%tuple, %several.made]")

    def make() -> None:
        at = w.op(f"getelementptr i64, ptr {first}, i64 {w.op(f'mul i64 %views.k, {len(Result)}')}")
        made = _array(w, layout, at, memory, data, flags)
        view = w.op(f"call ptr {w.known(layout.new_object)}(ptr {w.known(id(plan.wrapper.kind))}, ptr "
                    f"{w.known(id(_EMPTY))}, ptr null)")
        w.branch([w.op(f"icmp ne ptr {view}, null")], "views.object", "views.lost.array")
        key = w.item(at, Result.KEY, "ptr")
        held = {plan.wrapper.counter: "%counter", plan.base: "%base", plan.key: key}
        values = [(name, held.get(name) or w.known(id(value))) for name, value, _ in plan.wrapper.slots]
        for name, value in values:
            w.do(f"call void {retain}(ptr {value})")
            w.do(f"store ptr {value}, ptr {w.op(f'getelementptr i8, ptr {view}, i64 {offsets[name]}')}")
        w.do(f"store ptr {made}, ptr {w.op(f'getelementptr i8, ptr {view}, i64 {offsets[plan.wrapper.array]}')}")
        _mark(w, layout, plan, at, view)
        w.do("%one = icmp eq ptr %into, null")
        w.do("br i1 %one, label %views.single, label %views.item")
        w.do("views.item:")
        w.op(f"call i32 {w.known(layout.tuple_set)}(ptr %into, i64 %views.k, ptr {view})")
        w.do("br label %views.set")
        w.do("views.single:")
        w.do("br label %views.set")
        w.do("views.set:")
        w.do(f"%views.out.next = select i1 %one, ptr {view}, ptr %into")
        lost.extend((made, view))

    lost: list[str] = []
    loop(w, "views", count, "views.begin", "null", make)
    w.do("%answer = getelementptr i8, ptr %views.out, i64 0")
    w.do("br label %answered")
    w.do("views.lost.view:")
    w.do(f"call void {release}(ptr {lost[1]})")
    w.do("br label %views.lost")
    w.do("views.lost.array:")
    w.do(f"call void {release}(ptr {lost[0]})")
    w.do("br label %views.lost")
    w.do("views.lost:")
    w.do("br i1 " + w.op("icmp eq ptr %into, null") + ", label %drop.failed, label %views.lost.tuple")
    w.do("views.lost.tuple:")
    w.do(f"call void {release}(ptr %into)")
    w.do("br label %drop.failed")


def _array(w: Text, layout: Layout, at: str, memory: str, data: str, flags: str) -> str:
    """Make the array of a view; it keeps the memory of the first argument alive."""
    dtype = w.item(at, Result.DTYPE, "ptr")
    w.do(f"call void {w.known(layout.retain)}(ptr {dtype})")
    rank = w.op(f"trunc i64 {w.item(at, Result.RANK, 'i64')} to i32")
    place = w.op(f"getelementptr i8, ptr {data}, i64 {w.item(at, Result.OFFSET, 'i64')}")
    mask = w.item(at, Result.FLAGS, "i64")
    allowed = w.op(f"and i32 {flags}, {w.op(f'trunc i64 {mask} to i32')}")
    made = w.op(f"call ptr {w.known(layout.new_array)}(ptr {w.known(id(np.ndarray))}, ptr {dtype}, i32 {rank}, ptr "
                f"{w.item(at, Result.SHAPE, 'ptr')}, ptr {w.item(at, Result.STRIDES, 'ptr')}, ptr {place}, "
                f"i32 {allowed}, ptr null)")
    w.branch([w.op(f"icmp ne ptr {made}, null")], "views.array", "views.lost")
    w.do(f"call void {w.known(layout.retain)}(ptr {memory})")
    failed = w.op(f"call i32 {w.known(layout.set_base)}(ptr {made}, ptr {memory})")
    w.branch([w.op(f"icmp eq i32 {failed}, 0")], "views.based", "views.lost.array")
    return made


def _mark(w: Text, layout: Layout, plan: ViewPlan, at: str, view: str) -> None:
    """Give a view the mark of the recorded one, if it had one."""
    mark = w.item(at, Result.MARK, "ptr")
    w.do(f"br i1 {w.op(f'icmp eq ptr {mark}, null')}, label %views.marked, label %views.mark")
    w.do("views.mark:")
    failed = w.op(f"call i32 {w.known(layout.set_attribute)}(ptr {view}, ptr {w.known(id(plan.mark))}, ptr {mark})")
    w.branch([w.op(f"icmp eq i32 {failed}, 0")], "views.mark.set", "views.lost.view")
    w.do("br label %views.marked")
    w.do("views.marked:")
