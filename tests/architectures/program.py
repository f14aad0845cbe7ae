"""The steps for every architecture: building it, values of its weights that are equal everywhere, one step."""

import importlib

import torch
from torch import nn

NAMES = [
    "alexnet", "autoencoder", "bert", "convnext", "dcgan", "densenet", "efficientnet", "gcn", "gpt", "lenet", "lstm",
    "mlp", "mobilenet", "resnet18", "resnet50", "seq2seq", "transformer", "unet", "vae", "vgg", "vit", "wavenet"]


def make(name):
    """A model, whose dropout changes nothing, and its inputs."""
    module = importlib.import_module(name)
    model = module.build()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    return model, module.inputs()


def fill(model):
    """Weights of a closed form."""
    with torch.no_grad():
        for k, tensor in enumerate(model.state_dict().values()):
            if tensor.is_floating_point():
                wave = torch.sin(torch.arange(tensor.numel(), dtype=torch.float64) * 1.7 + k)
                scale = max(tensor.numel() // max(tensor.shape[0], 1), 1) ** -0.5 if tensor.dim() > 1 else 0.1
                shift = 0.0 if tensor.dim() > 1 else 0.7
                tensor.copy_((wave * scale + shift).reshape(tensor.shape).to(tensor.dtype))


def results(output):
    """The tensors in what a model returns."""
    return list(output) if isinstance(output, tuple) else [output]


def step(model, inputs, training):
    """Outputs, and the gradient of every parameter, of a loss that weighs every output by a wave."""
    model.train(training)
    model.zero_grad()
    outputs = results(model(*inputs))
    waves = [torch.cos(torch.arange(x.numel(), dtype=torch.float64)).reshape(x.shape).to(x.dtype).to(x.device)
             for x in outputs]
    loss = sum((x * wave).sum() for x, wave in zip(outputs, waves, strict=True))
    loss.backward()
    return ([x.detach() for x in outputs],
            {name: p.grad for name, p in model.named_parameters() if p.grad is not None})
