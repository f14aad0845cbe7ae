"""Softmax over many classes, whose rare classes are grouped in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F
from tensocket_operators import Tensor
from tensocket_operators import functions as ops

from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module


class _ASMoutput(NamedTuple):
    """Log probabilities of the targets, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log softmax of a linear layer whose rare classes share columns in clusters (Grave et al., 2017).

    Args:
        in_features: Size of an input.
        n_classes: Number of classes, in the order of frequency, the most frequent one first.
        cutoffs: First class of each cluster; classes before the first cutoff have columns of their own.
        div_value: The factor by which a cluster is smaller than the previous one.
        head_bias: Whether the layer of frequent classes and clusters has a bias.
        device: Device of the parameters.
        dtype: Their dtype.

    Raises:
        ArgumentError: There are no cutoffs, they do not increase, or they are not classes.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        if not given:
            raise ArgumentError("AdaptiveLogSoftmaxWithLoss", "no cutoffs", "cutoffs should be a sequence of length "
                                "larger than 0", "pass where clusters begin")
        if (given != sorted(set(given)) or given[0] <= 0 or given[-1] >= n_classes
                or any(int(cutoff) != cutoff for cutoff in given)):
            raise ArgumentError("AdaptiveLogSoftmaxWithLoss", f"cutoffs {given} of {n_classes} classes", "cutoffs "
                                "are unique, positive integers in an increasing order, each between 1 and n_classes-1",
                                "pass for example [10, 100]")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*given, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for cluster in range(self.n_clusters):
            narrow = int(in_features // div_value ** (cluster + 1))
            size = self.cutoffs[cluster + 1] - self.cutoffs[cluster]
            self.tail.append(Sequential(Linear(in_features, narrow, False, device, dtype),
                                        Linear(narrow, size, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        self.head.reset_parameters()
        for projection, classes in self.tail:  # type: ignore[attr-defined]  # each is a Sequential of two
            projection.reset_parameters()
            classes.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Map (N, in_features) with classes (N), or both without N, to log probabilities (N) and the loss.

        Raises:
            ShapeError: The shapes do not fit.
            ArgumentError: A target is not a class.
        """
        single = target_.dim() == 0
        if target_.dim() > 1 or input_.dim() != 2 - single or (not single and input_.shape[0] != target_.shape[0]):
            raise ShapeError("AdaptiveLogSoftmaxWithLoss", f"input {list(input_.shape)}, target {list(target_.shape)}",
                             "Input and target should have the same size in the batch dimension, and no other in the "
                             "target", "pass (N, in_features) and (N)")
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise ArgumentError("AdaptiveLogSoftmaxWithLoss", f"targets from {int(target.min())} to "
                                f"{int(target.max())}", f"target values are in [0, {self.n_classes - 1}]",
                                "pass classes")
        output = self._log_probabilities_of(input, target)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def _log_probabilities_of(self, input: Tensor, target: Tensor) -> Tensor:
        """Return (N) log probabilities; compute only the clusters of the targets, each for its own examples."""
        head = F.log_softmax(self.head(input), 1)
        # The column of each class in the head: its own, or that of its cluster.
        column: Tensor = target
        total: Tensor = head.new_zeros(target.shape[0])
        for cluster, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            column = column.masked_fill(inside, self.shortlist_size + cluster)
            within = F.log_softmax(self.tail[cluster](input.index_select(0, rows)), 1)
            values = within.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            total = ops.index_add(total, 0, rows, values)
        result: Tensor = total + head.gather(1, column.unsqueeze(1)).squeeze(1)
        return result

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """Return the log probabilities of all classes, (N, n_classes), from the head's outputs."""
        head = F.log_softmax(head_output, 1)
        parts = [head[:, :self.shortlist_size]]
        for cluster, layer in enumerate(self.tail):
            share = head[:, self.shortlist_size + cluster].unsqueeze(1)
            parts.append(F.log_softmax(layer(input), 1) + share)
        result: Tensor = ops.cat(parts, 1)
        return result

    def log_prob(self, input: Tensor) -> Tensor:
        """Map (N, in_features) to log probabilities of all classes, (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Map (N, in_features) to the most likely classes, (N); compute clusters only where they are needed."""
        head = self.head(input)
        best: Tensor = head.argmax(1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel() == 0:
            return best
        chosen = self._get_full_log_prob(input.index_select(0, rows), head.index_select(0, rows)).argmax(1)
        result: Tensor = ops.index_copy(best, 0, rows, chosen)
        return result


__all__ = ["AdaptiveLogSoftmaxWithLoss"]
