"""Tiny models built in memory, with weights large enough that attention is far from uniform."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import pytest
import torch

pytest.importorskip("transformers")

import transformers

import phasekit.attention.hf

SIZES = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
COMMON = {**SIZES, **TOKENS, "intermediate_size": 48, "max_position_embeddings": 64, "initializer_range": 0.25}

CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.25, **TOKENS
    ),
    "llama": lambda: transformers.LlamaConfig(**COMMON, num_key_value_heads=2),
    "nemotron": lambda: transformers.NemotronConfig(**COMMON, num_key_value_heads=2, head_dim=8),
    "roberta": lambda: transformers.RobertaConfig(**COMMON),
    "roberta decoder": lambda: transformers.RobertaConfig(**COMMON, is_decoder=True),
}
CAUSAL = [name for name in CONFIGS if name != "roberta"]


@pytest.fixture(autouse=True)
def registered():
    transformers.utils.logging.disable_progress_bar()
    return phasekit.attention.hf.register()


@pytest.fixture
def auto():
    """The automatic class for a model."""

    def choose(name):
        return transformers.AutoModelForMaskedLM if name == "roberta" else transformers.AutoModelForCausalLM

    return choose


@pytest.fixture
def build(auto):
    """Build a model by name, in evaluation mode, its score parameters different in every layer and head."""

    def make(name, score="ssa", seed=0):
        torch.manual_seed(seed)
        model = auto(name).from_config(CONFIGS[name](), attn_implementation=score).eval()
        with torch.no_grad():
            for parameter in score_parameters(model).values():
                parameter.add_(torch.randn_like(parameter))
        return model

    return make


def score_parameters(model):
    return {name: parameter for name, parameter in model.named_parameters() if ".score_norm." in name}


@pytest.fixture(name="score_parameters")
def _score_parameters():
    return score_parameters


@pytest.fixture
def tokens():
    return torch.randint(3, 40, (2, 9), generator=torch.Generator().manual_seed(1))
