"""The machine code of functions that look a call up in a table: what came before is done again without Python code.

The function describes a call by words (``call_words``) and looks for a record with the same words. A call without one
goes to the table's Python function, which adds one (``call_tables``).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from .builder import NULL, Function, Value
from .builtin import Builtin
from .call_words import WORDS, CallDescription
from .layout import Layout

#: Number of places in a table.
PLACES: Final = 128
#: Words at the beginning of a table; the addresses that the code uses follow.
Head = IntEnum("Head", "NEXT_PATH MISS PLACES WORDS MISSED_WORDS COUNT HASH MISSES OVERRIDES", start=0)
#: The kind of a record whose calls go to the next path; other kinds have greater numbers.
OTHER: Final = 0
#: Words of the record of one call. Its results are rows of words, which each kind defines.
Record = IntEnum("Record", "HASH COUNT WORDS KIND RESULTS RESULTS_PLACE OWNER", start=0)


class CallCode(Builtin):
    """The beginning of such a function; it leads to ``slow`` and ``miss``, which ``end`` writes.

    It holds no references until the call is found, because nothing before runs Python code.
    """

    def __init__(self, layout: Layout, name: str, description: CallDescription) -> None:
        super().__init__(layout, name, len(Head))
        self._description = description

    def find(self) -> Value:
        """Return the record of the call; go to ``slow`` if the next path serves such calls."""
        words = self.table.pointer(Head.WORDS)
        size, key = self._description.write(self, words)
        record = self.call(_find, words, size, key)
        with self.when(record == NULL):
            self._note_miss(words, size, key)
            self.return_call(self.table.pointer(Head.MISS))
        self.require(record[Record.KIND] != OTHER)
        return record

    def end(self) -> None:
        """Write the way to the next path."""
        self.label("slow")
        self.return_call(self.table.pointer(Head.NEXT_PATH))

    def _note_miss(self, words: Value, size: Value, key: Value) -> None:
        """Note the words of the call for the function that adds a record, and count the misses.

        A garbage collection before that function begins may run code with other calls; a count tells whether one
        missed.
        """
        table = self.table
        table[Head.COUNT], table[Head.HASH], table[Head.MISSES] = size, key, table[Head.MISSES] + 1
        self.copy(table.pointer(Head.MISSED_WORDS), words, 8 * WORDS)


def _find(f: Function, words: Value, size: Value, key: Value) -> None:
    """Write a helper that returns the record of a call, or null."""
    places = f.table.pointer(Head.PLACES)
    with f.loop(PLACES) as k:
        record = places.pointer(key + k & PLACES - 1)
        f.require(record != NULL)
        f.require(record[Record.HASH] == key, record[Record.COUNT] == size, otherwise="other")
        known = record.pointer(Record.WORDS)
        with f.loop(size) as n:
            f.require(words[n] == known[n], otherwise="other")
        f.returns(record)
        f.label("other")
