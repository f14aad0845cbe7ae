"""Device names: ``cpu``, ``opencl:1``. Parsing only; whether the device exists is the registry's business."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .entrypoints import closest, offers
from .errors import ArgumentTypeError, InvalidDeviceIndex, UnknownDevice
from .hooks import ENTRY_POINT_GROUP

NAME: Final = re.compile(r"[a-z][a-z0-9_]{1,31}", re.ASCII)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Device:
    """A device as the user names it. ``index`` is None where the name gave none."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"


def parse_device(name: object, index: int | None = None) -> Device:
    """The device called ``name``, with an optional separate ``index`` as in ``device("cuda", 1)``.

    Raises:
        ArgumentTypeError: ``name`` is neither a string nor a device.
        UnknownDevice: ``name`` does not have the form ``name`` or ``name:index``.
        InvalidDeviceIndex: The index is not a plain non-negative number.
    """
    if isinstance(name, Device) and index is None:
        return name
    if not isinstance(name, str):
        raise ArgumentTypeError("device", f"{type(name).__name__} {name!r}", "a device is named by a string",
                                "pass a name such as 'cpu' or 'opencl:0'")
    kind, colon, digits = name.partition(":")
    if not NAME.fullmatch(kind):
        match = closest(kind, [offer.name for offer in offers(ENTRY_POINT_GROUP)])
        advice = f"did you mean '{match}'?" if match else "pass a name such as 'cpu' or 'opencl:0'"
        raise UnknownDevice("device", f"device {name!r}", "a device name is a lower-case word of 2 to 32 letters, "
                            "digits and '_', with an optional ':index'", advice)
    if colon and (index is not None or not _INDEX.fullmatch(digits)):
        raise InvalidDeviceIndex("device", f"device {name!r}", "the index after ':' is a non-negative decimal number "
                                 "without leading zeros, given once", f"pass '{kind}' or '{kind}:0'")
    number: object = index  # Users pass anything, whatever the annotation says.
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise InvalidDeviceIndex("device", f"index {index!r}", "a device index is a non-negative int",
                                 f"pass '{kind}' or '{kind}:0'")
    return Device(kind, int(digits) if colon else index)
