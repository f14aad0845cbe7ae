"""The inverse of maximum pooling, pooling over random windows, and images as columns of windows."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError
from tensocket_plugins.contract.launch_recorder import forbid_replay

from ...deterministic import alert_not_deterministic
from ...indexing.gather_scatter import checked_index
from ...kinds.composite import composite
from ...kinds.view import Custom
from ...random import rand
from ..convolution.convolution import numbers
from ..convolution.im2col import Window, windows_of
from ..convolution.windows import fold_columns, picked, unfold_columns
from . import fractional_kernel_cpu
from . import kernel as pool_kernel
from .pooling import spatial

# --------------------------------------------------------------------------------------------------------- unpooling


def _placed(state: Any, input: Any, places: Any, size: int) -> Any:
    lines, positions = input._array, places._array
    shape = (*lines.shape[:-1], size)
    if 0 in lines.shape or not state.holds_data or not pool_kernel.places_lines(state, lines, positions, input.dtype):
        return input.new_zeros(shape).scatter(-1, places, input.detach())
    out = state.runtime.empty(shape, input.dtype, state.stream)
    pool_kernel.place_array(state, out, lines, positions, input.dtype)
    return wrap(out, state.key | dtype_bit(input.dtype))


placed: Final[Custom] = Custom(
    "placed(Tensor input, Tensor places, int size) -> Tensor",
    "Lines of zeros with the input's elements at valid positions, the last of several at one position.",
    _placed,
    method=False,
    function=False,
    replayable=True,
)


@composite("unpooled_lines(Tensor input, Tensor places, str operator, int size) -> Tensor", method=False,
           function=False, replayable=True, derivative=Derivative(input=lambda grad, places: grad.gather(-1, places)))
def unpooled_lines(input: Any, places: Any, operator: str, size: int) -> Any:
    """Return lines of ``size`` zeros with the input's elements at positions, which are checked."""
    return call(placed, input, checked_index(operator, places, size), size)


def _unpool(dims: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any,
            output_size: Any) -> Any:
    operator = f"max_unpool{dims}d"
    sizes = spatial(operator, input, dims)
    if indices.dtype is not dtypes.int64:
        raise DtypeError(operator, f"indices of dtype {indices.dtype.name}", "indices are int64",
                         "pass those that pooling returned")
    if tuple(indices.shape) != tuple(input.shape):
        raise ShapeError(operator, f"input {list(input.shape)}, indices {list(indices.shape)}",
                         "there is an index for every element", "pass those that pooling returned")
    kernel = numbers(operator, "kernel_size", kernel_size, dims)
    steps = kernel if stride is None or stride in ((), []) else numbers(operator, "stride", stride, dims)
    pads = numbers(operator, "padding", padding, dims)
    natural = tuple([(n - 1) * s + k - 2 * p for n, s, k, p in zip(sizes, steps, kernel, pads, strict=True)])
    wanted = natural if output_size is None else tuple(output_size)[-dims:]
    if len(wanted) != dims or any(abs(m - n) >= s for m, n, s in zip(wanted, natural, steps, strict=True)):
        raise ArgumentError(operator, f"output_size={output_size!r}",
                            f"sizes differ from {list(natural)} by less than the stride",
                            "pass the size before pooling")
    lead = tuple(input.shape[:-dims])
    alert_not_deterministic(f"max_unpooling{max(dims, 2)}d_forward_out", input.device)
    count = math.prod(sizes)
    places, values = indices.reshape((*lead, count)), input.reshape((*lead, count))
    return call(COMPOSITES["unpooled_lines"], values, places, operator, math.prod(wanted)).reshape((*lead, *wanted))


_ARGUMENTS = ("(Tensor input, Tensor indices, any kernel_size, any stride=None, any padding=0, any output_size=None) "
              "-> Tensor")


@composite(f"max_unpool1d{_ARGUMENTS}", method=False, namespace="nn.functional", hands_by_name=True)
def max_unpool1d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 output_size: Any = None) -> Any:
    """Return zeros with the results of ``max_pool1d`` at their positions."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@composite(f"max_unpool2d{_ARGUMENTS}", method=False, namespace="nn.functional", hands_by_name=True)
def max_unpool2d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 output_size: Any = None) -> Any:
    """Return zeros with the results of ``max_pool2d`` at their positions."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@composite(f"max_unpool3d{_ARGUMENTS}", method=False, namespace="nn.functional", hands_by_name=True)
def max_unpool3d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 output_size: Any = None) -> Any:
    """Return zeros with the results of ``max_pool3d`` at their positions."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ----------------------------------------------------------------------------------------- randomly placed windows


def _starts(samples: Any, size: int, outputs: int, kernel: int) -> Any:
    """Return the first elements of windows, [.., outputs], spread by one random number each (Graham 2014)."""
    if outputs == 1:
        return samples.new_full((*samples.shape, 1), size - kernel, dtype=dtypes.int64)
    # In the input's precision, which is also that of the random numbers.
    step = (samples.new_full((), size - kernel) / (outputs - 1))
    places = samples.new_arange(0, outputs - 1, 1).to(samples.dtype)
    moved = samples.unsqueeze(-1)
    starts = ((places + moved) * step).to(dtypes.int64) - (moved * step).to(dtypes.int64)
    last = starts.new_full((*samples.shape, 1), size - kernel)
    return functions.cat([starts, last], -1)


def _fractional_places(samples: Any, order: tuple[int, ...], sizes: tuple[int, ...], outputs: tuple[int, ...],
                       kernel: tuple[int, ...]) -> Any:
    """Return the positions in the flattened image for every window: [.., outputs.., taps..]."""
    dims = len(sizes)
    total: Any = 0
    for d in range(dims):
        starts = _starts(samples.select(-1, order[d]), sizes[d], outputs[d], kernel[d])
        lead = tuple(starts.shape[:-1])
        offsets = starts.new_arange(0, kernel[d], 1)
        lines = (starts.unsqueeze(-1) + offsets).reshape(
            (*lead, *(outputs[d] if k == d else 1 for k in range(dims)), *(kernel[d] if k == d else 1
                                                                          for k in range(dims))))
        total = total * sizes[d] + lines
    return total.reshape((*total.shape[:-dims], math.prod(kernel)))


def _samples_of(operator: str, samples: Any, lead: tuple[int, ...], dims: int) -> Any:
    """Return random numbers for each image and channel; surplus ones stay unused.

    Raises:
        ShapeError: There are too few numbers.
    """
    images = lead[0] if len(lead) == 2 else 1
    if samples.ndim != 3 or samples.shape[0] < images or tuple(samples.shape[1:]) != (lead[-1], dims):
        raise ShapeError(operator, f"random samples {list(samples.shape)} for {images} images of {lead[-1]} channels",
                         f"there are {dims} random numbers for each image and channel", "pass [N, C, dimensions]")
    return samples.narrow(0, 0, images).reshape((*lead, dims))


def _fractional_pool(state: Any, input: Any, samples: Any, order: tuple[int, ...], outputs: tuple[int, ...],
                     kernel: tuple[int, ...], drawn: bool = False) -> tuple[Any, Any]:
    dims, dtype = len(order), input.dtype
    lead, sizes = tuple(input.shape[:-dims]), tuple(input.shape[-dims:])
    if state.holds_data and state.runtime.profile.host_resident and 0 not in lead:
        shape = (*lead, *outputs)
        out, found = [state.runtime.empty(shape, kind, state.stream) for kind in (dtype, dtypes.int64)]
        if fractional_kernel_cpu.fractional_array(state, out, found, input._array, samples._array, order, kernel,
                                                  dtype, drawn):
            return wrap(out, state.key | dtype_bit(dtype)), wrap(found, state.key | dtype_bit(dtypes.int64))
    forbid_replay()
    input, samples = input.detach(), samples.detach()
    places = _fractional_places(samples, order, sizes, outputs, kernel)
    line = places.reshape((*lead, math.prod(places.shape[len(lead):])))
    values = input.reshape((*lead, math.prod(sizes))).gather(-1, line).reshape(tuple(places.shape))
    chosen = places.gather(-1, values.argmax(-1, True)).squeeze(-1)
    return picked(input, chosen, dims), chosen


def _fractional_gradient(grad: Any, places: Any, shape: tuple[int, ...], dims: int) -> Any:
    """Return the gradient of each element: the sum of those of the windows in which it is the largest."""
    lead = shape[:len(shape) - dims]
    count = math.prod(places.shape[len(lead):])
    zeros = grad.new_zeros((*lead, math.prod(shape[len(lead):])))
    return zeros.scatter_add(-1, places.reshape((*lead, count)), grad.reshape((*lead, count))).reshape(shape)


fractional_pool: Final = Custom(
    "fractional_pool(Tensor input, Tensor samples, int[] order, int[] outputs, int[] kernel, bool drawn=False) -> "
    "(Tensor, Tensor)",
    "The largest element of every window at random distances, and its position in the flattened last dimensions; "
    "``drawn`` says that all samples are known to lie between 0 and 1.",
    _fractional_pool,
    method=False,
    function=False,
    replayable=True,
    settles_layouts=True,
    derivative=Derivative(input=lambda grads, input_shape, result1, order: (
        None if grads[0] is None else _fractional_gradient(grads[0], result1, tuple(input_shape), len(order)))),
)


def _fractional(dims: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
                return_indices: bool, samples: Any) -> Any:
    operator = f"fractional_max_pool{dims}d"
    sizes = spatial(operator, input, dims)
    kernel = numbers(operator, "kernel_size", kernel_size, dims)
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(operator, f"output_size={output_size!r}, output_ratio={output_ratio!r}",
                            "either output_size or output_ratio is given", "pass one of the two")
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else tuple(output_ratio)
        outputs = tuple([int(n * r) for n, r in zip(sizes, ratios, strict=True)])
    else:
        outputs = numbers(operator, "output_size", output_size, dims)
    if any(m < 0 or m + k - 1 > n for m, k, n in zip(outputs, kernel, sizes, strict=True)):
        raise ShapeError(operator, f"sizes {list(sizes)}, kernel_size={list(kernel)}, output_size={list(outputs)}",
                         "output_size + kernel_size - 1 is at most the size", "use a smaller kernel or output size")
    lead = tuple(input.shape[:-dims])
    if 0 in outputs:
        none = input.new_empty((*lead, *outputs), dtype=dtypes.int64)
        return (picked(input, none, dims), none) if return_indices else picked(input, none, dims)
    drawn = samples is None
    if drawn:
        batch = lead if len(lead) == 2 else (1, *lead)
        samples = rand((*batch, dims), dtype=input.dtype, device=input.device)
    # PyTorch takes the random numbers of two dimensions from the last one on, those of three from the first.
    order = (1, 0) if dims == 2 else (0, 1, 2)
    samples = _samples_of(operator, samples.detach().to(input.dtype), lead, dims).contiguous()
    result, chosen = call(fractional_pool, input, samples, order, outputs, kernel, drawn)
    return (result, chosen) if return_indices else result


_FRACTIONAL = ("(Tensor input, any kernel_size, any output_size=None, any output_ratio=None, "
               "bool return_indices=False, Tensor? _random_samples=None) -> any")


@composite(f"fractional_max_pool2d{_FRACTIONAL}", method=False, namespace="nn.functional")
def fractional_max_pool2d(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                          return_indices: bool = False, _random_samples: Any = None) -> Any:
    """Return the largest elements of windows at random distances, of [B, C, H, W] or [C, H, W] (Graham 2014).

    Raises:
        ArgumentError: Both or neither of size and ratio are given.
        ShapeError: A window does not fit.
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@composite(f"fractional_max_pool3d{_FRACTIONAL}", method=False, namespace="nn.functional")
def fractional_max_pool3d(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                          return_indices: bool = False, _random_samples: Any = None) -> Any:
    """Return the largest elements of windows at random distances, of [B, C, D, H, W] or [C, D, H, W] (Graham 2014)."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


# ------------------------------------------------------------------------------------------------- images as columns


def _windows(operator: str, sizes: tuple[int, ...], kernel_size: Any, dilation: Any, padding: Any,
             stride: Any) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """Return the kernel, the number of windows and the windows of an image.

    Raises:
        ArgumentError: A number is out of its range.
        ShapeError: No window fits.
    """
    kernel = numbers(operator, "kernel_size", kernel_size, 2)
    window = Window(numbers(operator, "stride", stride, 2), numbers(operator, "padding", padding, 2),
                    numbers(operator, "dilation", dilation, 2), 1)
    if min((*kernel, *window.stride, *window.dilation)) < 1 or min(window.padding) < 0:
        raise ArgumentError(operator, f"kernel_size={kernel_size}, stride={stride}, dilation={dilation}, "
                            f"padding={padding}", "kernel, stride and dilation are positive, padding is not negative",
                            "change the argument")
    outputs = window.outputs(sizes, kernel)
    if min(outputs) < 1:
        raise ShapeError(operator, f"sizes {list(sizes)}, kernel_size={list(kernel)}",
                         "a window fits into the padded image", "use a smaller kernel or more padding")
    return kernel, outputs, windows_of(sizes, outputs, kernel, window)


@composite("im2col(Tensor input, any kernel_size, any dilation=1, any padding=0, any stride=1) -> Tensor",
           method=False, namespace="nn.functional", replayable=True)
def im2col(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return the windows of [B, C, H, W] or [C, H, W] as columns: [B, C * kernel, windows]."""
    kernel, outputs, windows = _windows("unfold", spatial("unfold", input, 2), kernel_size, dilation, padding, stride)
    lead, channels = tuple(input.shape[:-3]), input.shape[-3]
    return call(unfold_columns, input, windows).reshape((*lead, channels * math.prod(kernel), math.prod(outputs)))


@composite("col2im(Tensor input, any output_size, any kernel_size, any dilation=1, any padding=0, any stride=1) "
           "-> Tensor", method=False, namespace="nn.functional", replayable=True)
def col2im(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Add up columns [B, C * kernel, windows] to an image [B, C, H, W].

    Raises:
        ShapeError: The columns do not fit the image.
    """
    sizes = numbers("fold", "output_size", output_size, 2)
    kernel, outputs, windows = _windows("fold", sizes, kernel_size, dilation, padding, stride)
    if input.ndim not in (2, 3) or input.shape[-2] % math.prod(kernel) or input.shape[-1] != math.prod(outputs):
        raise ShapeError("fold", f"columns {list(input.shape)}, kernel_size={list(kernel)}",
                         f"there are {math.prod(outputs)} columns, of a multiple of {math.prod(kernel)} rows",
                         "check output_size, stride and padding")
    channels = input.shape[-2] // math.prod(kernel)
    return call(fold_columns, input.reshape((*input.shape[:-2], channels, *kernel, *outputs)), windows)
