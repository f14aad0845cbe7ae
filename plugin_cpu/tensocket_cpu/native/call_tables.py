"""Tables of calls that came before, which machine code looks up (``call_code``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..code.pointers import address_of
from .builtin import Code, Words
from .call_code import PLACES, Head, Record
from .call_words import WORDS

#: The most records of a table; when it is full, they go. A third of the places stays free, so that a search is short.
_RECORDS: Final = 80
#: How often a table is emptied; after that, new calls take the next path.
_ROUNDS: Final = 16
#: The most calls that came once, and the most that cannot be noted; after that, new calls take the next path at once.
_ONCE: Final = 1024
_REFUSED: Final = 256


class CallTable:
    """The records of one function, which the next path serves in all other calls.

    Subclasses define ``learn``.

    Attributes:
        function: The function.

    Args:
        code: The machine code.
        next_path: The next path.
        kind: Class of objects around arrays, which records do not keep alive.
        heads: Further words at the beginning of the table.
        alive: Owners of addresses.
    """

    def __init__(self, code: Code, next_path: Callable[..., Any], kind: type, heads: dict[Head, int], *alive: Any
                 ) -> None:
        self._next_path, self._kind = next_path, kind
        self._words, self._missed = np.zeros((2, WORDS), np.uint64)
        self._places = np.zeros(PLACES, np.uint64)
        self._records: list[Any] = []
        self._once: set[int] = set()
        self._rounds = self._noted = self._refused = 0
        miss = self._miss
        table = self._table = code.table()
        for head, word in heads.items():
            table[head] = word
        table[Head.NEXT_PATH], table[Head.MISS] = id(next_path), id(miss)
        table[Head.PLACES], table[Head.WORDS] = address_of(self._places), address_of(self._words)
        table[Head.MISSED_WORDS] = address_of(self._missed)
        table.alive = next_path, miss, code, self._places, self._words, self._missed, alive
        self.function = code.method(table)

    def learn(self, words: Any, key: int, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Add a record of a call by ``add``; return False if objects among the arguments do not describe it."""
        raise NotImplementedError

    def _miss(self, *args: Any, **named: Any) -> Any:
        """Serve a call without a record, and add one."""
        count, key, misses = [int(self._table[k]) for k in (Head.COUNT, Head.HASH, Head.MISSES)]
        if key not in self._once:  # a call that comes once, such as one of a loop over rows, is not worth a record
            self._once.add(key)
            if len(self._once) > _ONCE:
                self._stop()
            self._noted = misses
            return self._next_path(*args, **named)
        words, is_own = self._missed[:count].copy(), misses != self._noted
        self._noted = misses
        result = self._next_path(*args, **named)
        if is_own and not self.learn(words, key, args, named):
            self._refused += 1
            if self._refused == _REFUSED:
                self._stop()
        return result

    def _stop(self) -> None:
        """Let calls without a record take the next path at once."""
        self._table[Head.MISS] = id(self._next_path)

    def add(self, words: Any, key: int, kind: int, results: Sequence[tuple[list[int], Any]], args: tuple[Any, ...],
            named: dict[str, Any]) -> Words:
        """Add and return a record.

        Args:
            words, key: The words of the call, and their hash.
            kind: The kind of the record.
            results: For each result its words, and the owners of the addresses among them.
            args, named: The arguments.
        """
        record = Words(len(Record), np.uint64)
        rows = np.array([row for row, _ in results], np.uint64)
        record[:] = [key, len(words), address_of(words), kind, len(results), address_of(rows) if results else 0,
                     id(record)]
        # Arguments whose identity the words hold stay alive; tensors, and the memory of views, don't.
        record.alive = words, rows, [owners for _, owners in results], [
            x for x in (*args, *named.values()) if not isinstance(x, self._kind)]
        if len(self._records) == _RECORDS:
            self._places[:] = 0
            self._records = []
            self._rounds += 1
            if self._rounds == _ROUNDS:
                self._stop()
        self._records.append(record)
        place = key % PLACES
        while self._places[place]:
            place = (place + 1) % PLACES
        self._places[place] = address_of(record)
        return record
