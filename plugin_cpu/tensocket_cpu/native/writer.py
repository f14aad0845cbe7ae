"""Lines of LLVM IR, and the addresses that they use.

Functions of this package that take a ``Text`` write instructions; their docstrings say what the instructions do.
"""

from __future__ import annotations


class Text:
    """Lines of a function whose ``%table`` is an array of addresses.

    Attributes:
        lines: The lines so far.
        addresses: The contents of the table. The lines refer to them by index, so that they are the same in every
            process.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.addresses: list[int] = []
        self._count = 0

    def known(self, address: int) -> str:
        """Add an address to the table, and load it from there."""
        self.addresses.append(address)
        return self.item("%table", len(self.addresses) - 1, "ptr")

    def label(self) -> str:
        """Return a new label."""
        self._count += 1
        return f"at{self._count}"

    def branch(self, conditions: list[str], label: str = "", otherwise: str = "slow") -> None:
        """Continue at ``label`` if all conditions hold, else at ``otherwise``."""
        label = label or self.label()
        both = conditions[0]
        for condition in conditions[1:]:
            both = self.op(f"and i1 {both}, {condition}")
        self.do(f"br i1 {both}, label %{label}, label %{otherwise}")
        self.do(f"{label}:")

    def op(self, text: str) -> str:
        """Add an instruction with a result; return the result's name."""
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def do(self, text: str) -> None:
        """Add an instruction without a result, or a label."""
        self.lines.append(text if text.endswith(":") else f"  {text}")

    def field(self, base: str, offset: int, kind: str) -> str:
        """Load the value ``offset`` bytes after a pointer."""
        at = self.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.op(f"load {kind}, ptr {at}")

    def item(self, base: str, index: int | str, kind: str) -> str:
        """Load an element of an array of words."""
        at = self.op(f"getelementptr i64, ptr {base}, i64 {index}")
        return self.op(f"load {kind}, ptr {at}")
