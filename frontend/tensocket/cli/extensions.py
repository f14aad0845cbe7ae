"""Commands that other distributions add: entry points of the group ``tensocket.commands``.

The name of the entry point is the command; its value is a function that takes the remaining arguments as a list of
strings and returns the exit code. Only its own command imports it.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import Final

from tensocket_plugins.contract.entrypoints import Offer, offers

GROUP: Final = "tensocket.commands"
#: Commands of this package; other distributions cannot take their names.
BUILT_IN: Final = frozenset({"devices", "doctor", "new-backend"})
#: Commands to mention to users, and the distributions that provide them.
KNOWN: Final = {"conformance": "tensocket-conformance"}


@dataclass(frozen=True)
class Extension:
    """A command that is found by name.

    Attributes:
        name: The command.
        offers: The distributions that offer it: none if it is only known, several if distributions clash.
    """

    name: str
    offers: tuple[Offer, ...]

    @property
    def help(self) -> str:
        """Help text for the list of commands."""
        origins = " and ".join(offer.origin for offer in self.offers)
        return f"of {origins}" if origins else f"needs: pip install {KNOWN[self.name]}"

    def run(self, arguments: list[str]) -> int:
        """Import and run the command; report problems on stderr.

        Returns:
            The command's result; 2 if no distribution or more than one offers it; 1 if it cannot be imported.
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
    """Return the commands of other distributions, and known ones that are not installed."""
    found: dict[str, tuple[Offer, ...]] = dict.fromkeys(KNOWN, ())
    for offer in offers(GROUP):
        if offer.name not in BUILT_IN:
            found[offer.name] = (*found.get(offer.name, ()), offer)
    return {name: Extension(name, offered) for name, offered in found.items()}
