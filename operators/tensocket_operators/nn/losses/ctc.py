"""Connectionist temporal classification (Graves et al., 2006): all alignments of labels with a longer input.

Each example has 2 S + 1 states: its labels and the blanks around them. All examples and states advance through time
together, as log probabilities; a large negative number stands for log 0, so that gradients stay finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ...kinds.composite import composite
from ...kinds.pointwise import Pointwise
from ...kinds.private import private
from ...kinds.programs import processors_only
from . import ctc_kernel_cpu
from .losses import reduced, reduction_name

if TYPE_CHECKING:
    from .ctc_kernel_cpu import Kind


_NEVER: Final = -1e30


def _log_sum(m: Any, a: Any, b: Any, c: Any) -> Any:
    top = m.maximum(m.maximum(a, b), c)
    return top + m.log(m.exp(a - top) + m.exp(b - top) + m.exp(c - top))


log_add3: Final = Pointwise(
    "log_add3(Tensor input, Tensor other, Tensor third) -> Tensor",
    "log(exp(input) + exp(other) + exp(third)) of finite numbers.",
    _log_sum, kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, input, result: grad * (input - result).exp(),
        other=lambda grad, other, result: grad * (other - result).exp(),
        third=lambda grad, third, result: grad * (third - result).exp()),
)


def _numbers(operator: str, name: str, lengths: Any, count: int, limit: int) -> list[int]:
    """Return lengths as Python ints."""
    values = lengths.reshape(-1).tolist() if hasattr(lengths, "_key") else (
        [lengths] if isinstance(lengths, int) else list(lengths))
    if len(values) != count:
        raise ShapeError(operator, f"{len(values)} {name} for {count} examples", "there is one length for each example",
                         "pass as many lengths as examples")
    if any(not 0 <= n <= limit for n in values):
        raise ArgumentError(operator, f"{name} {values}", f"lengths lie between 0 and the longest possible, {limit}",
                            "check the lengths")
    return values


def _padded(targets: Any, lengths: list[int], blank: int) -> Any:
    """Return the labels of all examples in rows that end with blanks; also takes a flat tensor of all labels."""
    width = max(lengths, default=0)
    columns = targets.new_arange(0, width, 1)
    beyond = columns.unsqueeze(0) >= columns.new_tensor(lengths).unsqueeze(1)
    if targets.ndim == 2:
        return targets[:, :width].to(int64).masked_fill(beyond, blank)
    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    places = (columns.new_tensor(starts).unsqueeze(1) + columns).masked_fill(beyond, 0)
    if targets.shape[0] == 0:
        return places
    return targets.to(int64).index_select(0, places.reshape(-1)).reshape(tuple(places.shape)).masked_fill(beyond, blank)


def _scores(log_probs: Any, labels: Any, blank: int) -> Any:
    """Return the log probabilities of all states before and after every step: [T + 1, N, 2 S + 1]."""
    steps, count, _ = log_probs.shape
    width = 2 * labels.shape[1] + 1
    blanks = labels.new_full((count, labels.shape[1]), blank)
    states = functions.cat([functions.stack([blanks, labels], 2).reshape(count, width - 1),
                            labels.new_full((count, 1), blank)], 1)
    emitted = log_probs.gather(2, states.unsqueeze(0).expand(steps, count, width)).clamp_min(_NEVER)
    # A label may follow the one before it without a blank between them if the two differ.
    previous = functions.cat([blanks.new_full((count, 2), blank), states], 1)[:, :width]
    skip_penalty = ((states == blank) | (states == previous)).to(log_probs.dtype) * _NEVER
    return call(COMPOSITES["ctc_scores"], emitted, skip_penalty).narrow(2, 2, width)


def _direct(kind: Kind) -> Any:
    """Return a shortcut that launches one kernel, on processors with a code generator."""

    @processors_only(f"ctc_{kind}")
    def shortcut(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        def host_path(first: Any, second: Any) -> Any:
            dtype, shape = first.dtype, first.shape
            if second.dtype is not dtype:
                return next_path(first, second)
            arrays = [x.contiguous()._array for x in (first, second)]
            made = ctc_kernel_cpu.along_time(state, kind, arrays, dtype, (shape[0], *shape[-2:]), _log_sum, _NEVER)
            return wrap(made, state.key | dtype_bit(dtype))

        return private("ctc_loss", host_path)

    return shortcut


def _neighbours(scores: Any, skip_penalty: Any) -> tuple[Any, Any, Any]:
    """Return the three terms that a step of ``ctc_scores`` adds up, for one time or several."""
    width = skip_penalty.shape[-1]
    third, second, same = (scores.narrow(-1, k, width) for k in range(3))
    return same, second, third + skip_penalty


def _slopes(grad: Any, emitted: Any, skip_penalty: Any, scores: Any) -> Any:
    """Return the gradient of the emitted scores: the flow back to each state that is not cut off."""
    steps, _, width = emitted.shape
    parts = _neighbours(scores.narrow(0, 0, steps), skip_penalty)
    alive = (scores.narrow(0, 1, steps).narrow(2, 2, width) > _NEVER).to(emitted.dtype)
    total = call(log_add3, *parts)
    shares = []
    for k, part in enumerate(parts):
        share = (part - total).exp() * alive
        away = min(k, width)  # the share in the score k states further
        shares.append(functions.constant_pad_nd(share.narrow(2, away, width - away), (0, away)))
    flows = call(COMPOSITES["ctc_flows"], functions.stack(shares, 1), grad.narrow(2, 2, width))
    return flows.narrow(0, 1, steps).narrow(2, 0, width) * alive


@composite("ctc_flows(Tensor shares, Tensor grad) -> Tensor", method=False, function=False, host_path=_direct("flows"))
def ctc_flows(shares: Any, grad: Any) -> Any:
    """Return the gradients of all scores, [T + 1, N, W], with two more columns of 0 at the end.

    The operands are the gradients that arrive, [T + 1, N, W], and shares, [T, 3, N, W]: those of a state's score in the
    scores of the states 0, 1 and 2 further, one time later.
    """
    steps, _, _, width = shares.shape
    flow = functions.constant_pad_nd(grad.select(0, steps), (0, 2))
    history = [flow]
    for step in reversed(range(steps)):
        total = grad.select(0, step)
        for k in range(3):
            total = total + shares.select(0, step).select(0, k) * flow.narrow(1, k, width)
        flow = functions.constant_pad_nd(total, (0, 2))
        history.append(flow)
    return functions.stack(history[::-1])


@composite("ctc_scores(Tensor emitted, Tensor skip_penalty) -> Tensor", method=False, function=False,
           host_path=_direct("scores"), derivative=Derivative(
               emitted=lambda grad, emitted, skip_penalty, result: _slopes(grad, emitted, skip_penalty, result)))
def ctc_scores(emitted: Any, skip_penalty: Any) -> Any:
    """Return log probabilities of all states before and after every step, [T + 1, N, 2 + W]; 2 columns of log 0 lead.

    Args:
        emitted: Log probabilities of the states' classes, [T, N, W].
        skip_penalty: log 0 for states that may not follow the one two before them, else 0, [N, W].
    """
    steps, count, width = emitted.shape
    scores = emitted.new_full((count, width), _NEVER)
    scores = scores.masked_fill(scores.new_arange(0, width, 1) == 0, 0)
    edge = scores.new_full((count, 2), _NEVER)
    history = [functions.cat([edge, scores], 1)]
    for step in range(steps):
        moved = call(log_add3, *_neighbours(history[-1], skip_penalty))
        scores = (moved + emitted.select(0, step)).clamp_min(_NEVER)
        history.append(functions.cat([edge, scores], 1))
    return functions.stack(history)


@composite(
    "ctc_loss(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int blank=0, "
    "any reduction='mean', bool zero_infinity=False) -> Tensor",
    method=False,
)
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: Any = "mean", zero_infinity: bool = False) -> Any:
    """Return minus the log probability of all alignments of the targets with the inputs.

    The gradient is that of the scores before log_softmax, whose result ``log_probs`` is taken to be, as in PyTorch.

    Args:
        log_probs: Log probabilities of the classes at each time, [T, N, C] or [T, C].
        targets: Classes without blanks, [N, S], or those of all examples in one row.
        input_lengths: The number of valid times of each example: a tensor or ints.
        target_lengths: The number of labels of each example: a tensor or ints.
        blank: The class of the blank between labels.
        reduction: ``none``, ``mean`` (of the losses divided by the lengths of their targets) or ``sum``.
        zero_infinity: Whether infinite losses, of targets too long for their inputs, become zero.

    Raises:
        ShapeError: The shapes do not fit each other.
        ArgumentError: A length or the blank is out of range.
        DtypeError: The log probabilities are neither float32 nor float64.
    """
    single = log_probs.ndim == 2
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    _check(log_probs, targets, blank)
    steps, count, _ = log_probs.shape
    ends = _numbers("ctc_loss", "input_lengths", input_lengths, count, steps)
    sizes = _numbers("ctc_loss", "target_lengths", target_lengths, count, targets.shape[-1])
    if targets.ndim == 1 and sum(sizes) != targets.shape[0]:
        raise ShapeError("ctc_loss", f"{targets.shape[0]} targets for target_lengths {sizes}",
                         "the lengths sum to the number of labels", "check target_lengths")
    scores = _scores(log_probs, _padded(targets, sizes, blank), blank)
    final = scores[ends, list(range(count))]
    positions = final.new_tensor([[2 * n] for n in sizes], dtype=int64)
    last, before = final.gather(1, positions), final.gather(1, (positions - 1).clamp_min(0))
    before = before + before.new_tensor([[0.0 if n else _NEVER] for n in sizes])
    total = call(log_add3, last, before, before.new_full((), _NEVER)).squeeze(1) - _normalization(log_probs, ends)
    loss = -total.masked_fill(total < 0.5 * _NEVER, -float("inf"))
    loss = loss.masked_fill(loss == float("inf"), 0) if zero_infinity else loss
    if reduction_name("ctc_loss", reduction) == "mean":
        return (loss / loss.new_tensor([max(n, 1) for n in sizes])).mean()
    return reduced(loss.squeeze(0) if single else loss, reduction, "ctc_loss")


def _normalization(log_probs: Any, ends: list[int]) -> Any:
    """Return zeros whose gradient is the probabilities: that of a loss of scores with this softmax."""
    times = log_probs.new_arange(0, log_probs.shape[0], 1)
    beyond = times.unsqueeze(1) >= times.new_tensor(ends)
    likely = log_probs.masked_fill(beyond.unsqueeze(2), -float("inf")).exp()
    return (likely - likely.detach()).sum((0, 2))


def _check(log_probs: Any, targets: Any, blank: int) -> None:
    if log_probs.ndim != 3 or targets.ndim not in (1, 2) or (
            targets.ndim == 2 and targets.shape[0] != log_probs.shape[1]):
        raise ShapeError("ctc_loss", f"log_probs {list(log_probs.shape)} and targets {list(targets.shape)}",
                         "log probabilities are [T, N, C] and targets [N, S], or flat", "check the order of dimensions")
    if log_probs.dtype.kind != "float" or log_probs.dtype.itemsize < 4:
        raise DtypeError("ctc_loss", f"dtype {log_probs.dtype.name}", "log probabilities are float32 or float64",
                         "convert with .float() first")
    if not 0 <= blank < log_probs.shape[2]:
        raise ArgumentError("ctc_loss", f"blank={blank} of {log_probs.shape[2]} classes", "the blank is a class",
                            "pass the index of the blank")
