"""Loss scaling: a large factor keeps gradients that a low precision would round to zero."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from tensocket_operators import Tensor, float16, float32, full, int32, is_available, no_grad
from tensocket_operators.kinds.foreach_reductions import FINITE

from ..errors import ArgumentError, ArgumentTypeError, DtypeError, ScalerError, StateDictError
from ..namespace import foreach

if TYPE_CHECKING:
    from ..optim.optimizer import Optimizer


class OptState(Enum):
    """The stage of an optimizer since the last ``update``."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _Progress:
    """The state of an optimizer since the last ``update``: its stage, and by device whether infs were found."""

    def __init__(self) -> None:
        self.stage = OptState.READY
        self.found: dict[Any, Tensor] = {}


class GradScaler:
    """A scaler that multiplies the loss, divides gradients, and skips steps whose gradients are not finite.

    The scale grows by ``growth_factor`` after ``growth_interval`` steps without infs or nans, and shrinks by
    ``backoff_factor`` after a step with them.

    >>> import tensocket as torch
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> optimizer, scaler = torch.optim.SGD([p], lr=0.5), torch.amp.GradScaler("cpu")
    >>> scaler.scale(p.sum()).backward()
    >>> scaler.step(optimizer); scaler.update()
    >>> p.tolist()
    [0.5, 0.5]

    Args:
        device: The device type of the scale.
        init_scale: The initial scale.
        growth_factor: Greater than 1.
        backoff_factor: Less than 1.
        growth_interval: Number of consecutive steps without infs or nans after which the scale grows.
        enabled: If False, all methods do nothing, except that ``step`` calls the optimizer.

    Raises:
        ScalerError: A factor is out of range.
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:
        self._device = device
        if enabled and not is_available(device):
            warnings.warn(f"GradScaler: there is no device of type {device!r}; it is switched off", UserWarning,
                          stacklevel=2)
            enabled = False
        self._enabled = enabled
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._progress: dict[int, _Progress] = {}
        if enabled and growth_factor <= 1:
            raise ScalerError("GradScaler", f"growth_factor={growth_factor}", "the scale grows by more than 1",
                              "pass 2.0")
        if enabled and backoff_factor >= 1:
            raise ScalerError("GradScaler", f"backoff_factor={backoff_factor}", "the scale shrinks by less than 1",
                              "pass 0.5")

    # ---------------------------------------------------------------------------------------------- scaling

    def scale(self, outputs: Any) -> Any:
        """Multiply ``outputs``, a tensor or nested lists of tensors, by the scale.

        Raises:
            ArgumentTypeError: A value is neither a tensor nor a list of tensors.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._make_state(outputs.device)
            return outputs * self._scale_on(outputs.device)
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(item) for item in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ArgumentTypeError("GradScaler.scale", f"an object of type {type(outputs).__name__}",
                                "a tensor or an iterable of tensors is scaled", "pass the loss")

    def _make_state(self, device: Any) -> None:
        self._scale = full((), self._init_scale, dtype=float32, device=device)
        self._growth_tracker = full((), self._init_growth_tracker, dtype=int32, device=device)

    def _scale_on(self, device: Any) -> Tensor:
        scale = self._scale
        assert scale is not None
        return scale if scale.device == device else scale.to(device)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide an optimizer's gradients by the scale, for example before they are clipped.

        Raises:
            ScalerError: It was called twice, after ``step``, or before ``scale``.
            DtypeError: Gradients are float16.
        """
        if not self._enabled:
            return
        self._check_scaled("unscale_")
        progress = self._of(optimizer)
        if progress.stage is not OptState.READY:
            raise ScalerError("GradScaler.unscale_", f"an optimizer that is {progress.stage.name.lower()}",
                              "gradients are unscaled once between two calls of update, before step",
                              "call update() at the end of each iteration")
        progress.found = self._unscale_grads_(optimizer, allow_half=False)
        progress.stage = OptState.UNSCALED

    def _unscale_grads_(self, optimizer: Optimizer, allow_half: bool) -> dict[Any, Tensor]:
        """Divide gradients; return, by device, 1.0 if one of them is not finite, else 0.0."""
        assert self._scale is not None
        inverse = self._scale.reciprocal()
        found: dict[Any, Tensor] = {}
        gradients: list[Tensor] = []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if gradient.dtype is float16 and not allow_half:
                    raise DtypeError("GradScaler.unscale_", "a gradient of dtype float16",
                                     "gradients are unscaled in float32", "keep parameters in float32")
                gradients.append(_values(parameter).detach())
        with no_grad():
            _note(found, gradients)
            if all(values.device.type == "cpu" for values in (inverse, *gradients)):
                foreach.mul_(gradients, inverse.item())
            else:
                for values in gradients:
                    values.mul_(inverse if values.device == inverse.device else inverse.to(values.device))
        return found

    # ---------------------------------------------------------------------------------------------- stepping

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Call ``optimizer.step(*args, **kwargs)`` with unscaled gradients, unless one of them is inf or nan.

        Optimizers whose ``step`` has a parameter ``grad_scaler``, or that set ``_step_supports_amp_scaling``, unscale
        and decide on their own.

        Returns:
            The result of ``optimizer.step``; None if it was skipped.

        Raises:
            ScalerError: It was called twice, before ``scale``, with a closure, or no gradient exists.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise ScalerError("GradScaler.step", "a closure", "gradients of a step are computed once",
                              "call the closure before, or pass enabled=False")
        self._check_scaled("step")
        progress = self._of(optimizer)
        if progress.stage is OptState.STEPPED:
            raise ScalerError("GradScaler.step", "an optimizer that is stepped", "there is one step between two calls "
                              "of update", "call update() at the end of each iteration")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_itself(optimizer, progress, args, kwargs)
        else:
            if progress.stage is OptState.READY:
                self.unscale_(optimizer)
            self._check_found("step", progress.found)
            result = self._maybe_opt_step(optimizer, progress.found, *args, **kwargs)
        progress.stage = OptState.STEPPED
        return result

    def _step_itself(self, optimizer: Any, progress: _Progress, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run the step of an optimizer that takes the scale and the flags itself."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if progress.stage is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = list(progress.found.values())
        self._check_found("step", progress.found)
        optimizer.grad_scale = None if progress.stage is OptState.UNSCALED else self._scale
        optimizer.found_inf = _combined(found)
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def _maybe_opt_step(self, optimizer: Optimizer, found: dict[Any, Tensor], *args: Any, **kwargs: Any) -> Any:
        return None if any(flag.item() for flag in found.values()) else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale after the steps of an iteration, or set it.

        Raises:
            ScalerError: Nothing was scaled or stepped since the last call.
            ArgumentError: A new scale is not one float32 number without gradient.
        """
        if not self._enabled:
            return
        self._check_scaled("update")
        assert self._scale is not None
        assert self._growth_tracker is not None
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [flag for progress in self._progress.values() for flag in progress.found.values()]
            if not found:
                raise ScalerError("GradScaler.update", "no steps", "an optimizer stepped since the last update",
                                  "call step(optimizer) before update()")
            self._adapt(bool(_combined(found).item()))
        self._progress.clear()

    def _set_scale(self, new_scale: float | Tensor) -> None:
        assert self._scale is not None
        if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad
                                              or new_scale.dtype is not float32):
            raise ArgumentError("GradScaler.update", f"new_scale of shape {tuple(new_scale.shape)}, {new_scale.dtype}",
                                "a new scale is one float32 number without gradient", "pass a float")
        self._scale.fill_(new_scale.item() if isinstance(new_scale, Tensor) else new_scale)

    def _adapt(self, found: bool) -> None:
        assert self._scale is not None
        assert self._growth_tracker is not None
        if found:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.zero_()
            return
        steps = int(self._growth_tracker.item()) + 1
        if steps == self._growth_interval:
            grown = self._scale * self._growth_factor
            if grown.isfinite().item():
                self._scale.copy_(grown)
            steps = 0
        self._growth_tracker.fill_(steps)

    # ---------------------------------------------------------------------------------------------- checks

    def _of(self, optimizer: Optimizer) -> _Progress:
        return self._progress.setdefault(id(optimizer), _Progress())

    def _check_scaled(self, function: str) -> None:
        if self._scale is None:
            raise ScalerError(f"GradScaler.{function}", "a scaler that scaled nothing",
                              "the loss of the iteration is scaled first", "call scaler.scale(loss).backward()")

    def _check_found(self, function: str, found: dict[Any, Tensor]) -> None:
        if not found:
            raise ScalerError(f"GradScaler.{function}", "an optimizer without gradients",
                              "at least one parameter has a gradient", "call backward() before")

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Tensor]:
        """Check for infs and nans without changing gradients."""
        progress = self._of(optimizer)
        _note(progress.found, [_values(parameter).detach() for group in optimizer.param_groups
                               for parameter in group["params"] if parameter.grad is not None])
        return progress.found

    def _found_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Tensor]:
        return self._of(optimizer).found

    # ---------------------------------------------------------------------------------------------- state

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """Return the scale; 1.0 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def get_growth_factor(self) -> float:
        """Return the factor of the scale after good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor of the scale after good steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor of the scale after a bad step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor of the scale after a bad step."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of consecutive good steps after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of consecutive good steps after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return scale, factors, interval and the count of good steps; an empty dict if the scaler is disabled."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor,
                "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
                "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state.

        Raises:
            StateDictError: The state is empty.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise StateDictError("GradScaler", "an empty state", "the state is that of an enabled scaler",
                                 "save it from one, or pass enabled=False")
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle, which is possible only between iterations.

        Raises:
            ScalerError: Steps were made since the last update.
        """
        if self._enabled and self._progress:
            raise ScalerError("GradScaler", "steps since the last update", "a scaler is pickled between iterations",
                              "pickle it after update()")
        state = {**self.__dict__, "_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
        return {**state, "_scale": None, "_growth_tracker": None}


def _note(found: dict[Any, Tensor], gradients: list[Tensor]) -> None:
    """Record for each device whether some numbers on it are not finite."""
    kinds: dict[Any, list[Tensor]] = {}
    for gradient in gradients:
        kinds.setdefault((gradient.device, gradient.dtype), []).append(gradient)
    for (device, _), values in kinds.items():
        zeros: Any = FINITE(values)
        if zeros is None:
            flags = [~x.isfinite().all() for x in values]
        else:
            flags = [zeros.isnan().any()]
        for flag in flags:
            bad, known = flag.float(), found.get(device)
            found[device] = bad if known is None else known.maximum(bad)


def _values(parameter: Any) -> Tensor:
    """Return the numbers of a gradient; of a sparse one, those of distinct indices."""
    gradient = parameter.grad
    if not gradient.is_sparse:
        return gradient  # type: ignore[no-any-return]
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()  # type: ignore[no-any-return]


def _combined(found: list[Tensor]) -> Tensor:
    """Return 1.0 if any flag is set, on the device of the first one."""
    first = found[0]
    for flag in found[1:]:
        first = first.maximum(flag if flag.device == first.device else flag.to(first.device))
    return first


__all__ = ["GradScaler", "OptState"]
