"""The public names of the front end, pinned: additions and removals are decisions."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tensocket as torch

DTYPES = """
bfloat16 bool cdouble cfloat chalf complex128 complex32 complex64 double float float16 float32 float64
float8_e4m3fn float8_e5m2
half int int16 int32 int64 int8 long short uint16 uint32 uint64 uint8
"""
CREATION = """
asarray from_dlpack frombuffer
arange as_tensor bernoulli empty empty_like eye from_file from_numpy full full_like linspace
ones ones_like rand rand_like
randint randn randn_like randperm tensor zeros zeros_like
"""
OPERATORS = """
abs absolute add addcdiv addcmul addmm all amax amin any argmax argmin as_strided bitwise_and bitwise_not
bitwise_or bitwise_xor bmm broadcast_tensors broadcast_to cat ceil chunk clamp clip clone concat concatenate cos
div divide dot eq erf exp expm1 fix flatten flip floor floor_divide fmod gather ge greater greater_equal gt
index_put index_select isfinite isinf isnan le lerp less less_equal log log1p log_softmax logical_and
logical_not logical_or logical_xor logsumexp lt masked_fill matmul max maximum mean min minimum mm moveaxis
movedim mul multiply mv narrow ne neg negative nonzero not_equal permute pow prod reciprocal relu remainder
reshape round rsqrt scatter scatter_add select sigmoid sign sin softmax split sqrt square squeeze stack std sub
subtract sum swapaxes swapdims t tanh transpose true_divide trunc unbind unsqueeze var where
"""
ARRAY_FUNCTIONS = """
acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh argsort asin asinh atan atan2 atanh bucketize
copysign cosh count_nonzero cross cummax cummin cumprod cumsum det diagonal diff exp2 ger hypot inverse isin log10
log2 logaddexp logaddexp2 meshgrid nextafter outer positive repeat_interleave roll searchsorted signbit sinh sort
take take_along_dim tan tensordot tile topk trace tril triu unique unique_consecutive
"""
MATRICES = """
addbmm addmv baddbmm chain_matmul cholesky cholesky_inverse cholesky_solve corrcoef cov
cumulative_trapezoid einsum geqrf inner kron logdet lu lu_solve lu_unpack matrix_exp matrix_power norm orgqr ormqr
pca_lowrank pinverse qr renorm slogdet jagged sparse_bsc sparse_bsc_tensor sparse_bsr sparse_bsr_tensor
sparse_compressed_tensor sparse_coo sparse_coo_tensor sparse_csc sparse_csc_tensor sparse_csr
sparse_csr_tensor svd svd_lowrank trapezoid trapz triangular_solve vander
"""
COMPLEX = """
_conj _neg_view adjoint angle bitwise_left_shift bitwise_right_shift complex conj conj_physical imag is_complex is_conj
is_neg isreal
polar real resolve_conj resolve_neg sgn vdot view_as_complex view_as_real
"""
TYPES = "Event Generator LedgerRecord OutOfMemoryError Size Stream Tag Tensor device dtype"
MODES = """
finfo iinfo inference_mode is_inference is_inference_mode_enabled vmap
are_deterministic_algorithms_enabled default_dtype get_deterministic_debug_mode
is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode use_deterministic_algorithms
can_cast enable_grad get_default_device get_default_dtype get_rng_state initial_seed is_floating_point
is_grad_enabled is_tensor manual_seed no_grad numel promote_types result_type set_default_device
set_default_dtype set_grad_enabled set_rng_state
"""
DEVICES = """
accelerator available_devices backends build_stats current_stream default_generator device_count empty_cache
fallback_ledger
get_device_info get_device_module is_available memory_allocated memory_stats profile registrations
reset_fallback_ledger
reset_peak_memory_stats set_fallback set_stream synchronize
"""
PACKAGES = """
array_api autograd dispatch errors fft func library linalg nn ops optim overrides random serialization
sparse special utils version
"""
SURFACE = """
allclose argwhere as_strided_ as_strided_scatter clamp_max clamp_min column_stack
diagonal_scatter dsplit dstack equal hsplit hstack index_add
index_copy index_fill index_reduce isclose masked_scatter masked_select narrow_copy
put ravel resize_as_ row_stack scatter_reduce select_scatter slice_scatter
split_with_sizes tensor_split unflatten vsplit vstack empty_permuted empty_strided
scalar_tensor broadcast_shapes atleast_1d atleast_2d atleast_3d TypedStorage UntypedStorage Storage
is_storage BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor
HalfTensor IntTensor LongTensor ShortTensor typename channels_last channels_last_3d
contiguous_format get_printoptions layout memory_format preserve_format printoptions set_printoptions
strided
is_nonzero is_same_size is_signed newaxis
"""
IN_PLACE = """
abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_
clamp_min_ clip_ conj_physical_ cos_ cosh_ erf_ exp2_ exp_ expm1_ fill_ fix_ floor_ index_put_ log10_ log1p_ log2_ log_
neg_ negative_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ zero_
absolute_ expand view
"""
NUMERIC = """
addr celu deg2rad deg2rad_ fill float_power fmax fmin frac frac_ frexp gcd gcd_ hardshrink heaviside isneginf isposinf
lcm lcm_ ldexp ldexp_ logit logit_ nan_to_num nan_to_num_ prelu rad2deg rad2deg_ rrelu rsub selu sinc sinc_ threshold
xlogy xlogy_
digamma erfc erfc_ erfinv i0 i0_ igamma igammac lgamma mvlgamma polygamma
"""
SETTINGS = """
detach detach_ get_device get_float32_matmul_precision get_num_threads is_anomaly_check_nan_enabled is_anomaly_enabled
seed segment_reduce set_default_tensor_type set_float32_matmul_precision set_num_threads
"""
IMAGES = """
_convolution adaptive_avg_pool1d adaptive_max_pool1d affine_grid_generator avg_pool1d channel_shuffle constant_pad_nd
conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution grid_sampler
grid_sampler_2d grid_sampler_3d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d native_channel_shuffle
pixel_shuffle pixel_unshuffle
"""
STATISTICS = """
alias_copy aminmax as_strided_copy bartlett_window bincount binomial blackman_window block_diag cartesian_prod
combinations detach_copy diag diag_embed diagflat diagonal_copy expand_copy fliplr flipud gradient hamming_window
hann_window hash_tensor histc histogram histogramdd istft kaiser_window kthvalue logcumsumexp logspace masked median
mode msort multinomial nanmean nanmedian nanquantile nansum nonzero_static normal permute_copy poisson quantile
randint_like rot90 select_copy signal slice_copy split_copy split_with_sizes_copy squeeze_copy std_mean stft t_copy
transpose_copy tril_indices triu_indices unbind_copy unfold_copy unravel_index unsafe_chunk unsafe_split
unsafe_split_with_sizes unsqueeze_copy var_mean view_as_complex_copy view_as_real_copy view_copy
"""
NEURAL = """
alpha_dropout alpha_dropout_ batch_norm bilinear binary_cross_entropy_with_logits cdist cosine_embedding_loss
cosine_similarity ctc_loss dist dropout dropout_ embedding embedding_renorm_ feature_alpha_dropout
feature_alpha_dropout_ feature_dropout feature_dropout_ group_norm gru gru_cell hinge_embedding_loss instance_norm
kl_div layer_norm lstm lstm_cell margin_ranking_loss native_batch_norm native_dropout native_dropout_backward
native_group_norm native_layer_norm pairwise_distance pdist poisson_nll_loss rms_norm rnn_relu rnn_relu_cell rnn_tanh
batch_norm_update_stats rnn_tanh_cell triplet_margin_loss
"""
NEURAL_FUNCTIONS = """
alpha_dropout batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss
cosine_similarity ctc_loss dropout1d dropout2d dropout3d embedding_bag feature_alpha_dropout gaussian_nll_loss
group_norm gumbel_softmax hinge_embedding_loss huber_loss instance_norm kl_div linear_cross_entropy
local_response_norm margin_ranking_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss pairwise_distance pdist poisson_nll_loss rms_norm scaled_dot_product_attention
smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss
"""
PRECISIONS = """
amp autocast autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache cpu cuda
get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled is_autocast_cpu_enabled
is_autocast_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype
set_autocast_enabled set_autocast_gpu_dtype
"""
LEGACY = """
GradScaler celu_ compiled_with_cxx11_abi dsmm eig frobenius_norm get_num_interop_threads hsmm hspmm is_distributed
is_vulkan_available is_warn_always_enabled lstsq matrix_rank norm_except_dim nuclear_norm range rrelu_ selu_
set_anomaly_enabled set_flush_denormal set_num_interop_threads set_warn_always smm solve spmm sspaddmm sym_float
saddmm sym_int sym_ite sym_max sym_min sym_not symeig threshold_
"""
REST = "__version__ e inf load nan pi save"
SPATIAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices
adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid
avg_pool1d avg_pool2d avg_pool3d channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
conv_transpose3d fold fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
fractional_max_pool3d_with_indices grid_sample interpolate lp_pool1d lp_pool2d lp_pool3d max_pool1d
max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d
max_unpool2d max_unpool3d native_channel_shuffle pad pixel_shuffle pixel_unshuffle unfold upsample upsample_bilinear
upsample_nearest
"""
MODULES = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d
AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d
BatchNorm3d Bilinear CELU CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d
ConstantPad3d Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss
CosineSimilarity CrossEntropyLoss CrossMapLRN2d Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag
FeatureAlphaDropout Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU GRUCell GaussianNLLLoss
GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d
InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LayerNorm LazyBatchNorm1d
LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU Linear
LinearCrossEntropyLoss LinearCrossEntropyOptions LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss
MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList
MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d PReLU
PairwiseDistance ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNBase RNNCell
RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
ReplicationPad3d SELU Sequential SiLU Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus
Softshrink Softsign SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder TransformerDecoderLayer
TransformerEncoder TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss Unflatten Unfold Upsample
UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
"""


def test_names_of_the_package():
    groups = [DTYPES, CREATION, OPERATORS, ARRAY_FUNCTIONS, MATRICES, COMPLEX, TYPES, MODES, DEVICES, PACKAGES,
              SURFACE, IN_PLACE, NUMERIC, SETTINGS, IMAGES, STATISTICS, NEURAL, PRECISIONS, LEGACY, REST]
    expected = " ".join(groups).split()
    assert sorted(torch.__all__) == sorted(expected)
    assert len(set(torch.__all__)) == len(torch.__all__)


@pytest.mark.parametrize(("package", "expected"), [
    (torch.nn, """Buffer Parameter UninitializedBuffer UninitializedParameter factory_kwargs functional
     init modules parameter utils """ + MODULES),
    (torch.nn.modules, MODULES),
    (torch.nn.parameter, """Buffer Parameter UninitializedBuffer UninitializedParameter UninitializedTensorMixin
     is_lazy"""),
    (torch.nn.utils, """clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm
     convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format fuse_conv_bn_eval fuse_conv_bn_weights
     fuse_linear_bn_eval fuse_linear_bn_weights
     parameters_to_vector parametrizations parametrize prune remove_spectral_norm remove_weight_norm rnn skip_init
     spectral_norm stateless vector_to_parameters weight_norm"""),
    (torch.nn.functional, """ScalingType SwizzleType grouped_mm scaled_grouped_mm scaled_mm
     celu celu_ cross_entropy dropout elu elu_ embedding gelu glu hardshrink hardsigmoid
     hardswish hardtanh
     hardtanh_ l1_loss layer_norm leaky_relu leaky_relu_ linear log_softmax logsigmoid mish mse_loss nll_loss
     normalize one_hot prelu relu relu6 relu_ rrelu rrelu_ selu selu_ sigmoid silu softmax softmin softplus
     softshrink softsign tanh tanhshrink threshold threshold_ """ + SPATIAL + NEURAL_FUNCTIONS),
    (torch.nn.init, """calculate_fans calculate_gain constant_ dirac_ eye_ kaiming_normal_ kaiming_uniform_ normal_
     ones_ orthogonal_ sparse_ trunc_normal_ uniform_ xavier_normal_ xavier_uniform_ zeros_"""),
    (torch.linalg, """LinAlgError cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh
     householder_product inv inv_ex ldl_factor ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul
     matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd
     svdvals tensorinv tensorsolve vander vecdot vector_norm"""),
    (torch.sparse, """DoubleTensor FloatTensor HalfTensor IntTensor LongTensor SparseSemiStructuredTensor
     SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS addmm as_sparse_gradcheck
     check_sparse_tensor_invariants log_softmax mm sampled_addmm softmax spdiags sum to_sparse_semi_structured"""),
    (torch.fft, """fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft
     irfft2 irfftn rfft rfft2 rfftfreq rfftn"""),
    (torch.masked, """MaskedTensor amax amin argmax argmin as_masked_tensor cumprod cumsum is_masked_tensor log_softmax
     logaddexp logsumexp masked_tensor mean median norm normalize prod softmax softmin std sum var"""),
    (torch.signal, "windows"),
    (torch.signal.windows, """bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann
     kaiser nuttall"""),
    (torch.special, """airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u
     chebyshev_polynomial_v chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc
     gammaincc gammaln hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e laguerre_polynomial_l
     legendre_polynomial_p log1p log_ndtr log_softmax logit logsumexp modified_bessel_i0 modified_bessel_i1
     modified_bessel_k0 modified_bessel_k1 multigammaln ndtr ndtri polygamma psi round scaled_modified_bessel_k0
     scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
     shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sinc softmax spherical_bessel_j0 xlog1py xlogy
     zeta"""),
    (torch.optim, """ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer RAdam RMSprop Rprop
     SGD SparseAdam lr_scheduler swa_utils"""),
    (torch.optim.lr_scheduler, """ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR
     ExponentialLR LRScheduler LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau
     SequentialLR StepLR"""),
    (torch.optim.swa_utils, """AveragedModel SWALR get_ema_avg_fn get_ema_multi_avg_fn get_swa_avg_fn
     get_swa_multi_avg_fn update_bn"""),
    (torch.amp, "GradScaler autocast custom_bwd custom_fwd is_autocast_available"),
    (torch.distributions, """AbsTransform AffineTransform Bernoulli Beta Binomial CatTransform Categorical Cauchy
     Chi2 ComposeTransform ContinuousBernoulli CorrCholeskyTransform
     CumulativeDistributionTransform Dirichlet Distribution ExpTransform Exponential
     ExponentialFamily FisherSnedecor Gamma GeneralizedPareto Geometric Gumbel HalfCauchy
     HalfNormal Independent IndependentTransform InverseGamma Kumaraswamy LKJCholesky Laplace
     LogNormal LogisticNormal LowRankMultivariateNormal LowerCholeskyTransform
     MixtureSameFamily Multinomial MultivariateNormal NegativeBinomial Normal
     OneHotCategorical OneHotCategoricalStraightThrough Pareto Poisson
     PositiveDefiniteTransform PowerTransform RelaxedBernoulli RelaxedOneHotCategorical
     ReshapeTransform SigmoidTransform SoftmaxTransform SoftplusTransform StackTransform
     StickBreakingTransform StudentT TanhTransform Transform TransformedDistribution Uniform
     VonMises Weibull Wishart biject_to identity_transform kl_divergence register_kl
     transform_to"""),
    (torch.profiler, """DeviceType ProfilerAction ProfilerActivity kineto_available profile record_function schedule
     supported_activities tensorboard_trace_handler"""),
    (import_module("tensocket.utils.viz"), "ComputationGraph ModuleSummary computation_graph memory_timeline summary"),
    (import_module("tensocket.utils.tensorboard"), "FileWriter SummaryWriter"),
    (import_module("tensocket.autograd.profiler_util"), "EventList FunctionEvent FunctionEventAvg Interval"),
    (import_module("tensocket.autograd.profiler"), """EventList FunctionEvent FunctionEventAvg emit_itt emit_nvtx
     kineto_available profile record_function"""),
    (torch.cuda.amp, "GradScaler amp_definitely_not_available autocast custom_bwd custom_fwd"),
    (torch.cpu.amp, "GradScaler autocast"),
    (torch.utils, "checkpoint data deterministic dlpack hooks progress swap_tensors"),
    (torch.utils.data, """BatchSampler ChainDataset ConcatDataset DataLoader Dataset DistributedSampler IterDataPipe
     IterableDataset MapDataPipe RandomSampler Sampler SequentialSampler StackDataset Subset SubsetRandomSampler
     TensorDataset WeightedRandomSampler default_collate default_convert functional_datapipe get_worker_info
     random_split"""),
    (torch.multiprocessing, """Array AuthenticationError Barrier BoundedSemaphore BufferTooShort Condition Event
     JoinableQueue Lock Manager Pipe Pool Process ProcessContext ProcessError ProcessExitedException
     ProcessRaisedException Queue RLock RawArray RawValue Semaphore SimpleQueue SpawnContext TimeoutError Value
     active_children allow_connection_pickling context cpu_count current_process freeze_support
     get_all_sharing_strategies get_all_start_methods get_context get_logger get_sharing_strategy get_start_method
     init_reductions log_to_stderr parent_process pool queues reducer reduction reductions set_executable
     set_forkserver_preload set_sharing_strategy set_start_method spawn start_processes"""),
    (torch.serialization, """LoadEndianness SourceChangeWarning StorageType add_safe_globals clear_safe_globals
     default_restore_location get_crc32_options get_default_load_endianness get_default_mmap_options get_safe_globals
     get_unsafe_globals_in_checkpoint load load_safetensors location_tag register_package safe_globals save
     save_safetensors set_crc32_options set_default_load_endianness set_default_mmap_options skip_data"""),
], ids=lambda part: getattr(part, "__name__", ""))
def test_names_of_the_packages_in_it(package, expected):
    assert sorted(package.__all__) == sorted(expected.split())


def every_module():
    root = Path(torch.__file__).parent
    return [path for path in root.rglob("*.py") if "cli" not in path.relative_to(root).parts]


@pytest.mark.parametrize("path", every_module(), ids=lambda path: path.name)
def test_listed_names_exist(path):
    root = Path(torch.__file__).parent.parent
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    module = sys.modules.get(name) or __import__(name, fromlist=["_"])
    for listed in getattr(module, "__all__", []):
        assert hasattr(module, listed), listed


@pytest.mark.parametrize("path", every_module(), ids=lambda path: path.name)
def test_only_libraries_below_are_imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
            [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else [])
        for name in names:
            top = name.partition(".")[0]
            assert not top.startswith("tensocket_") or top in (
                "tensocket_compiler", "tensocket_core", "tensocket_operators", "tensocket_plugins")


def test_aliases_and_constants():
    assert torch.float is torch.float32
    assert torch.long is torch.int64
    assert torch.half is torch.float16
    assert torch.inf == float("inf")
    assert torch.nan != torch.nan
    assert str(torch.pi).startswith("3.14159")
    assert torch.is_tensor(torch.ones(1))
    assert not torch.is_tensor(1)
    assert torch.numel(torch.ones(2, 3)) == 6
    assert torch.is_floating_point(torch.ones(1))
    assert not torch.is_floating_point(torch.ones(1, dtype=torch.bool))


def test_available_devices_can_be_used():
    names = torch.available_devices()
    assert "cpu:0" in names
    assert torch.ones(1, device=names[0]).item() == 1


def test_import_loads_no_backend_and_nothing_heavy():
    code = ("import sys, tensocket; print(sorted(set(sys.modules) & {'llvmlite', 'pyopencl', 'rich', 'matplotlib', "
            "'safetensors', 'scipy', 'tensocket_cpu', 'tensocket_opencl', 'tensocket_cuda'}))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_forked_generators_go_on_where_they_were():
    torch.manual_seed(3)
    with torch.random.fork_rng():
        inside = torch.rand(4)
    assert torch.rand(4).equal(inside)
    with torch.random.fork_rng(enabled=False):
        torch.manual_seed(3)
        torch.rand(4)
    assert not torch.rand(4).equal(inside)


def test_a_generator_of_the_program_moves_in_a_fork():
    own = torch.Generator().manual_seed(3)
    with torch.random.fork_rng():
        inside = torch.rand(4, generator=own)
    assert not torch.rand(4, generator=own).equal(inside)


def test_functions_of_tensors():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert not torch.detach(y).requires_grad
    assert torch.detach_(y) is y
    assert y.is_leaf
    assert torch.get_device(x) == x.get_device()
    assert issubclass(torch.OutOfMemoryError, RuntimeError)
    assert not torch.is_anomaly_enabled()
    assert torch.version.__version__ == torch.__version__
