"""Tiny models with attention far from uniform, a tokenizer trained on made-up sentences, and made-up pairs."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import pytest
import torch

pytest.importorskip("transformers")

import transformers

import phasekit.attention.hf
from phasekit.language.tokenizer import train_tokenizer, wrapped

SENTENCES = (
    "the grey cat sleeps .",
    "the grey cats sleep on the warm stone .",
    "a dog barks .",
    "does the dog bark at night ?",
    "why do the dogs bark ?",
    "a cat that sees the dogs sleeps near the old door .",
    "the dogs near the door sleep .",
)
PAIRS = (
    ("the cat sleep .", "the cat sleeps ."),
    ("the cats near the old door sleeps .", "the cats near the old door sleep ."),
    ("does the dogs bark ?", "do the dogs bark ?"),
    ("a dogs barks .", "a dog barks ."),
    ("why does the cats sleep ?", "why do the cats sleep ?"),
    ("the dog near the cats bark .", "the dog near the cats barks ."),
)
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
MARKS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
#: Tokens that a sentence may have in the models below.
POSITIONS = 48


@pytest.fixture(scope="session")
def tokenizer():
    return wrapped(train_tokenizer(SENTENCES, 300))


@pytest.fixture
def build(tokenizer):
    """Build a model by family and score, in float64 and training mode: whoever examines one must see to that."""
    phasekit.attention.hf.register()
    transformers.utils.logging.disable_progress_bar()

    def make(family, score="ssa", seed=0):
        torch.manual_seed(seed)
        common = {**SIZES, **MARKS, "vocab_size": len(tokenizer), "initializer_range": 0.25}
        config = {
            "nemotron": lambda: transformers.NemotronConfig(
                **common, num_key_value_heads=2, head_dim=8, max_position_embeddings=POSITIONS
            ),
            "gpt2": lambda: transformers.GPT2Config(
                **MARKS, n_embd=32, n_layer=2, n_head=4, n_positions=POSITIONS, vocab_size=len(tokenizer),
                initializer_range=0.25,
            ),
            "roberta": lambda: transformers.RobertaConfig(**common, max_position_embeddings=POSITIONS + 2),
        }[family]()  # fmt: skip
        auto = transformers.AutoModelForMaskedLM if family == "roberta" else transformers.AutoModelForCausalLM
        model = auto.from_config(config, attn_implementation=score, dtype=torch.float64)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "score_norm" in name:
                    parameter.add_(torch.randn_like(parameter))
        return model.train()

    return make


@pytest.fixture(scope="session")
def zorro(tmp_path_factory):
    """A folder like Zorro's with two paradigms."""
    folder = tmp_path_factory.mktemp("zorro")
    for name, pairs in (("agreement", PAIRS), ("questions", PAIRS[2:5])):
        (folder / f"{name}.txt").write_text("".join(f"{bad}\n{good}\n" for bad, good in pairs), "utf-8")
    return folder
