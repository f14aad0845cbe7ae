"""Scripts over modules, parameters, optimizers and settings that change between calls."""

from __future__ import annotations

import types

import tensocket as torch
from tensocket import nn
from tensocket.nn import functional as F
from tensocket.nn.utils import parametrizations, parametrize, prune

from .scripts import CALLS, calls, outcome, told, vector


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))


def _trained(compiled, model, optimizer):
    """Return a compiled step of training, and what it leaves behind."""
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss
    run = compiled(step)

    def told_step():
        return outcome(run, vector()), told(list(model.parameters())), [
            told(sorted(state.items())) for state in optimizer.state.values()]
    return told_step


def groups_of_an_optimizer_edited(compiled):
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = _trained(compiled, model, optimizer)
    (group,) = optimizer.param_groups
    for name, value in (("lr", 0.02), ("momentum", 0.5), ("weight_decay", 0.1), ("dampening", 0.1),
                        ("nesterov", False), ("maximize", True), ("lr", 0.0), ("momentum", 0), ("foreach", False)):
        for _ in range(4):
            yield step()
        group[name] = value
    for _ in range(4):
        yield step()


def betas_of_an_optimizer_edited(compiled):
    model = _model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = _trained(compiled, model, optimizer)
    (group,) = optimizer.param_groups
    for name, value in (("betas", (0.5, 0.9)), ("eps", 0.1), ("amsgrad", False), ("weight_decay", 0.1), ("lr", 0.02)):
        for _ in range(CALLS):
            yield step()
        group[name] = value
    for _ in range(CALLS):
        yield step()


def rate_as_a_tensor(compiled):
    model = _model()
    rate = torch.tensor(0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    step = _trained(compiled, model, optimizer)
    for _ in range(CALLS):
        yield step()
    rate.fill_(0.1)
    for _ in range(CALLS):
        yield step()
    rate.mul_(0.5)
    for _ in range(CALLS):
        yield step()
    optimizer.param_groups[0]["lr"] = torch.tensor(0.2)
    for _ in range(CALLS):
        yield step()
    optimizer.param_groups[0]["lr"] = 0.3
    for _ in range(CALLS):
        yield step()


def state_of_an_optimizer_loaded(compiled):
    model = _model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = _trained(compiled, model, optimizer)
    for _ in range(CALLS):
        yield step()
    import copy
    saved = copy.deepcopy(optimizer.state_dict())
    for _ in range(CALLS):
        yield step()
    optimizer.load_state_dict(saved)
    for _ in range(CALLS):
        yield step()
    for state in optimizer.state.values():
        state["step"].fill_(1000.0)
    for _ in range(CALLS):
        yield step()
    optimizer.state.clear()
    for _ in range(CALLS):
        yield step()


def parameters_of_groups_exchanged(compiled):
    model = _model()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.01, momentum=0.9)
    step = _trained(compiled, model, optimizer)
    for _ in range(CALLS):
        yield step()
    optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.1})
    for _ in range(CALLS):
        yield step()
    optimizer.param_groups[0]["params"].pop()
    for _ in range(CALLS):
        yield step()
    optimizer.param_groups.reverse()
    for _ in range(CALLS):
        yield step()


def step_of_an_optimizer_replaced(compiled):
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = _trained(compiled, model, optimizer)
    for _ in range(CALLS):
        yield step()
    real, count = optimizer.step, []

    def counted(self, *args):
        count.append(1)
        return real(*args) if len(count) % 2 else None
    optimizer.step = types.MethodType(counted, optimizer)
    for _ in range(CALLS):
        yield step(), len(count)
    del optimizer.step
    handle = optimizer.register_step_post_hook(lambda *given: count.append(2))
    for _ in range(CALLS):
        yield step(), len(count)
    handle.remove()
    for _ in range(CALLS):
        yield step(), len(count)


def parameters_frozen_by_turns(compiled):
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = _trained(compiled, model, optimizer)
    for k in range(2 * CALLS):
        model[0].weight.requires_grad_(k // 3 % 2 == 0)
        model[2].bias.requires_grad = k // 5 % 2 == 0
        yield step()


def state_of_a_model_loaded(compiled):
    model, other = _model(), _model()
    with torch.no_grad():
        for each in other.parameters():
            each.mul_(2)
    run = compiled(model)
    yield from calls(run)
    model.load_state_dict(other.state_dict())
    yield from calls(run)
    model.load_state_dict({k: v * 3 for k, v in other.state_dict().items()}, assign=True)
    yield from calls(run)
    model.double()
    yield from calls(run, vector().double())
    model.float()
    yield from calls(run)


def members_registered_later(compiled):
    class Local(nn.Module):
        def forward(self, x):
            for each in self.children():
                x = each(x)
            for each in self.buffers():
                x = x + each
            return x * sum(each.sum() for each in self.parameters()) if [*self.parameters()] else x
    model = Local()
    run = compiled(model)
    yield from calls(run)
    model.register_buffer("scale", torch.ones(4))
    yield from calls(run)
    model.register_parameter("weight", nn.Parameter(torch.ones(2)))
    yield from calls(run)
    model.add_module("act", nn.Tanh())
    yield from calls(run)
    model.register_buffer("scale", None)
    yield from calls(run)
    model._buffers["scale"] = torch.ones(4) * 2
    yield from calls(run)
    del model.act
    model.weight = None
    yield from calls(run)


def order_of_layers(compiled):
    model = nn.Sequential(nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid())
    nn.init.ones_(model[1].weight)
    run = compiled(model)
    yield from calls(run)
    first = model._modules.pop("0")
    model._modules["0"] = first
    yield from calls(run)
    model.insert(1, nn.ReLU())
    yield from calls(run)
    del model[0]
    yield from calls(run)


def class_of_a_layer_replaced(compiled):
    class Doubled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2
    model = nn.Linear(4, 4)
    nn.init.ones_(model.weight)
    run = compiled(lambda x: model(x))
    yield from calls(run)
    model.__class__ = Doubled
    yield from calls(run)
    Doubled.forward = lambda self, x: x
    yield from calls(run)


def modes_of_nested_layers(compiled):
    class Local(nn.Module):
        def forward(self, x):
            return x * (2 if self.training else 3)
    model = nn.Sequential(Local(), nn.Sequential(Local()), nn.Dropout(0.0))
    run = compiled(model)
    yield from calls(run)
    model[1][0].training = False
    yield from calls(run)
    model.eval()
    yield from calls(run)
    model[0].train()
    yield from calls(run)
    Local.training = True
    del model[1][0].training
    yield from calls(run)


def hooks_in_another_order(compiled):
    model = nn.Identity()
    first = model.register_forward_hook(lambda module, args, out: out * 2)
    run = compiled(model)
    yield from calls(run)
    second = model.register_forward_hook(lambda module, args, out: out + 1)
    yield from calls(run)
    second.remove()
    second = model.register_forward_hook(lambda module, args, out: out + 1, prepend=True)
    yield from calls(run)
    model._forward_hooks.move_to_end(second.id)
    yield from calls(run)
    first.remove()
    yield from calls(run)
    model._forward_hooks.clear()
    model.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] - 1,), kwargs), with_kwargs=True)
    yield from calls(run)


def hooks_of_all_modules_come_and_go(compiled):
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 4))
    nn.init.ones_(model[1].weight)
    run = compiled(model)
    yield from calls(run)
    register = nn.modules.module.register_module_forward_pre_hook
    handle = register(lambda module, args: (args[0] * 2,))
    try:
        yield from calls(run)
    finally:
        handle.remove()
    yield from calls(run)


def parametrized_weight_changes(compiled):
    class Scaled(nn.Module):
        k = 2.0

        def forward(self, weight):
            return weight * self.k
    model = nn.Linear(4, 4)
    nn.init.ones_(model.weight)
    run = compiled(lambda x: model(x))
    yield from calls(run)
    parametrize.register_parametrization(model, "weight", Scaled())
    yield from calls(run)
    model.parametrizations.weight[0].k = 3.0
    yield from calls(run)
    with parametrize.cached():
        model(vector())
        model.parametrizations.weight.original.data.mul_(5)
        yield from calls(run)
    yield from calls(run)
    parametrize.remove_parametrizations(model, "weight")
    yield from calls(run)


def weight_norms_and_pruned_weights(compiled):
    model = nn.Linear(4, 4)
    nn.init.ones_(model.weight)
    run = compiled(lambda x: model(x))
    yield from calls(run)
    parametrizations.weight_norm(model)
    yield from calls(run)
    with torch.no_grad():
        model.parametrizations.weight.original0.mul_(2)
    yield from calls(run)
    other = nn.Linear(4, 4)
    nn.init.ones_(other.weight)
    run = compiled(lambda x: other(x))
    yield from calls(run)
    prune.l1_unstructured(other, "weight", 3)
    yield from calls(run)
    other.weight_mask.fill_(1)
    yield from calls(run)
    prune.remove(other, "weight")
    yield from calls(run)


def momentum_and_sizes_of_layers(compiled):
    norm = nn.BatchNorm1d(4)
    run = compiled(lambda x: norm(x))
    given = torch.arange(12.0).reshape(3, 4)
    for change in (lambda: setattr(norm, "momentum", 0.5), lambda: setattr(norm, "momentum", None),
                   lambda: setattr(norm, "track_running_stats", False), norm.eval, norm.reset_running_stats,
                   lambda: setattr(norm, "weight", None), lambda: setattr(norm, "running_mean", None)):
        for _ in range(4):
            yield outcome(run, given), told([x for x in norm.buffers() if x is not None])
        change()
    yield outcome(run, given)


def settings_of_layers(compiled):
    pool, drop, norm = nn.MaxPool1d(2), nn.Dropout(0.0), nn.LayerNorm(4)
    act, up = nn.LeakyReLU(0.1), nn.Upsample(scale_factor=2)
    run = compiled(lambda x: (pool(x[None]), drop(x), norm(x), act(x - 2), up(x[None, None])))
    yield from calls(run)
    for thing, name, value in ((pool, "kernel_size", 3), (pool, "stride", 1), (drop, "p", 1.0), (norm, "eps", 1.0),
                               (norm, "normalized_shape", (4,)), (act, "negative_slope", 0.5), (act, "inplace", True),
                               (up, "scale_factor", 3.0), (up, "mode", "linear"), (pool, "ceil_mode", True)):
        setattr(thing, name, value)
        for _ in range(4):
            yield outcome(run, vector())


def functions_of_libraries_replaced(compiled):
    layer = nn.Linear(4, 4)
    nn.init.ones_(layer.weight)
    run = compiled(lambda x: F.relu(layer(x)) + torch.sin(x))
    linear, relu, sine = F.linear, F.relu, torch.sin
    yield from calls(run)
    try:
        F.linear = lambda x, w, b: x * 2
        yield from calls(run)
        F.relu = lambda x, inplace=False: x - 1
        yield from calls(run)
        torch.sin = torch.cos
        yield from calls(run)
    finally:
        F.linear, F.relu, torch.sin = linear, relu, sine
    yield from calls(run)


def generator_given_to_an_operator(compiled):
    generator = torch.Generator().manual_seed(1)
    run = compiled(lambda x: x * torch.rand(4, generator=generator))
    yield from calls(run)
    generator.manual_seed(1)
    yield from calls(run)
    generator = torch.Generator().manual_seed(5)
    yield from calls(run)


def rules_of_an_own_operator_change(compiled):
    @torch.library.custom_op("scripts_models::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * 2
    scaled.register_autograd(lambda ctx, grad: grad * 2)

    def f(x):
        y = x.clone().requires_grad_()
        z = scaled(y)
        return (z.detach(), *torch.autograd.grad(z.sum(), y))
    run = compiled(f)
    yield from calls(run)
    scaled.register_autograd(lambda ctx, grad: grad * 7)
    yield from calls(run)
    scaled.register_kernel("cpu", lambda x: x * 5)
    yield from calls(run)


def precision_and_products(compiled):
    run = compiled(lambda x: (x[None] @ x[:, None]).sum() * (2 if torch.backends.cudnn.enabled else 3)
                   * (5 if torch.backends.cuda.matmul.allow_tf32 else 7) * (2 if torch.is_warn_always_enabled() else 1))
    yield from calls(run)
    enabled, tensor_cores = torch.backends.cudnn.enabled, torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cudnn.enabled = not enabled
        yield from calls(run)
        torch.backends.cuda.matmul.allow_tf32 = not tensor_cores
        yield from calls(run)
        torch.set_warn_always(True)
        yield from calls(run)
    finally:
        torch.set_warn_always(False)
        torch.backends.cudnn.enabled = enabled
        torch.backends.cuda.matmul.allow_tf32 = tensor_cores


def determinism_fills_memory(compiled):
    run = compiled(lambda x: x * (1 if torch.isnan(torch.empty(4)).all() else 2))
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    try:
        yield from calls(run)
        run = compiled(lambda x: x * (2 if torch.is_deterministic_algorithms_warn_only_enabled() else 3)
                       * (1 if torch.utils.deterministic.fill_uninitialized_memory else 5))
        yield from calls(run)
        torch.use_deterministic_algorithms(True, warn_only=True)
        yield from calls(run)
        torch.utils.deterministic.fill_uninitialized_memory = not before
        yield from calls(run)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = before


def checks_of_distributions(compiled):
    from tensocket.distributions import Distribution, Normal

    def f(x):
        try:
            return Normal(0.0, -1.0).log_prob(x)
        except ValueError:
            return x
    run = compiled(f)
    yield from calls(run)
    Distribution.set_default_validate_args(False)
    try:
        yield from calls(run)
    finally:
        Distribution.set_default_validate_args(True)
    yield from calls(run)


def forward_gradients_of_what_is_captured(compiled):
    fw = torch.autograd.forward_ad
    w = vector()
    run = compiled(lambda x: x * w)
    yield from calls(run)
    with fw.dual_level():
        w = fw.make_dual(vector(), torch.ones(4))
        for _ in range(CALLS):
            yield told(list(fw.unpack_dual(run(vector()))))
    w = vector()
    yield from calls(run)


def transforms_around_a_call(compiled):
    w = vector()
    run = compiled(lambda x: (x * w).tanh())
    yield from calls(run)
    for _ in range(CALLS):
        yield outcome(torch.vmap(run), torch.ones(3, 4))
        yield outcome(torch.func.jvp, run, (vector(),), (torch.ones(4),))
        yield outcome(torch.func.grad(lambda x: run(x).sum()), vector())
    w.mul_(2)
    for _ in range(CALLS):
        yield outcome(torch.func.jacrev(run), vector())
        yield outcome(run, vector())
