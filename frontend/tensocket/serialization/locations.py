"""Locations of storages: the names of devices in files, and ``map_location``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tensocket.errors import DeviceError, SerializationError
from tensocket_core import device as Device
from tensocket_core.device import open_device

Tagger = Callable[[Any], str | None]
Deserializer = Callable[[Any, str], Any]
#: A function from a storage on the host and its place in the file to the storage to use.
Restore = Callable[[Any, str], Any]
#: The kinds of ``map_location``, under PyTorch's name.
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | Device | str | dict[str, str] | None


def _host_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def _host_storage(storage: Any, location: str) -> Any:
    return storage.cpu() if location == "cpu" else None


def _device_tag(storage: Any) -> str | None:
    return str(storage.device)


def _device_storage(storage: Any, location: str) -> Any:
    try:
        return storage.to(device=open_device(location).device)
    except DeviceError as error:
        raise SerializationError("load", f"a storage on {location!r} ({error.given} — {error.rule})",
                                 "storages return to the device that they were on, which must be here",
                                 "pass map_location='cpu' or another device") from error


#: Sorted by priority. The last one handles every device.
_PACKAGES: list[tuple[int, Tagger, Deserializer]] = [(10, _host_tag, _host_storage),
                                                     (1000, _device_tag, _device_storage)]


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Register functions that convert between places of storages and names in files.

    Args:
        priority: Packages with smaller priorities come first; the host has 10, all other devices 1000.
        tagger: The name in files of a storage's place, or None if it belongs to another package.
        deserializer: A function that moves a storage on the host to the place with a given name, or returns None if it
            does not know the name.
    """
    _PACKAGES.append((priority, tagger, deserializer))
    _PACKAGES.sort(key=lambda state: state[0])


def location_tag(storage: Any) -> str:
    """Return the name in files of a storage's place.

    Raises:
        SerializationError: No package knows the place.
    """
    for _, tagger, _ in _PACKAGES:
        location = tagger(storage)
        if location:
            return location
    raise SerializationError("save", f"a storage on {storage.device}", "the place of a storage has a name",
                             "move it to the host first")


def default_restore_location(storage: Any, location: str) -> Any:
    """Move a storage on the host to the place with this name in files.

    Raises:
        SerializationError: The place is unknown or does not exist here.
    """
    for _, _, deserializer in _PACKAGES:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise SerializationError("load", f"a storage on {location!r}", "the place of a storage is known to a package",
                             "pass map_location='cpu' or another device")


def restore_function(map_location: Any) -> Restore:
    """Return the function that ``map_location`` of ``load`` means."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        names = {str(key): str(value) for key, value in map_location.items()}
        return lambda storage, location: default_restore_location(storage, names.get(location, location))
    if isinstance(map_location, (str, Device)):
        return lambda storage, _: default_restore_location(storage, str(map_location))

    def restore(storage: Any, location: str) -> Any:
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore
