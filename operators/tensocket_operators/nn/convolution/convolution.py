"""Convolutions of one to three dimensions, forward and transposed, and sliding windows as columns.

Convolution, the gradient of its image and that of its weight are three records of one trilinear form:
the derivatives of each are the other two, to any order. Transposed convolution is the second record.
"""

from __future__ import annotations

import math
from operator import index
from typing import Any, Final

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.formats import channels_last, channels_last_3d
from tensocket_core.geometry import is_integer
from tensocket_core.keys import WRAPPER, dtype_bit
from tensocket_core.launch.stream_use import note_use
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError
from tensocket_plugins.kit.bounded import BoundedCache

from ...kinds.composite import composite
from ...kinds.pointwise import Pointwise
from ...kinds.view import Custom
from .im2col import Window, backward_input, backward_weight, forward
from .windows import constant_pad, has_channels_last, laid_like


def _exchanged(operator: str, first: Any, second: Any) -> ShapeError:
    """Return the error for operands whose shapes passed an earlier check and no longer fit."""
    return ShapeError(operator, f"shapes {list(first)} and {list(second)}", "the operands' shapes fit together",
                      "let no other thread exchange their data meanwhile")


def _convolve(state: Any, input: Any, weight: Any, window: Window) -> Any:
    sizes, factors = input._array.shape, weight._array.shape
    if len(sizes) != len(factors) or sizes[1] != factors[1] * window.groups:
        raise _exchanged("convolve", sizes, factors)
    outputs = window.outputs(sizes[2:], factors[2:])
    shape = (sizes[0], factors[0], *outputs)
    if 0 in shape or 0 in factors:
        return input.new_zeros(shape)
    kernel = _registered(state, "convolve", input, window, factors[2:])
    if kernel is not None:
        return _laid(_made(state, kernel, shape, (input, weight), window), input, weight)
    pads = [(p, p) for p in window.padding]
    return _laid(forward(state, input.detach(), weight.detach(), window, outputs, pads), input, weight)


def _laid(result: Any, image: Any, weight: Any) -> Any:
    """Return the result in channels-last format if the image or the weight has it, else in row-major order."""
    if has_channels_last(weight._array):
        return result.contiguous(memory_format=channels_last if result.ndim == 4 else channels_last_3d)
    return laid_like(result, image._array)


def _convolve_input(state: Any, upstream: Any, weight: Any, window: Window, sizes: tuple[int, ...]) -> Any:
    shape = (upstream.shape[0], window.groups * weight.shape[1], *sizes)
    if upstream.ndim != weight.ndim or upstream.shape[1] != weight.shape[0] or (
            any(n > most for n, most in zip(
                upstream.shape[2:], window.outputs(sizes, tuple(weight.shape[2:])), strict=True))):
        raise _exchanged("convolve_input", upstream.shape, weight.shape)
    if 0 in shape or 0 in upstream.shape or 0 in weight.shape:
        return upstream.new_zeros(shape)
    kernel = _registered(state, "convolve_input", upstream, window, tuple(weight.shape[2:]))
    if kernel is not None:
        return _laid(_made(state, kernel, shape, (upstream, weight), window), upstream, weight)
    return _laid(backward_input(state, upstream.detach(), weight.detach(), window, sizes), upstream, weight)


def _convolve_weight(state: Any, upstream: Any, input: Any, window: Window, kernel: tuple[int, ...]) -> Any:
    shape = (upstream.shape[1], input.shape[1] // window.groups, *kernel)
    if upstream.ndim != input.ndim or upstream.shape[0] != input.shape[0] or (
            any(n > most for n, most in zip(
                upstream.shape[2:], window.outputs(tuple(input.shape[2:]), kernel), strict=True))):
        raise _exchanged("convolve_weight", upstream.shape, input.shape)
    if 0 in shape or 0 in upstream.shape or 0 in input.shape:
        return upstream.new_zeros(shape)
    run = _registered(state, "convolve_weight", input, window, kernel)
    if run is not None:
        return _made(state, run, shape, (upstream, input), window)
    return backward_weight(state, upstream.detach(), input.detach(), window, kernel)


def _registered(state: Any, operator: str, input: Any, window: Window, kernel: tuple[int, ...]) -> Any:
    """Return the device's registered kernel if it has one and the convolution is more than one matrix product."""
    if max(kernel) == 1 and window.plain:
        return None
    cells = math.prod(kernel)
    # Columns of many disjoint windows have as many elements as these. Gradients of small windows use the kernel.
    if window.apart(kernel) and cells * input._array.shape[1] >= _DEEP and input._array.size >= _MANY and (
            operator != "convolve_input" or cells >= _CELLS):
        return None
    return state.runtime.kernels.find(operator, input.dtype.name, direct=False)


def _made(state: Any, kernel: Any, shape: tuple[int, ...], operands: tuple[Any, ...], window: Window) -> Any:
    """Return the result of a registered kernel, which takes the window's numbers as scalars."""
    dtype = operands[0].dtype
    out = state.runtime.empty(shape, dtype, state.stream)
    arrays = [x._array for x in operands]
    note_use((out, *arrays), state.stream)
    kernel.run([out], arrays, (window.stride, window.padding, window.dilation, window.groups), state.stream)
    return wrap(out, state.key | dtype_bit(dtype))


def _cut(result: Any, shape: tuple[int, ...]) -> Any:
    """Return the result without the windows that only output padding makes room for and that no output belongs to."""
    if tuple(result.shape) == tuple(shape):
        return result
    return result.basic_index(tuple([slice(0, n) for n in shape]))


#: Rows of a matrix of columns, elements of an image and of a window above which a product of matrices is faster.
_DEEP: Final = 64
_MANY: Final = 1 << 15
_CELLS: Final = 16
#: Windows of convolutions by arguments that passed all checks.
_FITTING: Final[BoundedCache[tuple[Any, ...], Window]] = BoundedCache(1024)
_PLAIN: Final = frozenset({int, bool, type(None)})

#: Takes images [B, C, sizes..] and weights [O, C / groups, kernel..].
convolve: Final = Custom(
    "convolve(Tensor input, Tensor weight, any window) -> Tensor",
    "Sums of products of a weight and every window of an image.",
    _convolve,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(
        input=lambda grad, input_shape, weight, window: call(convolve_input, grad, weight, window,
                                                             tuple(input_shape[2:])),
        weight=lambda grad, input, weight_shape, window: call(convolve_weight, grad, input, window,
                                                              tuple(weight_shape[2:])),
    ),
)
convolve_input: Final[Custom] = Custom(
    "convolve_input(Tensor upstream, Tensor weight, any window, int[] sizes) -> Tensor",
    "An image of given sizes that every element of upstream adds a multiple of the weight to.",
    _convolve_input,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(
        upstream=lambda grad, upstream_shape, weight, window: _cut(call(convolve, grad, weight, window),
                                                                   upstream_shape),
        weight=lambda grad, upstream, weight_shape, window: call(convolve_weight, upstream, grad, window,
                                                                 tuple(weight_shape[2:])),
    ),
)
convolve_weight: Final[Custom] = Custom(
    "convolve_weight(Tensor upstream, Tensor input, any window, int[] kernel) -> Tensor",
    "Sums of products of upstream and the elements of an image at each place of a window.",
    _convolve_weight,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(
        upstream=lambda grad, upstream_shape, input, window: _cut(call(convolve, input, grad, window),
                                                                  upstream_shape),
        input=lambda grad, upstream, input_shape, window: call(convolve_input, upstream, grad, window,
                                                               tuple(input_shape[2:])),
    ),
)

#: Small images take a kernel, too, so that a convolution with a bias consists of launches only and can be replayed.
add_bias: Final = Pointwise(
    "add_bias(Tensor input, Tensor bias) -> Tensor",
    "The sum of results of a convolution and one number for each channel.",
    lambda m, x, y: x + y,
    kinds="ifc",
    method=False,
    function=False,
    launched=True,
    derivative=Derivative(input=lambda grad: grad, bias=lambda grad: grad),
)

# ------------------------------------------------------------------------------------------------------- arguments


def integers(operator: str, name: str, value: Any) -> tuple[int, ...]:
    """Return several integers of Python or of a library as a tuple.

    Raises:
        ArgumentTypeError: An element is not an integer.
    """
    try:
        return tuple(map(index, value))
    except TypeError:
        raise ArgumentTypeError(operator, f"{name}={value!r}", "sizes and steps are integers",
                                "pass an int or a tuple of them") from None


def numbers(operator: str, name: str, value: Any, dims: int) -> tuple[int, ...]:
    """Return an argument with one number for all spatial dimensions, or one for each.

    Raises:
        ArgumentError: There are neither 1 nor ``dims`` numbers.
        ArgumentTypeError: They are not integers.
    """
    values = integers(operator, name, (value,) if isinstance(value, int) or is_integer(value) else value)
    if len(values) == 1:
        return values * dims
    if len(values) != dims:
        raise ArgumentError(operator, f"{name}={value!r} for {dims} spatial dimensions",
                            "there is one number for all, or one for each dimension", "pass an int or a tuple of them")
    return values


def _window(operator: str, dims: int, stride: Any, padding: Any, dilation: Any, groups: int) -> Window:
    window = Window(numbers(operator, "stride", stride, dims), numbers(operator, "padding", padding, dims),
                    numbers(operator, "dilation", dilation, dims), integers(operator, "groups", (groups,))[0])
    if min(window.stride) < 1 or min(window.dilation) < 1 or min(window.padding) < 0 or groups < 1:
        raise ArgumentError(operator, f"stride={stride}, padding={padding}, dilation={dilation}, groups={groups}",
                            "stride, dilation and groups are positive, padding is not negative", "change the argument")
    return window


def _check(operator: str, input: Any, weight: Any, bias: Any, dims: int, groups: int, transposed: bool) -> None:
    """Check ranks, channels and dtypes of a convolution's tensors.

    Raises:
        ShapeError: The shapes do not fit each other.
        DtypeError: The dtypes differ.
    """
    if weight.ndim != dims + 2 or input.ndim not in (dims + 1, dims + 2):
        raise ShapeError(operator, f"input {list(input.shape)} and weight {list(weight.shape)}",
                         f"the input has {dims + 1} dimensions or a batch of these, the weight {dims + 2}",
                         "reshape them")
    channels = input.shape[-dims - 1]
    taken = weight.shape[0] if transposed else weight.shape[1] * groups
    if channels != taken or weight.shape[0] % groups:
        raise ShapeError(operator, f"input {list(input.shape)}, weight {list(weight.shape)}, groups={groups}",
                         f"the weight is for {taken} input channels, a multiple of groups",
                         "change the weight or the number of groups")
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise ShapeError(operator, f"bias {list(bias.shape)} for {outputs} output channels",
                         "there is a bias for every output channel", "pass a vector of that size")
    dtypes = {x.dtype.name for x in (input, weight, bias) if x is not None}
    if len(dtypes) > 1:
        raise DtypeError(operator, f"tensors of {', '.join(sorted(dtypes))}", "input, weight and bias have one dtype",
                         "convert with .to(dtype)")


def _finished(result: Any, bias: Any, dims: int, input: Any) -> Any:
    """Return the result of a batch with its bias, or of one image; without input channels it has no output channels.

    The last rule is PyTorch's: images of no channels have results of none, and gradients of 0.
    """
    if len(input._array.shape) == dims + 1:
        result = result.squeeze(0)
    if bias is not None:
        result = call(add_bias, result, bias.reshape((-1, *(1,) * dims)))
    return result if input._array.shape[-dims - 1] else result.narrow(-dims - 1, 0, 0)


def _same_padding(operator: str, padding: str, kernel: tuple[int, ...], stride: tuple[int, ...],
                  dilation: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the number of zeros on both sides for ``valid`` or ``same``; an odd one goes to the right.

    Raises:
        ArgumentError: ``same`` with a stride other than 1, or an unknown name.
    """
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding != "same":
        raise ArgumentError(operator, f"padding={padding!r}", "a padding's name is 'valid' or 'same'",
                            "pass one of these, or numbers")
    if any(s != 1 for s in stride):
        raise ArgumentError(operator, f"padding='same' with stride {list(stride)}",
                            "the sizes stay the same only with stride 1", "pass padding as numbers")
    totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def plain(arguments: tuple[Any, ...]) -> bool:
    """Whether all arguments are ints, bools, None or tuples of these; others that equal an int may be refused."""
    for value in arguments:
        for n in value if type(value) is tuple else (value,):
            if type(n) not in _PLAIN:
                return False
    return True


def _place(operator: str, input: Any, weight: Any, bias: Any, *arguments: Any) -> tuple[Any, ...] | None:
    """Return the cache key of a convolution's arguments, or None if they cannot be cached."""
    if not plain(arguments):
        return None
    if (input._key | weight._key) & WRAPPER:
        return None
    place = (operator, arguments, input._key, input._array.shape, weight._key, weight._array.shape)
    if bias is None:
        return place
    return None if bias._key & WRAPPER else (*place, bias._key, bias._array.shape)


def convolved(operator: str, dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
              groups: int) -> Any:
    """Return the convolution of a batch or of one image, with checked arguments.

    Raises:
        ShapeError: A window is larger than the padded image, or the tensors do not fit each other.
        ArgumentError: An argument is out of its range.
    """
    place = _place(operator, input, weight, bias, stride, padding, dilation, groups)
    known = None if place is None else _FITTING.get(place)
    if known is not None:
        alone = len(input._array.shape) != dims + 2
        result = call(convolve, input.unsqueeze(0) if alone else input, weight, known)
        return _finished(result, bias, dims, input)
    named = isinstance(padding, str)
    window = _window(operator, dims, stride, 0 if named else padding, dilation, groups)
    _check(operator, input, weight, bias, dims, groups, False)
    kernel = tuple(weight.shape[2:])
    x = input if input.ndim == dims + 2 else input.unsqueeze(0)
    if named:
        sides = _same_padding(operator, padding, kernel, window.stride, window.dilation)
        if all(low == high for low, high in sides):
            window = Window(window.stride, tuple([low for low, _ in sides]), window.dilation, groups)
        else:
            x = call(constant_pad, x, tuple([n for pair in reversed(sides) for n in pair]), 0)
    if any(n < 1 for n in window.outputs(tuple(x.shape[2:]), kernel)):
        raise ShapeError(operator, f"a kernel of {list(kernel)} on {list(x.shape[2:])}, padding={padding}, "
                         f"dilation={dilation}", "the kernel fits into the padded image",
                         "use more padding or a smaller kernel")
    if place is not None:
        _FITTING[place] = window
    result = call(convolve, x, weight, window)
    return _finished(result, bias, dims, input)


def upconvolved(operator: str, dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any,
               output_padding: Any, groups: int, dilation: Any) -> Any:
    """Return the transposed convolution of a batch or of one image, with checked arguments.

    Raises:
        ShapeError: A size of the result would be below 1, or the tensors do not fit each other.
        ArgumentError: An argument is out of its range.
    """
    window = _window(operator, dims, stride, padding, dilation, groups)
    _check(operator, input, weight, bias, dims, groups, True)
    extra = numbers(operator, "output_padding", output_padding, dims)
    if any(not 0 <= e < max(s, d) for e, s, d in zip(extra, window.stride, window.dilation, strict=True)):
        raise ArgumentError(operator, f"output_padding={output_padding}, stride={stride}, dilation={dilation}",
                            "output padding is smaller than stride or dilation", "choose a smaller output padding")
    x = input if input.ndim == dims + 2 else input.unsqueeze(0)
    sizes = tuple([(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, s, p, d, k, e in zip(
        x.shape[2:], window.stride, window.padding, window.dilation, weight.shape[2:], extra, strict=True)])
    if min(sizes) < 1:
        raise ShapeError(operator, f"input {list(input.shape)}, which gives sizes {list(sizes)}",
                         "the result has at least one element along each dimension", "use less padding")
    result = call(convolve_input, x, weight, window, sizes)
    return _finished(result, bias, dims, input)


_FORWARD: Final = ("(Tensor input, Tensor weight, Tensor? bias=None, any stride=1, any padding=0, any dilation=1, "
                   "int groups=1) -> Tensor")
_TRANSPOSED: Final = ("(Tensor input, Tensor weight, Tensor? bias=None, any stride=1, any padding=0, "
                      "any output_padding=0, int groups=1, any dilation=1) -> Tensor")


@composite(f"conv1d{_FORWARD}", method=False, replayable=True)
def conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1) -> Any:
    """Convolve [B, C, L] or [C, L] with weights [O, C / groups, K]; padding may be 'valid' or 'same'."""
    return convolved("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite(f"conv2d{_FORWARD}", method=False, replayable=True)
def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1) -> Any:
    """Convolve [B, C, H, W] or [C, H, W] with weights [O, C / groups, K, K]; padding may be 'valid' or 'same'."""
    return convolved("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite(f"conv3d{_FORWARD}", method=False, replayable=True)
def conv3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1) -> Any:
    """Convolve [B, C, D, H, W] or [C, D, H, W] with weights [O, C / groups, K, K, K]."""
    return convolved("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composite(f"conv_transpose1d{_TRANSPOSED}", method=False, replayable=True)
def conv_transpose1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Any:
    """Apply the transposed convolution with weights [C, O / groups, K] to [B, C, L] or [C, L]."""
    return upconvolved("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(f"conv_transpose2d{_TRANSPOSED}", method=False, replayable=True)
def conv_transpose2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Any:
    """Apply the transposed convolution with weights [C, O / groups, K, K] to [B, C, H, W] or [C, H, W]."""
    return upconvolved("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(f"conv_transpose3d{_TRANSPOSED}", method=False, replayable=True)
def conv_transpose3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Any:
    """Apply the transposed convolution with weights [C, O / groups, K, K, K] to [B, C, D, H, W] or [C, D, H, W]."""
    return upconvolved("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite("convolution(Tensor input, Tensor weight, Tensor? bias, any stride, any padding, any dilation, "
           "bool transposed, any output_padding, int groups) -> Tensor", method=False)
def convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                output_padding: Any, groups: int) -> Any:
    """Convolve over as many dimensions as the weight has; ``transposed`` chooses the transposed convolution."""
    dims = weight.ndim - 2
    if dims < 1:
        raise ShapeError("convolution", f"weight {list(weight.shape)}", "a weight has two dimensions and spatial ones",
                         "pass a weight of at least 3 dimensions")
    if transposed:
        return upconvolved("convolution", dims, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolved("convolution", dims, input, weight, bias, stride, padding, dilation, groups)


@composite("conv_tbc(Tensor input, Tensor weight, Tensor bias, int pad=0) -> Tensor", method=False)
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Convolve the first dimension of [T, B, C] with weights [K, C, O], add a bias [O] and return [T, B, O].

    Raises:
        ShapeError: A tensor has another rank, or the tensors do not fit each other.
    """
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise ShapeError("conv_tbc", f"input {list(input.shape)}, weight {list(weight.shape)}, "
                         f"bias {list(bias.shape)}", "they are [T, B, C], [K, C, O] and [O]", "reshape them")
    result = convolved("conv_tbc", 1, input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad, 1, 1)
    return result.permute(2, 0, 1).contiguous()


@composite("_convolution(Tensor input, Tensor weight, Tensor? bias, any stride, any padding, any dilation, "
           "bool transposed, any output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled, "
           "bool allow_tf32=True) -> Tensor", method=False)
def _convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                 output_padding: Any, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
                 allow_tf32: bool = True) -> Any:
    """Return ``convolution``; the last four arguments, which choose among PyTorch's kernels, change nothing."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
