"""Parametrizations of weights: orthogonal, of unit norm, by magnitude and direction."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, TypeVar, cast

from tensocket.errors import ArgumentError, ShapeError, UnsupportedOperator
from tensocket.linalg import householder_product, matrix_exp, qr, solve
from tensocket.nn.functional import normalize
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor, eye, finfo, functions, mv, no_grad, ones_like, vdot, where, zeros_like

from . import parametrize
from .spectral_norm import as_matrix, iterate, output_dim
from .weight_norm import norm_except

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    """A weight as a function of a magnitude and a direction, which ``right_inverse`` finds."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return ``g · v / ‖v‖``."""
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the magnitude and direction of a weight."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train the magnitude and direction of a weight separately, as two originals.

    Args:
        module: The module of the weight.
        name: Its name.
        dim: The dimension whose entries have a magnitude each; None for one magnitude.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state: dict[str, Any], prefix: str, *rest: Any) -> None:
        # States that the hook of the same name saved.
        for number, ending in enumerate(("_g", "_v")):
            if prefix + name + ending in state:
                state[f"{prefix}parametrizations.{name}.original{number}"] = state.pop(prefix + name + ending)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which the power method finds while training."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise ArgumentError("spectral_norm", f"dim={dim} for a weight of {weight.dim()} dimensions",
                                "dim is a dimension of the weight", "pass one of them")
        if n_power_iterations <= 0:
            raise ArgumentError("spectral_norm", f"n_power_iterations={n_power_iterations}", "Expected "
                                "n_power_iterations to be positive", "pass 1 or more")
        self.dim = dim % weight.dim()
        self.n_power_iterations, self.eps = n_power_iterations, eps
        if weight.dim() > 1:
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                for vector, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    start = matrix.new_empty(size).normal_(0, 1)
                    self.register_buffer(vector, normalize(start, dim=0, eps=eps))
                iterate(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight divided by its norm."""
        if weight.dim() == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterate(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        left, right = self._u.clone(), self._v.clone()
        result: Tensor = weight / vdot(left, mv(matrix, right))
        return result

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value itself: a value of norm one stays."""
        return value


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Keep the largest singular value of a weight at one.

    Args:
        module: The module of the weight.
        name: Its name.
        n_power_iterations: Steps of the power method at each access while training.
        eps: Keeps norms from being zero.
        dim: The dimension of the outputs: 1 for transposed convolutions, else 0.

    Raises:
        ArgumentError: The weight does not exist, ``dim`` is out of range, or there is not at least one step.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError("spectral_norm", f"{name!r} of {type(module).__name__}", "the module has a parameter or "
                            "buffer of that name", "choose one of named_parameters()")
    axis = output_dim(module) if dim is None else dim
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))
    return module


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """A map from matrices to matrices of the same shape with orthonormal rows or columns, whichever are fewer."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ArgumentError("orthogonal", "a complex weight", "The householder parametrization does not support "
                                "complex tensors", "pass another orthogonal_map")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """Return the orthogonal matrix."""
        wide = X.shape[-2] < X.shape[-1]
        tall: Any = X.mT if wide else X
        n, k = tall.shape[-2:]
        if self.orthogonal_map is _OrthMaps.householder:
            lower = tall.tril(-1)
            scales = 2.0 / (1.0 + (lower * lower).sum(-2))
            Q = householder_product(lower, scales)
            # The signs that were the diagonal; right_inverse stores them there.
            Q = Q * tall.diagonal(0, -2, -1).int().unsqueeze(-2)
        else:
            lower = tall.tril()
            if n != k:
                lower = functions.cat([lower, lower.new_zeros((*lower.shape[:-2], n, n - k))], -1)
            skew = lower - lower.mH
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                Q = matrix_exp(skew)
            else:
                identity = eye(n, dtype=skew.dtype, device=skew.device)
                Q = solve(identity - 0.5 * skew, identity + 0.5 * skew)
            Q = Q[..., :k]
        if self.use_trivialization:
            Q = self.base @ Q
        result: Tensor = Q.mT if wide else Q
        return result

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return a matrix that the map takes to ``Q``; if ``Q`` is not orthogonal, make it so first.

        Raises:
            ShapeError: It has another shape than the weight.
            UnsupportedOperator: The map has no inverse without ``use_trivialization``.
        """
        if Q.shape != self.shape:
            raise ShapeError("orthogonal", f"a value of shape {tuple(Q.shape)} for {tuple(self.shape)}",
                             "what is assigned has the shape of the weight", "reshape it")
        wide = Q.shape[-2] < Q.shape[-1]
        tall: Any = Q.mT if wide else Q
        if not self.use_trivialization:
            if self.orthogonal_map is not _OrthMaps.householder:
                raise UnsupportedOperator("orthogonal", "an assignment", "It is not possible to assign to the matrix "
                                    "exponential or the Cayley parametrizations when use_trivialization=False",
                                    "pass use_trivialization=True")
            result: Tensor = _reflections(tall)
            return result.mT if wide else result
        self.base = _completed(tall)
        start: Tensor = zeros_like(tall)
        # Negated: reflections along the axes have that sign, and the diagonal holds signs.
        start.diagonal(0, -2, -1).fill_(-1.0)
        return start.mT if wide else start


def _completed(Q: Tensor) -> Tensor:
    """Complete ``Q`` to a square orthogonal matrix; make its columns orthogonal first if they are not."""
    n, k = Q.shape[-2:]
    if n == k:
        identity = eye(n, dtype=Q.dtype, device=Q.device)
        if bool(((Q.mH @ Q - identity).abs() < 10 * n * finfo(Q.dtype).eps).all()):
            same: Tensor = Q.clone()
            return same
    else:
        Q = functions.cat([Q, Q.new_empty((*Q.shape[:-2], n, n - k)).normal_(0, 1)], -1)
    basis, triangle = qr(Q)
    result: Tensor = basis * triangle.diagonal(0, -2, -1).sgn().unsqueeze(-2)
    return result


def _reflections(Q: Tensor) -> Tensor:
    """Return Householder's reflections of the columns of ``Q``: vectors below the diagonal, signs on it.

    Like LAPACK's ``geqrf``, each vector has a one on the diagonal, and a column that is zero below it is not reflected,
    which the opposite sign in the map shows.
    """
    rest, result = Q.clone(), cast("Tensor", zeros_like(Q))
    for j in range(Q.shape[-1]):
        column: Any = rest[..., j:, j]
        first, below = column[..., :1], column[..., 1:]
        flat = (below == 0).all(-1, keepdim=True)
        size = column.square().sum(-1, keepdim=True).sqrt()
        pivot = where(flat, first, where(first >= 0, -size, size))
        vector = functions.cat([ones_like(first), below / where(flat, 1.0, first - pivot)], -1).unsqueeze(-1)
        factor = where(flat, 0.0, (pivot - first) / pivot).unsqueeze(-1)
        block = rest[..., j:, j:]
        rest[..., j:, j:] = block - factor * vector @ (vector.mT @ block)
        result[..., j + 1:, j] = vector[..., 1:, 0]
        result[..., j, j] = where(flat, -pivot.sign(), pivot.sign())[..., 0]
    return result


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> M:
    """Keep a weight orthogonal: its rows or columns, whichever are fewer, are orthonormal.

    Args:
        module: The module of the weight.
        name: Its name.
        orthogonal_map: ``matrix_exp``, ``cayley`` or ``householder``; by default the first for square matrices, else
            the last.
        use_trivialization: Whether the map starts at the assigned matrix, so that any map can have it as its value.

    Raises:
        ArgumentError: The weight does not exist, it has fewer than two dimensions, or the map is unknown.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError("orthogonal", f"{name!r} of {type(module).__name__}", "the module has a parameter or "
                            "buffer of that name", "choose one of named_parameters()")
    if weight.dim() < 2:
        raise ArgumentError("orthogonal", f"a weight of {weight.dim()} dimensions", "Expected a matrix or batch of "
                            "matrices", "choose a weight of two dimensions")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1] or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ArgumentError("orthogonal", f"orthogonal_map={orthogonal_map!r}", "orthogonal_map is one of "
                            '"matrix_exp", "cayley", "householder"', "pass one of the three")
    made = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
