"""Commands that other distributions add: entry points of the group ``tensocket.commands``.

The name of the entry point is the command, its value a function that takes the remaining arguments as a list of strings
and returns the exit code. It is imported when its command is given, and at no other time.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import Final

from tensocket_plugins.contract.entrypoints import Offer, offers

GROUP: Final = "tensocket.commands"
#: Commands of this package; no other distribution can take their names.
BUILT_IN: Final = frozenset({"devices", "doctor", "new-backend"})
#: Commands that users are told about, and the distribution that brings them.
KNOWN: Final = {"conformance": "tensocket-conformance"}


@dataclass(frozen=True)
class Extension:
    """A command that is found by name.

    Attributes:
        name: The command.
        offers: Who offers it: nobody if it is only known, several if distributions clash.
    """

    name: str
    offers: tuple[Offer, ...]

    @property
    def help(self) -> str:
        """One line for the list of commands."""
        origins = " and ".join(offer.origin for offer in self.offers)
        return f"of {origins}" if origins else f"needs: pip install {KNOWN[self.name]}"

    def run(self, arguments: list[str]) -> int:
        """Import and run the command; problems are told on stderr.

        Returns:
            What the command returns; 2 if nobody or more than one distribution offers it; 1 if it cannot be imported.
        """
        if not self.offers:
            return _complain(self.name, f"not installed — it comes with {KNOWN[self.name]} — "
                             f"install it: pip install {KNOWN[self.name]}", 2)
        if len(self.offers) > 1:
            return _complain(self.name, f"offered by {' and '.join(offer.origin for offer in self.offers)} — a command "
                             "comes from one distribution — uninstall the others", 2)
        try:
            command = self.offers[0].load()
        except KeyboardInterrupt:
            raise
        except BaseException:
            traceback.print_exc()
            return _complain(self.name, f"it cannot be imported (see above) — {self.offers[0].origin} brings it — "
                             f"upgrade it: pip install -U {self.offers[0].distribution}", 1)
        if not callable(command):
            return _complain(self.name, f"{self.offers[0].target} is not a function — {self.offers[0].origin} brings "
                             "it — report this to its authors", 1)
        return int(command(arguments) or 0)


def _complain(name: str, problem: str, code: int) -> int:
    print(f"tensocket {name}: {problem}", file=sys.stderr)
    return code


def find_extensions() -> dict[str, Extension]:
    """Return the commands of other distributions, and those that are known but not installed."""
    found: dict[str, tuple[Offer, ...]] = dict.fromkeys(KNOWN, ())
    for offer in offers(GROUP):
        if offer.name not in BUILT_IN:
            found[offer.name] = (*found.get(offer.name, ()), offer)
    return {name: Extension(name, offered) for name, offered in found.items()}
