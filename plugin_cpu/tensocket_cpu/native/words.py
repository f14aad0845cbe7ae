"""A comparison of words of memory with the values that they must have, as one built-in function.

Words of Python objects may change only while the interpreter's lock is free, so the function holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tensocket_plugins.contract.plans import WordsPlan

from ..code.pointers import address_of
from .builtin import Builtin, Code
from .layout import Layout

if TYPE_CHECKING:
    from ..code.compiler import Compiler


def make_words(compiler: Compiler, layout: Layout, plan: WordsPlan) -> Callable[[], bool]:
    """Compile a comparison: ``check() -> bool``."""
    equal, unequal = ([np.ascontiguousarray(x, np.uint64) for x in pair] for pair in (
        (plan.addresses, plan.values), (plan.unequal_addresses, plan.unequal_values)))
    f = Builtin(layout, "tensocket_words")
    for (addresses, values), condition in ((equal, "eq"), (unequal, "ne")):
        places, wanted = (f.known(address_of(x) if x.size else 0) for x in (addresses, values))
        with f.loop(f.known(addresses.size, "i64")) as k:
            f.require(places.pointer(k)[0].compare(condition, wanted[k]))
    f.returns(f.retain(f.object(True)))
    f.label("slow")
    f.returns(f.retain(f.object(False)))
    address, library = compiler.compile_once(f.text(), f.name)
    code = Code(f.name, address, f.addresses, (library, equal, unequal))
    check: Callable[[], Any] = code.method(code.table())
    return check
