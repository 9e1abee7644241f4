"""The same decoder written with nothing but PyTorch: what the softmax arm is held against."""

import torch
from torch import nn
from torch.nn import functional


class PlainBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.first(x)).split(width, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Plain(nn.Module):
    def __init__(self, inputs, outputs, layers=3, heads=2, width=64, longest=512):
        super().__init__()
        self.read_in, self.read_out = nn.Linear(inputs, width), nn.Linear(width, outputs)
        self.places = nn.Parameter(torch.empty(longest, width))
        self.blocks = nn.ModuleList(PlainBlock(width, heads) for _ in range(layers))
        self.last = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.read_in(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.read_out(self.last(x))

    @torch.no_grad()
    def take(self, decoder):
        """Copy the weights of a Decoder."""
        names = {"attention_norm": "first", "mlp_norm": "second", "attention.": "", "mlp.": ""}
        state = {}
        for name, value in decoder.state_dict().items():
            for old, new in names.items():
                name = name.replace(old, new) if name.startswith("blocks") else name
            name = {"places.weight": "places", "norm.weight": "last.weight", "norm.bias": "last.bias"}.get(name, name)
            state[name] = value.clone()
        self.load_state_dict(state)
        return self
