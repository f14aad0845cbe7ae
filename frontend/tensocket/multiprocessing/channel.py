"""A connection between two processes: objects are pickled, the memory of host tensors and arrays goes in segments.

A message is a pickle and the blocks of memory that it refers to. Small blocks go through the socket. The sender copies
large blocks to a segment, once, and the receiver's tensors use that memory. When the last of these tensors is gone, the
receiver says so with its next message, and the sender reuses the segment, which saves the page faults of fresh memory.
Segments have no names, and both sides close descriptors as soon as they have mapped the memory, so nothing can leak,
not even when processes are killed.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import pickle
import select
import socket
import struct
from collections import deque
from collections.abc import Iterable
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket.errors import OutOfMemoryError
from tensocket_operators import Tensor
from tensocket_operators.interop.sending import packed_parts
from tensocket_operators.interop.shared import ALIGNMENT, Segment

Bytes = NDArray[np.uint8]

#: Segment (0 for none, else its number from 1), its size if it is new, number of blocks.
_HEADER: Final = struct.Struct("<QQQ")
#: Largest number of bytes that go through the socket.
_INLINE: Final = 1 << 15
#: Number of unused segments that a sender keeps.
_KEPT: Final = 8


class Channel:
    """One end of a connection.

    Args:
        connection: A connected Unix stream socket, which the channel owns.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._pool = _Pool()
        self._mapped: dict[int, Segment] = {}
        self._returned: deque[int] = deque()

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the connection, for the other side and for all copies of this end in other processes."""
        with contextlib.suppress(OSError):  # the other side has ended it
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def forget(self) -> None:
        """Close this end in a process that inherited it; the connection stays."""
        self._socket.close()

    def ready(self, events: int, seconds: float | None) -> bool:
        """Wait until one of ``select``'s events has happened; the end of the connection always counts."""
        waiting = select.poll()
        waiting.register(self._socket, events)
        return bool(waiting.poll(None if seconds is None else seconds * 1000))

    # ------------------------------------------------------------------------------------------------ sending

    def send(self, message: object) -> None:
        """Send a picklable object.

        Raises:
            ConnectionError: The other side has ended.
            OutOfMemoryError: The system has no shared memory left.
        """
        pieces = self._pickled(message)
        sizes = [piece.size for piece in pieces]
        table = struct.pack(f"<{len(sizes)}Q", *sizes)
        places, total = _places(sizes)
        if total <= _INLINE:
            self._socket.sendall(b"".join([_HEADER.pack(0, 0, len(sizes)), table, *[p.tobytes() for p in pieces]]))
            return
        number, segment, new = self._pool.take(total)
        memory = segment.array(0, total)
        for piece, place in zip(pieces, places, strict=True):
            memory[place : place + piece.size] = piece
        head = _HEADER.pack(number, segment.nbytes if new else 0, len(sizes)) + table
        sent = socket.send_fds(self._socket, [head], [segment.descriptor]) if new else 0
        self._socket.sendall(head[sent:])
        segment.close()

    def _pickled(self, message: object) -> list[Bytes]:
        """Return the pickle and the memory that it refers to."""
        buffers: list[pickle.PickleBuffer] = []
        returned, dropped = list(self._returned), self._pool.dropped
        text = io.BytesIO()
        _Pickler(text, 5, True, buffers.append).dump((returned, dropped, message))
        # After pickling, which calls code that may fail.
        self._pool.dropped = []
        for _ in returned:
            self._returned.popleft()
        return [np.frombuffer(part, np.uint8) for part in (text.getbuffer(), *[buffer.raw() for buffer in buffers])]

    # ------------------------------------------------------------------------------------------------ receiving

    def receive(self) -> Any:
        """Wait for the next object and return it.

        Raises:
            EOFError: The other side ended the connection or has died.
        """
        descriptors: list[int] = []
        number, new, count = _HEADER.unpack(self._head(descriptors))
        sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count).data)
        if number:
            pieces = self._in_segment(number, new, descriptors, sizes)
        else:
            body = self._exactly(sum(sizes))
            ends = itertools.accumulate(sizes)
            # Separate blocks, so that no tensor keeps the memory of others alive.
            pieces = [body[end - size : end].copy() for end, size in zip(ends, sizes, strict=True)]
        returned, dropped, message = pickle.loads(pieces[0].data, buffers=pieces[1:])
        self._pool.give(returned)
        for number in dropped:
            del self._mapped[number]
        return message

    def _head(self, descriptors: list[int]) -> bytes:
        """Return a header and its descriptor."""
        try:
            head, received, _, _ = socket.recv_fds(self._socket, _HEADER.size, 1)
        except ConnectionError:
            raise EOFError from None
        descriptors += received
        if not head:
            raise EOFError
        return head + self._exactly(_HEADER.size - len(head)).tobytes()

    def _exactly(self, count: int) -> Bytes:
        body = np.empty(count, np.uint8)
        view, done = body.data, 0
        while done < count:
            try:
                received = self._socket.recv_into(view[done:])
            except ConnectionError:
                received = 0
            if not received:
                raise EOFError
            done += received
        return body

    def _in_segment(self, number: int, new: int, descriptors: list[int], sizes: tuple[int, ...]) -> list[Bytes]:
        if new:
            if not descriptors:
                raise OutOfMemoryError("receive", f"a message of {new} bytes", "a message needs a file descriptor, and "
                                       "this process has none left", "close files, or raise the limit (ulimit -n)")
            segment = self._mapped[number] = Segment(descriptors[0], new)
            segment.close()
        segment, lease = self._mapped[number], _Lease(number, self._returned)
        places, _ = _places(sizes)
        return [segment.array(place, size, lease) for place, size in zip(places, sizes, strict=True)]


class _Pickler(ForkingPickler):
    """A pickler that takes the memory of host tensors out of the pickle, as pickle does with arrays."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            parts = packed_parts(obj)
            if parts is not None:
                return parts
        return NotImplemented


class _Lease:
    """An object that all arrays of a message hold: when it is gone, the segment can be reused."""

    __slots__ = ("number", "returned")

    def __init__(self, number: int, returned: deque[int]) -> None:
        self.number = number
        self.returned = returned

    def __del__(self) -> None:
        # This may run at any time: append is atomic and takes no lock.
        self.returned.append(self.number)


class _Pool:
    """The segments of a sender, by numbers from 1.

    Attributes:
        dropped: Entries that the receiver must forget.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[int, Segment] = {}
        self._free: list[int] = []
        self.dropped: list[int] = []

    def take(self, nbytes: int) -> tuple[int, Segment, bool]:
        """Return the number and segment for a message of ``nbytes``, and whether it is new."""
        for number in self._free:
            if nbytes <= self._known[number].nbytes <= 2 * nbytes:
                self._free.remove(number)
                return number, self._known[number], False
        # A little more than needed, for messages that differ by a few bytes.
        segment = Segment.create(-(-(nbytes + (nbytes >> 4)) // 4096) * 4096)
        number = next(self._numbers)
        self._known[number] = segment
        return number, segment, True

    def give(self, numbers: Iterable[int]) -> None:
        """Mark segments as unused that the receiver has released."""
        self._free.extend(numbers)
        while len(self._free) > _KEPT:
            number = self._free.pop(0)
            del self._known[number]
            self.dropped.append(number)


def _places(sizes: Iterable[int]) -> tuple[list[int], int]:
    """Return the starts of blocks in a segment, and the end of the last one."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return places, end
