"""Programs of views, changes in place, indexing, reductions and gradients, step by step against a model in NumPy.

After each step, all tensors are compared: elements, geometry, memory, versions, and what requires a gradient. At the
end, gradients of the leaves are compared with the derivatives that the model carried along (see ``tangents``).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

import numpy as np

import tensocket as ts

from . import changes
from .campaign import Campaign
from .changes import Dual, Rng, dual
from .tangents import Var, fresh
from .views import VIEWS

_STEPS: Final = 14
#: Tensors of a program at once.
_MOST: Final = 9


class Wrong(Exception):
    """The project differs from the model."""


class Program:
    """One program, while it runs.

    Attributes:
        vars: Tensors of the model with those of the project.
        text: The steps so far, a line each.
    """

    def __init__(self, rng: Rng, campaign: Campaign) -> None:
        self.rng = rng
        self.campaign = campaign
        self.vars: list[tuple[Var, Any]] = []
        self.names: list[str] = []
        self.text: list[str] = []
        self.leaves: list[tuple[Var, Any]] = []
        #: Buffers whose values the graph needs, with their versions at that time.
        self.saved: list[tuple[Any, int]] = []
        self.large = bool(rng.random() < 0.1)
        sizes = [self._shape() for _ in range(2)]
        self.kinds = [bool(rng.random() < 0.25) for _ in sizes]
        self.width = 0 if self.large else sum(
            int(np.prod(s)) * (1 + kind) for s, kind in zip(sizes, self.kinds, strict=True))
        first = 0
        for shape, is_complex in zip(sizes, self.kinds, strict=True):
            first = self._leaf(shape, is_complex, first)
        self._constant()

    # -------------------------------------------------------------------------------------------------- tensors

    def _shape(self) -> tuple[int, ...]:
        if self.large:
            return tuple(int(n) for n in self.rng.integers(60, 90, 2))
        return tuple(int(n) for n in self.rng.choice([1, 2, 3, 3, 4], int(self.rng.integers(0, 4))))

    def _leaf(self, shape: tuple[int, ...], is_complex: bool, first: int) -> int:
        value = self.rng.uniform(-1, 1, shape) + (1j * self.rng.uniform(-1, 1, shape) if is_complex else 0)
        model = fresh(value, np.zeros((*shape, self.width)), not self.large)
        count = len(model.buffer.values)
        if not self.large:
            model.buffer.leaf = True
            model.buffer.tangents[:, first:first + count] = np.eye(count)
        real = ts.tensor(np.asarray(value), requires_grad=not self.large)
        self.leaves.append((model, real))
        self._keep(model, real, f"leaf {shape} {'complex' if is_complex else 'float'}")
        return first + count

    def _constant(self) -> None:
        shape = self.vars[0][0].shape
        value = self.rng.uniform(-1, 1, shape)
        model = fresh(value, np.zeros((*shape, self.width)), False)
        self._keep(model, ts.tensor(np.asarray(value)), f"constant {shape}")

    def _pick(self) -> int:
        return int(self.rng.integers(len(self.vars)))

    def _keep(self, model: Var, real: Any, text: str) -> None:
        if len(self.vars) >= _MOST:
            k = self._pick()
            del self.vars[k], self.names[k]
        self.vars.append((model, real))
        self.names.append(f"x{len(self.text)}")
        self.text.append(f"{self.names[-1]} = {text}")

    # ---------------------------------------------------------------------------------------------------- steps

    def step(self) -> None:
        """One random step."""
        recorded = bool(self.rng.random() > 0.15)
        kind = self.rng.random()
        with nullcontext() if recorded else ts.no_grad():
            if kind < 0.4:
                self._view(recorded)
            elif kind < 0.65:
                self._result(recorded)
            else:
                self._change(recorded)
        self.check()

    def _view(self, recorded: bool) -> None:
        k = self._pick()
        model, real = self.vars[k]
        made = VIEWS[self.rng.integers(len(VIEWS))](self.rng, model)
        if made is None:
            return
        name, seen, call = made
        self.campaign.called()
        text = f"{self.names[k]}.{name}" + ("" if recorded else "   # no_grad")
        try:
            got = call(real)
        except Exception as error:
            raise Wrong(f"{text} raises {type(error).__name__}: {error}") from error
        if seen is None:  # a copy
            order = name.partition("(")[2].rstrip(")")
            shape = tuple(int(n) for n in order.strip("[]").split(",") if n.strip())
            value = changes.moved(dual(model), lambda a: a.reshape(shape))
            seen = self._fresh(value, got, recorded and model.requires)
        elif seen is not model:
            if name == "detach()":
                seen.detached, seen.fixed, seen.unrecorded = True, False, False
            elif not recorded:
                seen.unrecorded = True
                seen.detached = seen.detached or model.requires
                seen.fixed = seen.fixed or model.requires
            elif name.startswith(("unbind", "split")):
                seen.fixed = seen.fixed or (recorded and model.requires)
            seen.part = seen.part or name.startswith(("unbind", "split"))
        self._keep(seen, got, text)

    def _fresh(self, value: Dual, got: Any, tracked: bool) -> Var:
        """A result, laid out in memory as the project's."""
        model = fresh(value.v, value.t, tracked)
        strides = got.stride()
        order = sorted(range(len(strides)), key=lambda axis: (-strides[axis], axis))
        value = Dual(value.v.transpose(order), value.t.transpose((*order, value.v.ndim)))
        laid = fresh(value.v, value.t, tracked)
        laid.places = laid.places.transpose(np.argsort(order)) if order else laid.places
        return laid if tuple(laid.shape) == tuple(model.shape) else model

    def _result(self, recorded: bool) -> None:
        k, j = self._pick(), self._pick()
        (model, real), (other, beside) = self.vars[k], self.vars[j]
        kind = self.rng.integers(5)
        if kind < 3 and self.rng.random() < 0.12:
            made = changes.converted(self.rng, model)
        elif kind == 0:
            made = changes.unary(self.rng, model)
        elif kind == 1:
            made = changes.reduced(self.rng, model)
        elif kind == 2:
            made = changes.rearranged(self.rng, model)
        else:
            draw = changes.binary if kind == 3 else changes.joined
            made = draw(self.rng, model, other) if kind == 4 or _broadcast(model, other) else None
        if made is None:
            return
        pairs = [(model, real)] + ([(other, beside)] if kind > 2 else [])
        value = made.model(*[dual(m) for m, _ in pairs])
        if value.v.size > 400 and not self.large:
            return
        self.campaign.called()
        given = ", ".join(self.names[n] for n in (k, j)[:len(pairs)])
        text = f"{made.name}({given})" + ("" if recorded else "   # no_grad")
        try:
            got = made.real(*[r for _, r in pairs])
        except Exception as error:
            raise Wrong(f"{text} raises {type(error).__name__}: {error}") from error
        tracked = recorded and any(m.requires for m, _ in pairs)
        if made.saves and tracked:
            self.saved += [(m.buffer, m.buffer.version) for m, _ in pairs]
        result = self._fresh(value, got, tracked)
        if made.saves and tracked:
            self.saved.append((result.buffer, 0))
        if tracked and self.rng.random() < 0.15:
            factor = changes.number(self.rng)
            got.register_hook(lambda grad: None if grad is None else grad * factor)
            result.buffer.tangents *= factor
            text += f"; its gradient * {factor}"
        self._keep(result, got, text)

    def _change(self, recorded: bool) -> None:
        k, j = self._pick(), self._pick()
        (model, real), (other, beside) = self.vars[k], self.vars[j]
        made: Any = None
        if self.rng.random() < 0.6 and (model.is_complex or not other.is_complex):
            made = changes.change(self.rng, model, other)
        pairs = [(other, beside)] if made is not None else []
        made = made or changes.lonely_change(self.rng, model)
        noted = recorded and any(m.requires for m in (model, *[m for m, _ in pairs]))
        if (model.is_ambiguous() and not model.is_repeated()) or (model.detached and not model.fixed and noted):
            return
        if noted and model.part and not model.fixed:
            return  # refused where the parts were made while gradients were recorded
        if pairs and other.buffer is model.buffer and other.places.size == 1 == model.places.size:
            return  # one element under two shapes: refused or not, nothing changes
        refusal = _refusal(made, model, [m for m, _ in pairs], noted)
        given = f" {self.names[j]}" if pairs else ""
        text = f"{self.names[k]}.{made.name}{given}" + ("" if recorded else "   # no_grad")
        self.campaign.called()
        try:
            made.real(real, *[r for _, r in pairs])
        except ts.errors.TensocketError as error:
            if refusal is None:
                raise Wrong(f"{text} raises {type(error).__name__}: {error}") from error
            self.text.append(f"{text}   # refused: {refusal}")
            return
        if refusal is not None:
            raise Wrong(f"{text} is not refused: {refusal}")
        value = made.model(dual(model), *[dual(m) for m, _ in pairs])
        if made.saves and noted:
            self.saved += [(m.buffer, m.buffer.version) for m, _ in pairs]
        model.write(value.v, value.t, noted)
        if noted:
            model.buffer.tracked = True
            self._forget_unrecorded(model)
        self.text.append(text)

    def _forget_unrecorded(self, changed: Var) -> None:
        """Drop unrecorded views of what was changed, and parts, which refuse to be used."""
        kept = [k for k, (model, _) in enumerate(self.vars)
                if not (model.buffer is changed.buffer and (model.unrecorded or model.part))]
        self.vars, self.names = [self.vars[k] for k in kept], [self.names[k] for k in kept]

    # -------------------------------------------------------------------------------------------------- compare

    def check(self) -> None:
        """Compare all tensors with the model."""
        for k, (model, real) in enumerate(self.vars):
            _compare(self.names[k], model, real)
        owners: dict[int, Any] = {}
        for k, (model, real) in enumerate(self.vars):
            if not model.places.size:
                continue
            pointer = real.untyped_storage().data_ptr()
            if owners.setdefault(pointer, model.buffer) is not model.buffer:
                raise Wrong(f"{self.names[k]} shares memory with a tensor that it is no view of")
        buffers: dict[Any, int] = {}
        for k, (model, real) in enumerate(self.vars):
            if model.places.size and buffers.setdefault(
                    model.buffer, real.untyped_storage().data_ptr()) != real.untyped_storage().data_ptr():
                raise Wrong(f"{self.names[k]} has memory of its own, not that of its base")

    def is_huge(self) -> bool:
        """Whether numbers have grown until functions of them overflow."""
        return any(np.abs(model.buffer.values).max(initial=0) > 300 for model, _ in self.vars)

    def gradients(self) -> None:
        """Compare gradients of a sum of some tensors."""
        chosen = [(k, m, r) for k, (m, r) in enumerate(self.vars) if m.tracked and m.places.size]
        if not chosen or self.large:
            return
        loss: Any = 0.0
        slope = np.zeros(self.width)
        for _, model, real in chosen:
            weight = self.rng.uniform(-1, 1, model.shape)
            part = (real * ts.tensor(np.asarray(weight))).sum()
            loss = loss + (part.real if model.is_complex else part)
            slope += (weight[..., None] * model.tangent().real).reshape(weight.size, self.width).sum(0)
        self.text.append(f"loss of {[self.names[k] for k, _, _ in chosen]}")
        self.campaign.called()
        try:
            loss.backward()
        except ts.errors.AutogradError as error:
            if any(buffer.version != version for buffer, version in self.saved):
                return  # a value that the graph needs was changed
            raise Wrong(f"backward raises {error}") from error
        self._compare_gradients(slope)

    def _compare_gradients(self, slope: Any) -> None:
        first = 0
        for k, (model, real) in enumerate(self.leaves):
            count = len(model.buffer.values)
            wanted = slope[first:first + count]
            first += count
            wanted = (wanted[::2] + 1j * wanted[1::2] if model.is_complex else wanted).reshape(model.shape)
            if real.grad is None:
                if np.abs(wanted).max(initial=0) > 1e-12:
                    raise Wrong(f"leaf {k} has no gradient, expected {wanted}")
            elif not np.allclose(np.array(real.grad.tolist()), wanted, rtol=1e-9, atol=1e-9):
                raise Wrong(f"gradient of leaf {k}: {real.grad.tolist()}, expected {wanted.tolist()}")


def _compare(name: str, model: Var, real: Any) -> None:
    value = model.value()
    got = real.detach().resolve_conj().numpy()
    if got.shape != value.shape:
        raise Wrong(f"{name} has shape {got.shape}, expected {value.shape}")
    if not np.allclose(got, value, rtol=1e-9, atol=1e-9, equal_nan=True):
        wrong = ~np.isclose(got, value, rtol=1e-9, atol=1e-9, equal_nan=True)
        place = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise Wrong(f"{name}{list(place)} is {got[place]}, expected {value[place]}")
    if real.requires_grad != model.requires:
        raise Wrong(f"{name}.requires_grad is {real.requires_grad}")
    if real._version != model.buffer.version:
        raise Wrong(f"{name}._version is {real._version}, expected {model.buffer.version}")
    strange = [n for n, a, b in zip(model.shape, real.stride(), model.strides, strict=True) if n > 1 and a != b]
    if strange and value.size:
        raise Wrong(f"{name}.stride() is {real.stride()}, expected {model.strides} of shape {model.shape}")


def _broadcast(x: Var, y: Var) -> bool:
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


def _refusal(made: Any, model: Var, operands: list[Var], noted: bool) -> str | None:
    """Why a change is refused; None where it is not."""
    if made.out and noted:
        return "results are not differentiated"
    if noted and (model.fixed or model.unrecorded):
        return "the view is fixed"
    if noted and model.buffer.leaf and not model.detached:
        return "a leaf, or a view of one"
    if model.is_repeated() and (model.conjugate or not made.filling):  # conjugates are filled by copying
        return "elements share memory"
    if made.name[0] != "[" and any(x.conjugate for x in (model, *operands)):
        return None  # conjugates are read before, but for values that are assigned by index
    ways = {model.overlap(other) for other in operands}
    if made.name == "[...] =" and operands[0].shape != model.shape:
        return None  # broadcast operands are read before
    if made.name == "copy_" and operands[0].places.size == 1:
        return None  # and so is one element
    if "part" in ways or (made.apart and "all" in ways):
        return "an operand overlaps"
    return None


def fuzz(campaign: Campaign) -> None:
    """Run random programs."""
    for number, rng in campaign.each():
        program = Program(rng, campaign)
        try:
            program.check()
            with np.errstate(over="ignore", invalid="ignore"):
                for _ in range(_STEPS):
                    if program.is_huge():
                        break  # functions at the ends of ranges are the operator fuzzer's
                    program.step()
                else:
                    program.gradients()
        except Wrong as error:
            campaign.differ("\n    ".join([f"case {number}: {error}", *program.text]))
