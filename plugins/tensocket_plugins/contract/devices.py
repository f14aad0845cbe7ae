"""Device names: ``cpu``, ``opencl:1``. Parsing only; the registry decides whether a device exists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .entrypoints import ENTRY_POINT_GROUP, closest, offers
from .errors import ArgumentError, ArgumentTypeError, InvalidDeviceIndex, UnknownDevice

NAME: Final = re.compile(r"[a-z][a-z0-9_]{1,31}", re.ASCII)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


class Device:
    """A device as users name it: ``Device("opencl:1")``, ``Device("opencl", 1)``, a number or another device.

    Attributes:
        type: The backend's name.
        index: Position among its devices; None if the name has none.

    Raises:
        ArgumentTypeError: ``type`` is not a string, a number or a device.
        UnknownDevice: ``type`` does not have the form ``name`` or ``name:index``.
        InvalidDeviceIndex: The index is not a plain non-negative number.
    """

    __slots__ = ("index", "type")
    __match_args__ = ("type", "index")

    type: str
    index: int | None

    def __init__(self, type: object, index: int | None = None) -> None:
        name, number = (type.type, type.index) if isinstance(type, Device) and index is None else _parse(type, index)
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", number)

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"[device] another {name} — a device is a value that does not change — make another one")

    __delattr__ = __setattr__  # which is then called without a value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __enter__(self) -> Device:
        SELECTION[0].enter(self)
        return self

    def __exit__(self, *error: object) -> None:
        SELECTION[0].leave()

    def __reduce__(self) -> tuple[object, tuple[str, int | None]]:
        return Device, (self.type, self.index)


def _parse(name: object, index: object) -> tuple[str, int | None]:
    if isinstance(name, int) and not isinstance(name, bool) and index is None:
        name, index = NUMBERED, name
    if not isinstance(name, str):
        raise ArgumentTypeError("device", f"{type(name).__name__} {name!r}", "a device is named by a string",
                                "pass a name such as 'cpu' or 'opencl:0'")
    kind, colon, digits = name.partition(":")
    if not NAME.fullmatch(kind):
        match = closest(kind, [offer.name for offer in offers(ENTRY_POINT_GROUP) if NAME.fullmatch(offer.name)])
        advice = f"did you mean '{match}'?" if match else "pass a name such as 'cpu' or 'opencl:0'"
        raise UnknownDevice("device", f"device {name!r}", "a device name is a lower-case word of 2 to 32 letters, "
                            "digits and '_', with an optional ':index'", advice)
    if colon and (index is not None or not _INDEX.fullmatch(digits)):
        raise InvalidDeviceIndex("device", f"device {name!r}", "the index after ':' is a non-negative decimal number "
                                 "without leading zeros, given once", f"pass '{kind}' or '{kind}:0'")
    if index is not None and (not isinstance(index, int) or isinstance(index, bool) or index < 0):
        raise InvalidDeviceIndex("device", f"index {index!r}", "a device index is a non-negative int",
                                 f"pass '{kind}' or '{kind}:0'")
    if kind == NUMBERED and not CALLED:
        for ask in BEFORE_NUMBERED:
            ask()
    return CALLED.get(kind, kind), int(digits) if colon else index


def parse_device(name: object, index: int | None = None) -> Device:
    """Return ``name`` as a device; raises as ``Device`` does."""
    return name if isinstance(name, Device) and index is None else Device(name, index)


class Selection:
    """The actions of ``with device:``; they only raise until a runtime sets its own in ``SELECTION``."""

    def enter(self, device: Device) -> None:
        """Make ``device`` this thread's default device.

        Raises:
            ArgumentError: No runtime is present that could use it.
        """
        raise ArgumentError("device", f"with device '{device}'", "a device is selected for a runtime's factories",
                            "import tensocket first")

    def leave(self) -> None:
        """Restore the previous default device."""


#: The runtime's actions.
SELECTION: Final[list[Selection]] = [Selection()]

#: The default device, as in PyTorch.
HOST_DEVICE: Final = "cpu"

#: The device type of a number alone, as in PyTorch: ``x.to(0)``.
NUMBERED: Final = "cuda"

#: Called before a program uses the name ``NUMBERED``: a runtime can let other devices answer for it (``stand_in``).
BEFORE_NUMBERED: Final[list[Callable[[], None]]] = []

#: Names of devices in this process by their given names; empty unless ``stand_in`` was called.
CALLED: Final[dict[str, str]] = {}
#: The backend of a name, if it is not the backend with that name.
MEANT: Final[dict[str, str]] = {}


def stand_in(backend: str | None, name: str) -> None:
    """Let the devices of ``backend`` answer for ``name``, so that programs written for that name run on them.

    The devices are called ``name`` from now on, whichever of both names is given: a program sees one kind of device,
    and a backend that is really called ``name`` is unreachable. The host's devices keep their name, and ``name`` is a
    synonym for it.

    Args:
        backend: The backend that answers; None ends it.
        name: The name that programs use.
    """
    CALLED.clear()
    MEANT.clear()
    if backend == HOST_DEVICE:
        CALLED[name] = backend
    elif backend is not None and backend != name:
        CALLED[backend] = name
        MEANT[name] = backend
