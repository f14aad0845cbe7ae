"""A GPT-2 of transformers that learns Python's source, and with peft's adapters, the English of its documentation.

python -m tensocket.as_torch examples/lora_text.py --device opencl
"""

from __future__ import annotations

import string
import sys
from collections.abc import Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

from common import Settings, picture, settings, show_text, train
from texts import Text, documentation, standard_library

LETTERS = string.printable


def make_model(tiny: bool) -> GPT2LMHeadModel:
    """Return a small model of characters with random weights."""
    width, depth, length = (16, 1, 32) if tiny else (96, 3, 64)
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=len(LETTERS), n_positions=length, n_embd=width, n_layer=depth, n_head=4, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=None))


def add_adapters(model: GPT2LMHeadModel) -> Any:
    """Return the model with all of its weights fixed, and adapters of rank 8 beside its products."""
    return get_peft_model(model, LoraConfig(
        r=8, lora_alpha=32, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True, task_type="CAUSAL_LM"))


def learn(model: Any, text: Text, chosen: Settings, rate: float, name: str) -> list[float]:
    """Train the weights that require gradients, and return the losses."""
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=rate)
    batch, length = (4, 16) if chosen.tiny else (16, 64)

    def step(index: int) -> float:
        pieces, _ = text.batch(batch, length, chosen.device)
        loss = model(input_ids=pieces, labels=pieces).loss  # the model compares with the next characters
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    model.train()
    return train(chosen, step, name)


def write(model: Any, text: Text, chosen: Settings) -> str:
    """Return drawn characters that continue the beginning of a text."""
    start = text.codes[:8].reshape(1, 8).to(chosen.device)
    model.eval()
    written = model.generate(input_ids=start, attention_mask=torch.ones_like(start), do_sample=True, pad_token_id=0,
                             max_new_tokens=8 if chosen.tiny else 56)
    return text.decode(written[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Train the model, then its adapters, write some text with both, and save the picture."""
    chosen = settings(__doc__, argv, steps=150)
    source, english = standard_library(chosen.tiny, LETTERS), documentation(chosen.tiny, LETTERS)
    model = make_model(chosen.tiny).to(chosen.device)
    learn(model, source, chosen, 2e-3, "source")
    before = write(model, english, chosen)
    adapted = add_adapters(model)
    losses = learn(adapted, english, chosen, 5e-3, "adapters")
    adapted.print_trainable_parameters()
    after = write(adapted, english, chosen)
    picture(chosen, "lora_text", losses, show_text("what it writes", f"before:\n\n{before}\n\nafter:\n\n{after}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
