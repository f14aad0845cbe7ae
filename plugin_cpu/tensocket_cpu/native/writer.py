"""Lines of LLVM IR, and the addresses that they use."""

from __future__ import annotations


class Text:
    """Lines of a function whose ``%table`` is an array of addresses.

    Attributes:
        lines: So far.
        addresses: What the table holds. The lines know places in it only, so that they are the same in every process.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.addresses: list[int] = []
        self._count = 0

    def known(self, address: int) -> str:
        """An address, from the table."""
        self.addresses.append(address)
        return self.item("%table", len(self.addresses) - 1, "ptr")

    def label(self) -> str:
        """A new label."""
        self._count += 1
        return f"at{self._count}"

    def branch(self, conditions: list[str], label: str = "", otherwise: str = "slow") -> None:
        """Go on at ``label`` where all conditions hold."""
        label = label or self.label()
        both = conditions[0]
        for condition in conditions[1:]:
            both = self.op(f"and i1 {both}, {condition}")
        self.do(f"br i1 {both}, label %{label}, label %{otherwise}")
        self.do(f"{label}:")

    def op(self, text: str) -> str:
        """An instruction with a result."""
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def do(self, text: str) -> None:
        """An instruction without a result, or a label."""
        self.lines.append(text if text.endswith(":") else f"  {text}")

    def field(self, base: str, offset: int, kind: str) -> str:
        """The value ``offset`` bytes behind a pointer."""
        at = self.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.op(f"load {kind}, ptr {at}")

    def item(self, base: str, index: int | str, kind: str) -> str:
        """Element of an array of words."""
        at = self.op(f"getelementptr i64, ptr {base}, i64 {index}")
        return self.op(f"load {kind}, ptr {at}")
