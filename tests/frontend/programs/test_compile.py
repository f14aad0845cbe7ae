"""Names for compilation, and the objects that it returns; tests/compiler tests what they compute."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensocket as torch
from tensocket import _dynamo, _inductor, compiler, errors, jit, nn, notices


@pytest.fixture(autouse=True)
def _fresh():
    notices.reset_notices()


def test_compiled_functions_and_backends():
    @torch.compile
    def double(x):
        """Twice."""
        return x * 2

    @torch.compile(backend=lambda graph, examples: graph)
    def triple(x):
        """Three times."""
        return x * 3

    assert (double(torch.ones(1)) + triple(torch.ones(1))).item() == 5
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    with pytest.raises(errors.ArgumentError, match="can't be specified at the same time"):
        torch.compile(double, mode="default", options={})
    with pytest.raises(errors.ArgumentTypeError, match="functions and modules are compiled"):
        torch.compile(3)
    with pytest.raises(_dynamo.exc.InvalidBackend, match="Invalid backend: backends are inductor, tensocket, eager, "
                       "aot_eager"):
        torch.compile(double, backend="tvm")
    assert torch.compile(double, backend="eager")(torch.ones(1)).item() == 2


def test_a_compiled_module_stands_for_the_original():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    compiled = torch.compile(model)
    assert compiled(torch.ones(1, 2)).equal(model(torch.ones(1, 2)))
    assert list(compiled.state_dict()) == [f"_orig_mod.{key}" for key in model.state_dict()]
    assert compiled._orig_mod is model
    assert isinstance(compiled, _dynamo.OptimizedModule)
    assert compiled.append.__self__ is model
    compiled.eval()
    assert not (model.training)
    assert not (model[0].training)
    compiled.extra = 3
    assert model.extra == 3
    del compiled.extra
    assert not hasattr(model, "extra")
    with pytest.raises(AttributeError):
        _ = compiled.absent
    clone = copy.deepcopy(compiled)
    assert clone._orig_mod[0].weight is not model[0].weight
    assert "forward" in dir(compiled)


def test_a_module_compiles_itself_in_place():
    model = nn.Linear(2, 1)
    assert model.compile(mode="reduce-overhead") is None
    for _ in range(5):
        assert model(torch.ones(1, 2)).shape == (1, 1)
    other = pickle.loads(pickle.dumps(model))
    assert "forward" not in other.__dict__
    assert other(torch.ones(1, 2)).equal(model(torch.ones(1, 2)))


def test_names_of_the_tracer():
    assert not compiler.is_compiling()
    assert not torch._utils.is_compiling()
    assert compiler.list_backends() == ["inductor", "tensocket"]
    assert compiler.list_backends(()) == ["aot_eager", "eager", "inductor", "tensocket"]

    @compiler.disable
    def plain(x):
        return x

    @compiler.disable(recursive=False)
    def other(x):
        return x

    @compiler.set_stance("force_eager")
    def third(x):
        return x

    assert plain(1) == other(1) == third(1) == _dynamo.allow_in_graph(plain)(1) == _dynamo.optimize()(plain)(1) == 1
    assert compiler.substitute_in_graph(len)(plain) is plain
    with compiler.set_stance("default"):
        assert compiler.wrap_numpy(lambda a: a + 1)(torch.ones(2)).tolist() == [2, 2]
    for nothing in (compiler.reset, compiler.cudagraph_mark_step_begin, _dynamo.graph_break):
        assert nothing() is None
    _dynamo.mark_dynamic(torch.ones(1), 0)
    _dynamo.mark_static(torch.ones(1))


def test_settings_are_kept():
    assert _dynamo.config.cache_size_limit == 8
    _dynamo.config.something_new = 1
    assert _dynamo.config.something_new == 1
    del _dynamo.config.something_new
    with _dynamo.config.patch(verbose=True), _dynamo.config.patch("cache_size_limit", 1):
        assert (_dynamo.config.verbose, _dynamo.config.cache_size_limit) == (True, 1)
    assert _dynamo.config.verbose is False
    assert _inductor.config.triton.unique_kernel_names is True


def test_a_class_of_scripts():
    class Scripted(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.limit = jit.annotate(int, 3)

        @jit.script_method
        def forward(self, x):
            return x * self.limit

        @jit.export
        def other(self):
            return 1

        @jit.ignore
        def third(self):
            return 2

        @jit.unused
        def fourth(self):
            return 3

        @jit.ignore(drop=True)
        def fifth(self):
            return 4

    made = Scripted()
    assert made(torch.ones(1)).item() == 3
    assert (made.other(), made.third(), made.fourth(), made.fifth()) == (1, 2, 3, 4)
    assert made.original_name == "Scripted"


def test_small_names_of_scripts():
    assert not (jit.is_scripting())
    assert not (jit.is_tracing())
    assert jit.Attribute(1, int).value == 1
    future = jit.fork(max, 1, 2)
    assert jit.wait(future) == future.value() == 2
    with pytest.raises(errors.ArgumentError, match=r"^\[wait\] None — Future can't be None — pass what fork returned$"):
        jit.wait(None)
    assert future.done()
    assert jit.isinstance([1], list[int])
    assert not jit.isinstance(1, (str, list))
    assert jit.set_fusion_strategy([]) == []
    jit.enable_onednn_fusion(True)


def test_nothing_is_fused():
    message = r"^\[jit\.strict_fusion\] a block outside of a script — it only works in script mode — leave it out$"
    with pytest.warns(UserWarning, match=message), jit.strict_fusion():
        pass

    def fused(x):
        with torch.jit.strict_fusion():
            return x + x * x

    message = (r"^\[jit\.script\] strict_fusion in a script — all operators of the block must be fused, and scripts "
               r"run them one by one — leave it out, or use tensocket\.compile:\n")
    with pytest.raises(RuntimeError, match=message):
        jit.script(fused)


@pytest.mark.parametrize("optimize", [False, True])
def test_graphs_run_as_they_were_written(optimize):
    script = jit.script(_sum_of_products)
    trace = jit.trace(_sum_of_products, torch.ones(3))
    x, ran = torch.tensor([0.5, -2.0, 3.0]), []

    class Log(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            ran.append(func.__name__)
            return func(*args, **(kwargs or {}))

    for run in (script, trace):
        with jit.optimized_execution(optimize), Log():
            result = run(x)
        assert result.tolist() == [0.75, 2.0, 12.0]
    assert ran == ["mul", "add"] * 2


def _sum_of_products(x):
    return x * x + x


def test_forms_of_attention():
    from tensocket.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.MATH]):
        assert torch.backends.cuda.math_sdp_enabled()
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    with pytest.raises(errors.ArgumentTypeError, match="a form of attention is an SDPBackend"), sdpa_kernel("math"):
        pass
    with pytest.raises(errors.ArgumentError, match="at least one form of attention is allowed"), sdpa_kernel([]):
        pass
