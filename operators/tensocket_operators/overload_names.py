"""Names of PyTorch's overloads of built-in operators. One record here stands for all overloads of an operator."""

from __future__ import annotations

from functools import cache
from typing import Final

#: Names of overloads that compute with Python numbers and texts in scripts.
_NUMBERS: Final = frozenset({
    "bool", "bool_list", "complex", "complex_complex", "complex_float", "complex_int", "device", "enum", "float",
    "float_complex", "float_float", "float_int", "float_list", "int", "int_complex", "int_float", "int_int", "int_list",
    "str", "str_list", "Tensor_list",
})  # fmt: skip
#: By the names of overloads, the first of which names the record: the operators that have them; ``numbers`` stands for
#: those above. Operators with ``default`` alone are not listed, nor are overloads that write to ``out``.
_OPERATORS: Final = {
    "Tensor Scalar":
        "bitwise_and_ bitwise_or_ bitwise_xor_ bucketize copysign_ eq_ fill fill_ float_power_ floor_divide_ fmod_ "
        "ge_ greater greater_ greater_equal greater_equal_ gt_ le_ lerp lerp_ less less_ less_equal less_equal_ lt_ "
        "masked_fill masked_fill_ multiply multiply_ ne_ not_equal not_equal_ pow_ remainder_ rsub searchsorted "
        "sub_ subtract subtract_ true_divide true_divide_",
    "default Scalar numbers":
        "acos acosh angle asin asinh atan atanh ceil cos cosh erf erfc exp expm1 floor lgamma log10 log1p neg sin "
        "sinh sqrt tan tanh",
    "default n_scalar x_scalar":
        "special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
        "special_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he "
        "special_laguerre_polynomial_l special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t "
        "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
        "special_shifted_chebyshev_polynomial_w",
    "Scalar List ScalarList":
        "_foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_ _foreach_maximum "
        "_foreach_maximum_ _foreach_minimum _foreach_minimum_ _foreach_sub _foreach_sub_",
    "Tensor Scalar default numbers": "copysign eq fmod ge gt le lt ne sub",
    "default Tensor": "clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ narrow",
    "int": "log_softmax select_copy softmax transpose transpose_copy unbind unbind_copy unflatten",
    "Tensor List Scalar ScalarList": "_foreach_add _foreach_add_ _foreach_div _foreach_div_ _foreach_mul _foreach_mul_",
    "default dtype": "addmm baddbmm bmm mm view view_copy",
    "default generator": "rand rand_like randn randn_like randperm",
    "Tensor Scalar ScalarList": "_foreach_addcdiv _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_",
    "default correction dim": "std std_mean var var_mean",
    "default int": "gcd size stride",
    "default msg": "_assert_async",
    "default numbers": "isfinite isinf isnan tensor",
    "input data": "gru lstm rnn_relu rnn_tanh",
    "List Scalar ScalarList": "_foreach_lerp _foreach_lerp_ _foreach_pow_",
    "Tensor": "slice_copy split_copy unsafe_split",
    "Tensor Scalar Scalar_Tensor": "bitwise_and bitwise_or bitwise_xor",
    "default dim dims": "squeeze squeeze_ squeeze_copy",
    "default grad_input": "gelu_backward leaky_relu_backward max_pool2d_with_indices_backward",
    "default padding": "conv1d conv2d conv3d",
    "default values": "kthvalue mode topk",
    "int array": "dsplit hsplit vsplit",
    "x dx": "cumulative_trapezoid trapezoid trapz",
    "Scalar": "_foreach_norm _foreach_powsum",
    "Tensor Scalar Scalar_mode Tensor_mode": "div_ divide_",
    "Tensor Scalar t": "add_ mul_",
    "Tensor Scalar_Tensor Tensor_Scalar": "bitwise_left_shift bitwise_right_shift",
    "Tensor Tensor_Scalar": "bitwise_left_shift_ bitwise_right_shift_",
    "Tensor default": "frexp ldexp",
    "default Scalar_Scalar numbers": "atan2 polar",
    "default Scalar_Tensor Tensor_Scalar Tensor_Tensor": "linspace logspace",
    "default U": "linalg_svd svd",
    "default all_out dim dims numbers": "all any",
    "default dim dim_values": "median nanmedian",
    "default hacked_twin": "index_put index_put_",
    "default other_scalar self_scalar": "special_xlog1py special_zeta",
    "default output": "fractional_max_pool2d fractional_max_pool3d",
    "default scalar": "nanquantile quantile",
    "input": "conv_transpose2d conv_transpose3d",
    "int_Tensor int_Scalar": "index_fill index_fill_",
    "intlist int": "moveaxis movedim",
    "two": "scatter_reduce scatter_reduce_",
    "List Scalar ScalarAndTensor ScalarList": "_foreach_pow",
    "Scalar ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype dtype_out": "norm",
    "Tensor IntList": "ctc_loss",
    "Tensor OutScalar_Other OutScalar_Self OutTensor Scalar_Other Scalar_Self": "xlogy",
    "Tensor Scalar Scalar_Tensor default numbers": "remainder",
    "Tensor Scalar Scalar_mode Tensor_mode default numbers out_mode": "div",
    "Tensor Scalar Scalar_mode Tensor_mode out_mode": "divide",
    "Tensor Scalar default left_t numbers right_": "mul",
    "Tensor Scalar default numbers t": "add",
    "Tensor Scalar_Other": "xlogy_",
    "Tensor Tensor_hacked_twin list_Tensor list_bool list_float list_int list_str str": "index",
    "Tensor default sizes str": "split",
    "Tensor self_Tensor self_int": "repeat_interleave",
    "Tensor str t": "slice",
    "Tensor_Tensor Scalar Scalar_Scalar Tensor_Scalar int_to_int numbers": "pow",
    "Tensor_Tensor Scalar Tensor_Scalar": "float_power",
    "Tensor_Tensor Scalar_Tensor Tensor_Scalar": "isin",
    "bins_tensor bin_ct": "histogram",
    "default IntList_out dim_IntList numbers": "sum",
    "default L": "linalg_cholesky_ex",
    "default Q": "qr",
    "default Scalar": "floor_divide",
    "default Scalar ScalarOther ScalarSelf self": "where",
    "default Scalar Scalar_Scalar numbers": "log",
    "default Scalar decimals numbers": "round",
    "default Tensor any numbers stable values values_stable": "sort",
    "default Tensor numbers": "copy_",
    "default TensorList": "backward",
    "default TensorList_bins int_bins": "histogramdd",
    "default X": "triangular_solve",
    "default a": "geqrf",
    "default atol_rtol_float atol_rtol_tensor out_rcond_tensor rcond_tensor": "linalg_pinv",
    "default atol_rtol_float atol_rtol_tensor out_tol_tensor tol_tensor": "linalg_matrix_rank",
    "default center": "stft",
    "default decimals": "round_",
    "default deprecated": "_convolution",
    "default device dtype dtype_layout other prim_Device prim_dtype prim_other": "to",
    "default dim dim_max other unary_out": "max",
    "default dim dim_min other unary_out": "min",
    "default dim dtype_out": "mean",
    "default dim_IntList": "count_nonzero",
    "default dim_int int_out": "prod",
    "default eigvals": "linalg_eigh",
    "default generator low low_generator": "randint",
    "default indexing": "meshgrid",
    "default inverse": "linalg_inv_ex",
    "default list numbers": "as_tensor",
    "default m": "eye",
    "default memory_format": "is_contiguous",
    "default ord_str": "linalg_norm",
    "default p_str": "linalg_cond",
    "default padding_idx": "embedding_bag",
    "default stable": "argsort",
    "default start start_step": "arange",
    "default str_ord": "linalg_matrix_norm",
    "default sublist": "einsum",
    "int default": "sym_size",
    "int t": "select",
    "memory_format": "empty",
    "scalarint array scalararray scalarrayarray scalarrayint tensorarray tensorarrayint": "gradient",
    "sections indices tensor_indices_or_sections": "tensor_split",
    "src reduce value value_reduce": "scatter_",
    "t": "reverse",
    "using_ints": "flatten",
    "value reduce src value_reduce": "scatter",
}
_DEFAULT: Final = ("default",)


@cache
def _overloads() -> dict[str, tuple[str, ...]]:
    return {name: tuple(overloads.split()) for overloads, names in _OPERATORS.items() for name in names.split()}


def overloads_of(operator: str) -> tuple[str, ...]:
    """Return the names of an operator's overloads, without those that write to ``out``; the first one names its record.

    >>> overloads_of("squeeze")
    ('default', 'dim', 'dims')
    """
    return tuple(name for name in _overloads().get(operator, _DEFAULT) if name != "numbers")


def has_overload(operator: str, name: str) -> bool:
    """Whether a name is that of an overload; ``default`` is one of all operators, since the record has all forms.

    >>> has_overload("squeeze", "dim_out"), has_overload("squeeze", "dim_IntList")
    (True, False)
    """
    known = (*_overloads().get(operator, _DEFAULT), "default")
    return name in known or name == "out" or name.removesuffix("_out") in known or (
        "numbers" in known and name in _NUMBERS)
