"""Pruning: setting parts of parameters to zero by a mask that stays until pruning is made permanent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, cast

from tensocket.errors import ArgumentError, ArgumentTypeError, ShapeError
from tensocket.linalg import vector_norm
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor, functions, no_grad, ones_like, zeros_like


class BasePruningMethod(ABC):
    """A rule that chooses the entries to set to zero. As a hook, it computes the pruned parameter before each call.

    Subclasses define ``PRUNING_TYPE`` and ``compute_mask``.
    """

    #: Whether the method chooses among all entries (``global``), the remaining entries (``unstructured``) or slices
    #: (``structured``).
    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the pruned parameter before a call."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of a tensor.

        Args:
            t: Importance of its entries.
            default_mask: The mask so far.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the original parameter times its mask."""
        mask, original = getattr(module, self._tensor_name + "_mask"), getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original  # type: ignore[no-any-return]

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter: ``<name>_orig`` is the parameter, ``<name>_mask`` a buffer, ``<name>`` their product.

        Args:
            module: The module of the parameter.
            name: Its name.
            args: Arguments of the method.
            importance_scores: Importance of its entries; their values by default.
            kwargs: More arguments of the method.

        Raises:
            ShapeError: The scores have another shape.
        """
        previous = [(number, hook) for number, hook in module._forward_pre_hooks.items()
                    if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
        made = cls(*args, **kwargs)
        made._tensor_name = name
        method: BasePruningMethod = made
        original: Any = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise ShapeError("prune", f"scores of shape {tuple(scores.shape)} for {tuple(original.shape)}",
                             "importance_scores have the shape of the parameter", "reshape them")
        if previous:
            number, old = previous[0]
            del module._forward_pre_hooks[number]
            method = old if isinstance(old, PruningContainer) else PruningContainer(old)
            method.add_pruning_method(made)
            default = getattr(module, name + "_mask").to(dtype=scores.dtype)
        else:
            default = ones_like(scores)
        with no_grad():
            mask = method.compute_mask(scores.detach(), default.clone())
        if not previous:
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return the tensor with its mask applied."""
        scores = t if importance_scores is None else importance_scores
        mask = self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)
        return t * mask

    def remove(self, module: Module) -> None:
        """Make the pruned values the parameter's own. The caller must remove the hook."""
        name = self._tensor_name
        original = module._parameters.pop(name + "_orig")
        with no_grad():
            cast("Any", original).data = (cast("Tensor", original) * getattr(module, name + "_mask")).detach()
        del module._buffers[name + "_mask"]
        delattr(module, name)
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """A sequence of methods that pruned one parameter."""

    PRUNING_TYPE = "global"

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method.

        Raises:
            ArgumentTypeError: ``method`` is not a pruning method.
            ArgumentError: It prunes another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise ArgumentTypeError("PruningContainer", f"a {type(method).__name__}", "members are pruning methods",
                                    "derive it from BasePruningMethod")
        if method._tensor_name != self._tensor_name:
            raise ArgumentError("PruningContainer", f"{method._tensor_name!r} beside {self._tensor_name!r}",
                                "all methods prune one parameter", "use a container for each")
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of the last method, applied to the entries that the others left."""
        method = self._pruning_methods[-1]
        mask: Any = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, mask)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            axis = cast("Any", method).dim
            others = [other for other in range(t.dim()) if other != axis % t.dim()]
            kept = mask.sum(others) != 0
            left = tuple(kept if other == axis % t.dim() else slice(None) for other in range(t.dim()))
        else:
            raise ArgumentError("prune", f"PRUNING_TYPE {method.PRUNING_TYPE!r}", "a pruning type is global, "
                                "unstructured or structured", "set PRUNING_TYPE to one of them")
        mask[left] = method.compute_mask(cast("Any", t)[left], mask[left]).to(dtype=mask.dtype)
        return mask  # type: ignore[no-any-return]


class Identity(BasePruningMethod):
    """A method that prunes nothing; it creates the attributes of a pruned parameter."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask unchanged."""
        return default_mask


class _Amount(BasePruningMethod):
    """A method that prunes a number or a fraction of entries."""

    def __init__(self, amount: float) -> None:
        given: Any = amount
        if not isinstance(given, (int, float)):
            raise ArgumentTypeError("prune", f"amount {amount!r}", "amount is a number", "pass an int or a float")
        if given < 0 or (isinstance(given, float) and given > 1):
            raise ArgumentError("prune", f"amount {amount!r}", "amount is a non-negative int or a float between 0 and "
                                "1", "pass a fraction or a number")
        self.amount: int | float = given

    def count(self, size: int) -> int:
        """Return the number of entries to prune out of ``size``.

        Raises:
            ArgumentError: The amount exceeds ``size``.
        """
        if isinstance(self.amount, float):
            return round(self.amount * size)
        if self.amount > size:
            raise ArgumentError("prune", f"amount {self.amount} of {size}", "amount is not above the number of entries "
                                "to prune", "pass a smaller one")
        return self.amount


class RandomUnstructured(_Amount):
    """A method that prunes random entries."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with additional zeros."""
        mask: Any = default_mask.clone()
        count = self.count(t.numel())
        if count:
            chance = zeros_like(t).uniform_(0, 1).reshape(-1)
            mask.view(-1)[chance.topk(count).indices] = 0
        return mask  # type: ignore[no-any-return]


class L1Unstructured(_Amount):
    """A method that prunes the entries of least magnitude."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with additional zeros."""
        mask: Any = default_mask.clone()
        count = self.count(t.numel())
        if count:
            mask.view(-1)[t.abs().reshape(-1).topk(count, largest=False).indices] = 0
        return mask  # type: ignore[no-any-return]


class _Structured(_Amount):
    """A method that prunes slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    @abstractmethod
    def scores(self, t: Tensor) -> Tensor:
        """Return the importance of each slice."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with additional slices of zeros."""
        if t.dim() < 2:
            raise ArgumentError("prune", f"a tensor of {t.dim()} dimensions", "Structured pruning can only be applied "
                                "to multidimensional tensors", "use an unstructured method")
        if not -t.dim() <= self.dim < t.dim():
            raise ArgumentError("prune", f"dim={self.dim} for {t.dim()} dimensions", "dim is a dimension of the tensor",
                                "pass one of them")
        size = t.shape[self.dim]
        count = self.count(size)
        mask: Any = default_mask
        if count:
            kept = self.scores(t).topk(size - count).indices
            place: list[Any] = [slice(None)] * t.dim()
            place[self.dim] = kept
            chosen: Any = zeros_like(t)
            chosen[tuple(place)] = 1
            mask = mask * chosen.to(dtype=mask.dtype)
        return mask  # type: ignore[no-any-return]


class RandomStructured(_Structured):
    """A method that prunes random slices."""

    def scores(self, t: Tensor) -> Tensor:
        """Return random numbers."""
        chance: Tensor = t.new_empty(t.shape[self.dim]).uniform_(0, 1)
        return chance


class LnStructured(_Structured):
    """A method that prunes the slices of least norm.

    Args:
        amount: A number or fraction of slices.
        n: Order of the norm.
        dim: The dimension that indexes the slices.
    """

    def __init__(self, amount: float, n: float, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        """Return the norms of the slices."""
        norms: Tensor = vector_norm(t.movedim(self.dim, 0).reshape(t.shape[self.dim], -1), self.n, 1)
        return norms


class CustomFromMask(BasePruningMethod):
    """A method that prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks."""
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give a parameter the attributes of a pruned one without pruning it."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune a number or fraction of entries at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune a number or fraction of entries of least magnitude."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune a number or fraction of slices along ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune a number or fraction of slices along ``dim`` of least norm of order ``n``."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the entries where ``mask`` is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: Modules and names.
        pruning_method: An unstructured method.
        importance_scores: Scores by module and name; the values by default.
        kwargs: Arguments of the method.

    Raises:
        ArgumentTypeError: The method is not unstructured.
    """
    places = list(parameters)
    given = importance_scores or {}
    scores: list[Any] = [given.get((module, name), getattr(module, name)) for module, name in places]
    masks: list[Any] = [getattr(module, name + "_mask", ones_like(getattr(module, name))) for module, name in places]
    method: Any = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise ArgumentTypeError("global_unstructured", f"{pruning_method.__name__}", 'Only "unstructured" '
                                "PRUNING_TYPE is supported", "pass an unstructured method")
    container = PruningContainer(method)
    flat = [functions.cat([part.detach().reshape(-1) for part in parts]) for parts in (scores, masks)]
    final: Any = container.compute_mask(flat[0], flat[1].clone())
    start = 0
    for (module, name), part in zip(places, scores, strict=True):
        custom_from_mask(module, name, final[start : start + part.numel()].view_as(part))
        start += part.numel()


def remove(module: Module, name: str) -> Module:
    """Make pruning of a parameter permanent.

    Raises:
        ArgumentError: The parameter is not pruned.
    """
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ArgumentError("prune.remove", f"{name!r} of {type(module).__name__}", "the parameter is pruned",
                        "prune it first")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for below in module.modules()
               for hook in below._forward_pre_hooks.values())


__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]
