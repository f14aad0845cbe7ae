"""Programs with modules, optimizers and tensors whose state changes."""

from __future__ import annotations

import types

import tensocket as torch
from tensocket import nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def eval_mode():
    m = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    yield (lambda x: m(x.reshape(2, 2).repeat(1, 2)).detach()), m.eval


def train_mode_of_dropout():
    m = nn.Dropout(0.5).eval()
    yield m, m.train


def dropout_probability():
    m = nn.Dropout(0.0)
    yield m, lambda: setattr(m, "p", 1.0)


def parameter_replaced():
    m = model()
    yield m, lambda: setattr(m[0], "weight", nn.Parameter(torch.ones(4, 4)))


def parameter_data_replaced():
    m = model()
    yield m, lambda: setattr(m[0].weight, "data", torch.ones(4, 4))


def parameter_requires_no_gradient():
    m = nn.Linear(4, 4)
    yield m, lambda: m.requires_grad_(False)


def parameter_deleted():
    m = nn.Linear(4, 4)
    yield m, lambda: m.register_parameter("bias", None)


def parameter_converted():
    m = nn.Linear(4, 4)
    yield (lambda x: m(x.to(m.weight.dtype))), m.double


def buffer_replaced():
    m = nn.BatchNorm1d(4).eval()
    yield (lambda x: m(x[None])), lambda: setattr(m, "running_mean", torch.ones(4))


def buffer_registered():
    m = nn.Module()
    m.forward = lambda x: x * getattr(m, "scale", 1.0)
    yield m, lambda: m.register_buffer("scale", torch.tensor(3.0))


def eps():
    m = nn.LayerNorm(4)
    yield m, lambda: setattr(m, "eps", 1.0)


def stride_of_convolution():
    m = nn.Conv1d(1, 1, 1)
    yield (lambda x: m(x.reshape(1, 1, 4))), lambda: setattr(m, "stride", (2,))


def layer_replaced():
    m = model()
    yield m, lambda: m.__setitem__(1, nn.Sigmoid())


def layer_appended():
    m = model()
    yield m, lambda: m.append(nn.Sigmoid())


def layer_in_list_replaced():
    layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])

    def f(x):
        for layer in layers:
            x = layer(x)
        return x
    yield f, lambda: layers.__setitem__(1, nn.Sigmoid())


def layer_in_dict_replaced():
    layers = nn.ModuleDict({"a": nn.ReLU()})
    yield (lambda x: layers["a"](x - 2)), lambda: layers.update({"a": nn.Sigmoid()})


def parameter_in_list_replaced():
    parameters = nn.ParameterList([torch.ones(4)])
    yield (lambda x: x * parameters[0]), lambda: parameters.__setitem__(0, torch.zeros(4))


def parameter_in_dict_replaced():
    parameters = nn.ParameterDict({"a": torch.ones(4)})
    yield (lambda x: x * parameters["a"]), lambda: parameters.update({"a": torch.zeros(4)})


def attribute_of_module():
    m = nn.Module()
    m.k = 2.0
    m.forward = types.MethodType(lambda self, x: x * self.k, m)
    yield m, lambda: setattr(m, "k", 3.0)


def forward_replaced():
    m = nn.ReLU()
    yield m, lambda: setattr(m, "forward", lambda x: x * 7)


def forward_of_class_replaced():
    before = nn.ReLU.forward
    m = nn.ReLU()
    yield m, lambda: setattr(nn.ReLU, "forward", lambda self, x: x * 7)
    nn.ReLU.forward = before


def call_of_class_replaced():
    class Local(nn.Module):
        def forward(self, x):
            return x * 2
    m = Local()
    yield m, lambda: setattr(Local, "__call__", lambda self, x: x * 7)


def forward_hook():
    m = nn.ReLU()
    yield m, lambda: m.register_forward_hook(lambda module, args, output: output * 2)


def forward_pre_hook():
    m = nn.ReLU()
    yield m, lambda: m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


def forward_hook_removed():
    m = nn.ReLU()
    handle = m.register_forward_hook(lambda module, args, output: output * 2)
    yield m, handle.remove


def forward_hook_state():
    m = nn.ReLU()
    box = [2.0]
    m.register_forward_hook(lambda module, args, output: output * box[0])
    yield m, lambda: box.__setitem__(0, 3.0)


def hook_of_all_modules():
    m = nn.ReLU()
    handles = []
    yield m, lambda: handles.append(nn.modules.module.register_module_forward_hook(lambda *given: given[2] * 2))
    handles[0].remove()


def backward_hook():
    m = nn.Linear(4, 4)

    def f(x):
        y = x.clone().requires_grad_()
        m(y).sum().backward()
        return y.grad
    yield f, lambda: m.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))


def tensor_hook():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad
    yield f, lambda: w.register_hook(lambda grad: grad * 2)


def tensor_hook_state():
    w = torch.ones(4, requires_grad=True)
    box = [2.0]
    w.register_hook(lambda grad: grad * box[0])

    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad
    yield f, lambda: box.__setitem__(0, 3.0)


def gradient_accumulates():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        (w * x).sum().backward()
        return w.grad * 1
    yield f, lambda: setattr(w, "grad", None)


def gradient_read():
    w = torch.ones(4, requires_grad=True)
    w.grad = torch.ones(4)
    yield (lambda x: x * (1 if w.grad is None else 2)), lambda: setattr(w, "grad", None)


def gradient_replaced():
    w = torch.ones(4, requires_grad=True)
    w.grad = torch.ones(4)
    yield (lambda x: x * w.grad), lambda: setattr(w, "grad", torch.zeros(4))


def captured_tensor_replaced():
    box = [torch.ones(4)]
    yield (lambda x: x * box[0]), lambda: box.__setitem__(0, torch.zeros(4))


def captured_tensor_requires_gradient():
    w = torch.ones(4)
    yield (lambda x: x * w), lambda: w.requires_grad_()


def captured_tensor_attribute():
    w = torch.ones(4)
    w.k = 2.0
    yield (lambda x: x * w.k), lambda: setattr(w, "k", 3.0)


def captured_tensor_new_attribute():
    w = torch.ones(4)
    yield (lambda x: x * getattr(w, "k", 1.0)), lambda: setattr(w, "k", 3.0)


def captured_tensor_resized():
    w = torch.ones(4)
    yield (lambda x: x * w.numel()), lambda: w.resize_(2)


def captured_tensor_transposed():
    w = torch.ones(4, 1)
    yield (lambda x: x * w), lambda: w.t_()


def captured_tensor_swapped():
    w = torch.ones(4)
    yield (lambda x: x * w), lambda: torch.utils.swap_tensors(w, torch.zeros(4))


def captured_tensor_set():
    w = torch.ones(4)
    yield (lambda x: x * w), lambda: w.set_(torch.zeros(4))


def captured_subclass():
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})
    w = torch.ones(4).as_subclass(Mine)
    yield (lambda x: x * w), lambda: setattr(Mine, "__torch_function__", classmethod(lambda *given, **more: 3.0))


def class_of_tensor_replaced():
    class Mine(torch.nn.Parameter):
        pass
    w = torch.nn.Parameter(torch.ones(4))
    yield (lambda x: x * (2 if type(w) is Mine else 1)), lambda: setattr(w, "__class__", Mine)


def learning_rate():
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    def f(x):
        with torch.no_grad():
            w.fill_(1.0)
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach().clone()
    yield f, lambda: optimizer.param_groups[0].update(lr=0.25)


def learning_rate_by_scheduler():
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def f(x):
        with torch.no_grad():
            w.fill_(1.0)
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach().clone()
    yield f, scheduler.step


def parameter_group_added():
    w, v = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    def f(x):
        with torch.no_grad():
            w.fill_(1.0)
            v.fill_(1.0)
        w.grad = v.grad = None
        (w * v * x).sum().backward()
        optimizer.step()
        return v.detach().clone()
    yield f, lambda: optimizer.add_param_group({"params": [v]})


def optimizer_state_cleared():
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5, momentum=0.9)

    def f(x):
        with torch.no_grad():
            w.fill_(1.0)
        optimizer.zero_grad()
        (w * x).sum().backward()
        before = len(optimizer.state)
        optimizer.step()
        return before
    yield f, optimizer.state.clear


def optimizer_hook():
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    def f(x):
        with torch.no_grad():
            w.fill_(1.0)
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach().clone()
    yield f, lambda: optimizer.register_step_post_hook(lambda *given: w.detach().mul_(5.0))


def running_statistics_counted_in_python():
    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls
    yield Local(), lambda: None


def activation_by_name():
    m = nn.Module()
    m.name = "relu"
    m.forward = lambda x: getattr(nn.functional, m.name)(x - 2)
    yield m, lambda: setattr(m, "name", "sigmoid")


def config_of_model():
    config = types.SimpleNamespace(scale=2.0)

    class Local(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config

        def forward(self, x):
            return x * self.config.scale
    yield Local(config), lambda: setattr(config, "scale", 3.0)


def parametrization():
    m = nn.Linear(4, 4)

    class Double(nn.Module):
        def forward(self, w):
            return w * 2
    yield m, lambda: nn.utils.parametrize.register_parametrization(m, "weight", Double())


def autograd_function():
    class Twice(torch.autograd.Function):
        factor = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * Twice.factor

        @staticmethod
        def backward(ctx, grad):
            return grad * Twice.factor
    yield (lambda x: Twice.apply(x)), lambda: setattr(Twice, "factor", 3.0)


def autograd_function_backward():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def f(x):
        y = x.clone().requires_grad_()
        Twice.apply(y).sum().backward()
        return y.grad
    yield f, lambda: setattr(Twice, "backward", staticmethod(lambda ctx, grad: grad * 3))


def version_of_tensor():
    w = torch.ones(4)
    yield (lambda x: x * w._version), lambda: w.add_(1)


def address_of_tensor():
    w = torch.ones(4)
    yield (lambda x: x * (w.data_ptr() % 1000)), lambda: None


def two_names_of_one_tensor():
    w = torch.ones(4)
    box = {"a": w, "b": w}
    yield (lambda x: x * 2 if box["a"] is box["b"] else x), lambda: box.update(b=torch.ones(4))


#: Programs that write to what they read, or read what nothing can watch.
REFUSED = frozenset({"address_of_tensor", "running_statistics_counted_in_python", "version_of_tensor"})
