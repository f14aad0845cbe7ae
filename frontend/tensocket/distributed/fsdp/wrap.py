"""Policies: which modules of a model get a wrapper of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensocket.nn import Module, ModuleDict, ModuleList, MultiheadAttention


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: every module is wrapped."""
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                            lambda_fn: Callable[[Module], bool]) -> bool:
    """Whether to go into a module (always), or to wrap it: if ``lambda_fn`` says so."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                                 transformer_layer_cls: set[type[Module]]) -> bool:
    """Whether to go into a module (always), or to wrap it: if it has one of these classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None, exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Whether to go into a module, or to wrap it: if it has ``min_num_params`` elements that are in no wrapper yet."""
    leaves = (MultiheadAttention,) if force_leaf_modules is None else tuple(force_leaf_modules)
    excluded = (ModuleList, ModuleDict) if exclude_wrap_modules is None else tuple(exclude_wrap_modules)
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, leaves if recurse else excluded)


def _or_policy(module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]) -> bool:
    """Whether one of several policies says so."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


class ModuleWrapPolicy:
    """The policy that wraps modules of given classes.

    Args:
        module_classes: The classes.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Whether to go into a module (always), or to wrap it."""
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """The policy of a function that returns for each module whether, or with which arguments, it is wrapped.

    Args:
        lambda_fn: The function.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Whether to go into a module (always), or to wrap it."""
        return recurse or self._lambda_fn(module) is not False


__all__ = ["CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "lambda_auto_wrap_policy",
           "size_based_auto_wrap_policy", "transformer_auto_wrap_policy"]


#: The wrapper of ``wrap`` and its options, for each running ``enable_wrap``.
_ENABLED: Final[list[tuple[Any, dict[str, Any]]]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Run a block in which ``wrap`` wraps modules.

    Args:
        wrapper_cls: The class of wrappers.
        wrapper_kwargs: Its options.
    """
    _ENABLED.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _ENABLED.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return a module in the wrapper of the innermost ``enable_wrap``; outside of blocks, the module itself.

    Args:
        module: The module.
        wrap_overrides: Options of the wrapper, instead of those of the block.
    """
    if not _ENABLED:
        return module
    wrapper, options = _ENABLED[-1]
    return wrapper(module, **{**options, **wrap_overrides})  # type: ignore[no-any-return]
