"""Tables of keys and bytes with which processes find each other; the only process has the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Condition
from typing import Any

from tensocket.errors import ProcessGroupError

__all__ = ["DistError", "DistStoreError", "FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]


class DistError(RuntimeError):
    """An error of processes that work together."""


class DistStoreError(DistError):
    """A key that nobody set in time."""


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """A table that threads of a program share; reading a key waits until it is set."""

    def __init__(self) -> None:
        self._table: dict[str, bytes] = {}
        self._changed = Condition()
        self.timeout = timedelta(minutes=5)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long reading waits."""
        self.timeout = timeout

    def set(self, key: str, value: Any) -> None:
        """Set a key to a string or bytes."""
        with self._changed:
            self._table[key] = _bytes(value)
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        """Return the bytes of a key, once it is set.

        Raises:
            DistStoreError: The time for waiting is over.
        """
        self.wait([key])
        return self._table[key]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until keys are set.

        Raises:
            DistStoreError: The time for waiting is over.
        """
        limit = self.timeout if timeout is None else timeout
        with self._changed:
            if not self._changed.wait_for(lambda: self.check(keys), limit.total_seconds()):
                missing = [key for key in keys if key not in self._table]
                raise DistStoreError(f"[Store.wait] keys {missing} — wait timeout after "
                                     f"{limit.total_seconds() * 1000:.0f}ms — set them in another thread first")

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at zero, and return its value."""
        with self._changed:
            total = int(self._table.get(key, b"0")) + amount
            self._table[key] = _bytes(total)
            self._changed.notify_all()
        return total

    def append(self, key: str, value: Any) -> None:
        """Add bytes to the end of a key's."""
        with self._changed:
            self._table[key] = self._table.get(key, b"") + _bytes(value)
            self._changed.notify_all()

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set a key if it has the expected value, or if none is expected of a new key; return what it has then."""
        with self._changed:
            present = self._table.get(key)
            if present == _bytes(expected_value) or (present is None and not expected_value):
                self._table[key] = _bytes(desired_value)
                self._changed.notify_all()
            return self._table.get(key, _bytes(expected_value))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are set."""
        return all(key in self._table for key in keys)

    def delete_key(self, key: str) -> bool:
        """Delete a key, and return whether it was set."""
        with self._changed:
            return self._table.pop(key, None) is not None

    def num_keys(self) -> int:
        """Return the number of keys."""
        return len(self._table)

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Set several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the bytes of several keys, once they are set."""
        return [self.get(key) for key in keys]

    def has_extended_api(self) -> bool:
        """Return True: ``append``, ``multi_get`` and ``multi_set`` work."""
        return True


class HashStore(Store):
    """A table in the memory of the process."""


def _alone(store: str, world_size: int | None) -> None:
    if world_size not in (None, -1, 1):
        raise ProcessGroupError(store, f"a world of {world_size} processes", "programs run as 1 process",
                                "pass world_size=1, or exchange data through multiprocessing.Manager")


class FileStore(Store):
    """A table with a file's name; the only process has it in memory.

    Args:
        file_name: The name.
        world_size: Number of processes: 1, or -1 for as many as there are.

    Raises:
        ProcessGroupError: There are several processes.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        _alone("FileStore", world_size)
        super().__init__()
        self.path = file_name


class TCPStore(Store):
    """A table with the address of a server; the only process is server and client.

    Args:
        host_name: The server's host.
        port: Its port.
        world_size: Number of processes: 1, or None for as many as there are.
        is_master: Whether this process is the server.
        timeout: How long reading waits.
        options: Accepted as in PyTorch; they control the server.

    Raises:
        ProcessGroupError: There are several processes, or the server is another one.
    """

    def __init__(self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
                 timeout: timedelta = timedelta(minutes=5), **options: Any) -> None:
        _alone("TCPStore", world_size)
        if not is_master:
            raise ProcessGroupError("TCPStore", f"the server {host_name}:{port} of another process",
                                    "programs run as 1 process", "pass is_master=True")
        super().__init__()
        self.host, self.port, self.timeout = host_name, port, timeout


class PrefixStore(Store):
    """The keys of another table that begin with a prefix.

    Args:
        prefix: The prefix, which ``/`` follows.
        store: The table.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store, self.timeout = prefix, store, store.timeout

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def set(self, key: str, value: Any) -> None:
        """Set a key to a string or bytes."""
        self.underlying_store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        """Return the bytes of a key, once it is set."""
        return self.underlying_store.get(self._key(key))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until keys are set."""
        self.underlying_store.wait([self._key(key) for key in keys], self.timeout if timeout is None else timeout)

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at zero, and return its value."""
        return self.underlying_store.add(self._key(key), amount)

    def append(self, key: str, value: Any) -> None:
        """Add bytes to the end of a key's."""
        self.underlying_store.append(self._key(key), value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set a key if it has the expected value, or if none is expected of a new key; return what it has then."""
        return self.underlying_store.compare_set(self._key(key), expected_value, desired_value)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are set."""
        return self.underlying_store.check([self._key(key) for key in keys])

    def delete_key(self, key: str) -> bool:
        """Delete a key, and return whether it was set."""
        return self.underlying_store.delete_key(self._key(key))

    def num_keys(self) -> int:
        """Return the number of keys of the whole table."""
        return self.underlying_store.num_keys()
