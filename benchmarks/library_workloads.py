"""The workloads of ``libraries.py``: programs that import ``torch`` and libraries, whichever package that name is."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

#: A run of a workload: it returns a number by which results of two libraries can be compared.
Run = Callable[[], float]


def fill(torch: Any, model: Any) -> Any:
    """Give a model weights that do not depend on the library's generator, and return it."""
    draws = np.random.default_rng(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = 0.02 * draws.standard_normal(tuple(weight.shape), np.float32)
            # Vectors that are called weights scale what is normalized.
            weight.copy_(torch.from_numpy(drawn + np.float32(weight.dim() == 1 and name.endswith("weight"))))
    return model


def normal(torch: Any, *shape: int) -> Any:
    """Return numbers that do not depend on the library's generator."""
    return torch.from_numpy(np.random.default_rng(1).standard_normal(shape, np.float32))


def integers(torch: Any, limit: int, *shape: int) -> Any:
    """Return integers below a limit that do not depend on the library's generator."""
    return torch.from_numpy(np.random.default_rng(2).integers(0, limit, shape))


def trained(torch: Any, model: Any, loss_of: Callable[[], Any]) -> Run:
    """Return a run that is a training step."""
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-5)

    def run() -> float:
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return run


def generation(torch: Any, model: Any) -> Run:
    """Return a run that continues a prompt of 16 tokens greedily by 48, with a cache of keys and values."""
    prompt = integers(torch, 1000, 1, 16)
    mask = torch.ones_like(prompt)
    model.eval()

    def run() -> float:
        with torch.no_grad():
            written = model.generate(prompt, attention_mask=mask, max_new_tokens=48, min_new_tokens=48, do_sample=False,
                                     use_cache=True, pad_token_id=0)
        return float(written.sum().item())

    return run


def llama(torch: Any) -> Run:
    """Generation by a Llama of four layers whose queries share keys in pairs."""
    library = import_module("transformers")
    config = library.LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
                                 num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256,
                                 bos_token_id=0, eos_token_id=None)
    return generation(torch, fill(torch, library.LlamaForCausalLM(config)))


def gpt2(torch: Any) -> Run:
    """Generation by a GPT-2 of four layers."""
    library = import_module("transformers")
    config = library.GPT2Config(vocab_size=1000, n_positions=256, n_embd=256, n_layer=4, n_head=8, bos_token_id=0,
                                eos_token_id=None)
    return generation(torch, fill(torch, library.GPT2LMHeadModel(config)))


def lora(torch: Any) -> Run:
    """A training step of peft's adapters of a GPT-2 of four layers."""
    transformers, peft = import_module("transformers"), import_module("peft")
    config = transformers.GPT2Config(vocab_size=1000, n_positions=64, n_embd=256, n_layer=4, n_head=8, attn_pdrop=0.0,
                                     embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=None)
    adapters = peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    model = fill(torch, peft.get_peft_model(transformers.GPT2LMHeadModel(config), adapters))
    tokens = integers(torch, 1000, 4, 64)
    return trained(torch, model, lambda: model(tokens, labels=tokens).loss)


def vit(torch: Any) -> Run:
    """A training step of timm's vision transformer of four layers."""
    model = import_module("timm.models").VisionTransformer(
        img_size=64, patch_size=8, embed_dim=192, depth=4, num_heads=3, num_classes=10)
    images, labels = normal(torch, 8, 3, 64, 64), integers(torch, 10, 8)
    model = fill(torch, model).train()
    return trained(torch, model, lambda: torch.nn.functional.cross_entropy(model(images), labels))


def resnet(torch: Any) -> Run:
    """A training step of timm's ResNet-18 on small images."""
    model = import_module("timm").create_model("resnet18", num_classes=10)
    images, labels = normal(torch, 4, 3, 64, 64), integers(torch, 10, 4)
    model = fill(torch, model).train()
    return trained(torch, model, lambda: torch.nn.functional.cross_entropy(model(images), labels))


def unet(torch: Any) -> Run:
    """Four steps of denoising by a small U-net of diffusers, with the scheduler DDIM."""
    library = import_module("diffusers")
    model = fill(torch, library.UNet2DModel(
        sample_size=32, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8)).eval()
    scheduler = library.DDIMScheduler(num_train_timesteps=1000)
    noise = normal(torch, 1, 3, 32, 32)

    def run() -> float:
        scheduler.set_timesteps(4)
        image = noise
        with torch.no_grad():
            for step in scheduler.timesteps:
                image = scheduler.step(model(image, step).sample, step, image).prev_sample
        return float(image.abs().mean().item())

    return run


def gcn(torch: Any) -> Run:
    """An epoch of a network of graph convolutions of torch_geometric: 2,000 nodes, 10,000 edges."""
    layer, functional = import_module("torch_geometric.nn").GCNConv, torch.nn.functional
    features, edges, labels = normal(torch, 2000, 32), integers(torch, 2000, 2, 10_000), integers(torch, 7, 2000)
    layers = fill(torch, torch.nn.ModuleList([layer(32, 32), layer(32, 7)]))

    def loss() -> Any:
        hidden = layers[0](features, edges).relu()
        return functional.cross_entropy(layers[1](hidden, edges), labels)

    return trained(torch, layers, loss)


#: Row: what returns a run of it, for the package that is ``torch``.
ROWS: Final[dict[str, Callable[[Any], Run]]] = {
    "llama, 48 tokens": llama,
    "gpt2, 48 tokens": gpt2,
    "gpt2, step of LoRA": lora,
    "vit, training step": vit,
    "resnet18, training step": resnet,
    "unet, 4 steps of denoising": unet,
    "gcn, epoch": gcn,
}
