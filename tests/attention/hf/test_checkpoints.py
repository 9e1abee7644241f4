"""Score parameters live as long as the model: through checkpoints, precisions and copies."""

import copy
import json
import pickle
import subprocess
import sys
import types

import joblib
import pytest
import torch
import transformers
from torch import nn

from phasekit.attention import paths
from phasekit.attention.hf import attach, register
from phasekit.attention.hf.attention import attend, visible
from phasekit.errors import InputError
from phasekit.scores import SSA, get_score, learned_values, parameter_groups

MODELS = ["gpt2", "llama", "nemotron", "roberta", "roberta decoder"]


@pytest.mark.parametrize("name", MODELS)
def test_saved_and_loaded_gives_the_same_logits(build, auto, score_parameters, tokens, tmp_path, name):
    model = build(name)
    wanted = model(tokens).logits
    model.save_pretrained(tmp_path)
    loaded = auto(name).from_pretrained(tmp_path, attn_implementation="ssa").eval()
    for key, parameter in score_parameters(model).items():
        assert torch.equal(score_parameters(loaded)[key], parameter)
    torch.testing.assert_close(loaded(tokens).logits, wanted, rtol=0, atol=0)
    state = build(name, seed=5)
    state.load_state_dict(model.state_dict())
    torch.testing.assert_close(state(tokens).logits, wanted, rtol=0, atol=0)


def test_loading_in_bfloat16_keeps_score_parameters_whole(build, auto, score_parameters, tmp_path):
    model = build("llama")
    model.save_pretrained(tmp_path)
    loaded = auto("llama").from_pretrained(tmp_path, attn_implementation="ssa", dtype=torch.bfloat16)
    for reduced in (loaded, model.to(torch.bfloat16)):
        assert reduced.lm_head.weight.dtype == torch.bfloat16
        for key, parameter in score_parameters(loaded).items():
            assert parameter.dtype == torch.float32
            assert torch.equal(parameter, score_parameters(reduced)[key])


@pytest.mark.parametrize("score", ["ssa", "mixture"])
def test_a_checkpoint_without_score_parameters_starts_them_at_their_fields(build, auto, tmp_path, score):
    build("llama", "sdpa").save_pretrained(tmp_path)
    loaded = auto("llama").from_pretrained(tmp_path, attn_implementation=score)
    fresh = get_score(score).make_parameters(4)()
    for layer in loaded.model.layers:
        for name, value in layer.self_attn.score_norm().items():
            torch.testing.assert_close(value, fresh[name], rtol=0, atol=0)


def test_a_checkpoint_with_shares_of_a_mixture_keeps_them(build, auto, tokens, tmp_path):
    model = build("llama", "mixture")
    model.save_pretrained(tmp_path)
    loaded = auto("llama").from_pretrained(tmp_path, attn_implementation="mixture").eval()
    torch.testing.assert_close(loaded(tokens).logits, model(tokens).logits, rtol=0, atol=0)


def test_a_checkpoint_refuses_to_become_another_model_unnoticed(build, auto, tmp_path):
    build("llama").save_pretrained(tmp_path)
    with pytest.raises(InputError, match="was trained with score ssa: pass attn_implementation='ssa'"):
        auto("llama").from_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"stands for .*entmax.*, the checkpoint has .*ssa"):
        auto("llama").from_pretrained(tmp_path, attn_implementation="entmax")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config.pop("phasekit_score") == {"name": "ssa", "n": 1.5, "b": 0.8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    register(SSA(n=2.0), "ssa-2")  # other starting values are no other score
    auto("llama").from_pretrained(tmp_path, attn_implementation="ssa-2")


def test_both_arms_of_a_comparison_come_from_one_configuration(build, auto, score_parameters, tmp_path):
    config = build("llama").config
    control = auto("llama").from_config(config, attn_implementation="sdpa")
    assert not score_parameters(control)
    treated = auto("llama").from_config(config, attn_implementation="ssa")
    treated.save_pretrained(tmp_path)
    auto("llama").from_config(treated.config, attn_implementation="sdpa")
    loaded = auto("llama").from_pretrained(tmp_path, attn_implementation="ssa")
    auto("llama").from_config(loaded.config, attn_implementation="sdpa")


def test_optimisers_leave_score_parameters_out_of_weight_decay(build, score_parameters):
    model = build("llama")
    decayed, kept = parameter_groups(model, 0.1)
    assert {id(p) for p in kept["params"]} == {id(p) for p in score_parameters(model).values()}
    assert not {id(p) for p in decayed["params"]} & {id(p) for p in kept["params"]}
    trainers = transformers.Trainer.get_decay_parameter_names(types.SimpleNamespace(), model)
    assert trainers
    assert not set(trainers) & score_parameters(model).keys()


def test_copies_and_gradient_checkpointing(build, tokens):
    model = build("llama")
    twin = copy.deepcopy(model)
    torch.testing.assert_close(twin(tokens).logits, model(tokens).logits, rtol=0, atol=0)
    twin.train().activation_checkpointing_enable({"use_reentrant": False})
    model.train()
    for one in (twin, model):
        one(tokens).logits.square().sum().backward()
    for a, b in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_switching_a_model_needs_attach(build, score_parameters, tokens):
    model = build("llama", "sdpa")
    model.set_attn_implementation("ssa")
    with pytest.raises(
        InputError,
        match=r"LlamaAttention \(layer 0\)': has no parameters of its score; call phasekit.attention.hf.attach",
    ):
        model(tokens)
    assert attach(model) == 2
    assert attach(model) == 0
    assert len(score_parameters(model)) == 4
    model(tokens)


def test_registered_without_learning_a_score_has_no_parameters(build, score_parameters, tokens):
    assert register(SSA(n=1.0), "ssa-fixed", learn=False) == ["ssa-fixed"]
    model = build("llama", "ssa-fixed")
    assert not score_parameters(model)
    assert model(tokens).logits.isfinite().all()


def test_names(registered):
    assert {"ssa", "softmax", "entmax", "sparsemax", "cosformer"} <= set(registered)
    assert register("ssa", "sdpa") == ["phasekit-sdpa"]
    assert register("ssa", "sdpa") == ["phasekit-sdpa"]
    assert register("softmax", "eager") == ["phasekit-eager"]


class Module(nn.Module):
    is_causal = True
    layer_idx = 3


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"attention_mask": None}, r"attention_mask = None: Module \(layer 3\) is causal and would see the future"),
        ({"softcap": 30.0}, r"softcap = 30.0: Module \(layer 3\) has a soft cap on logits"),
        ({"s_aux": torch.zeros(2)}, r"Module \(layer 3\) has attention sinks"),
        ({}, "has no parameters of its score"),
    ],
)
def test_what_would_be_silently_wrong_is_refused(others, message):
    q, mask = torch.zeros(1, 2, 4, 8), torch.ones(4, 4, dtype=torch.bool)
    with pytest.raises(InputError, match=message):
        attend(SSA(), True, Module(), q, q, q, **({"attention_mask": mask} | others))


def test_a_position_bias_acts_like_an_additive_mask():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    keep, bias = torch.ones(4, 4, dtype=torch.bool).tril(), torch.randn(1, 2, 4, 4)
    added = torch.where(keep, bias, -torch.inf)
    wanted = SSA().attention_weights(q, k, mask=added) @ v
    for mask in (keep, torch.where(keep, 0.0, -torch.inf)):
        got, weights = attend(SSA(), False, Module(), q, k, v, mask, position_bias=bias)
        torch.testing.assert_close(got, wanted.transpose(1, 2))
        assert weights is None


def test_masks_are_never_left_out_where_causality_matters():
    assert visible(batch_size=1, q_length=3, kv_length=3, allow_is_causal_skip=True).tolist() == [
        [[[True, False, False], [True, True, False], [True, True, True]]]
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "score = 'nothing': unknown"),
        ((None, "mine"), "which score shall have the name 'mine'"),
        (("ssa", "flash_ssa"), "name = 'flash_ssa': must be a plain name"),
        (("ssa", "me/ssa"), "name = 'me/ssa': must be a plain name"),
    ],
)
def test_wrong_registrations_are_refused_in_one_line(arguments, message):
    with pytest.raises(InputError, match=message):
        register(*arguments)


def test_cosformer_needs_its_distance_in_a_model(build):
    with pytest.raises(InputError, match="score cosformer: M = None: must be given"):
        build("llama", "cosformer")


@pytest.mark.slow
def test_whole_models_travel(build, tokens, tmp_path):
    """Pickled, saved by torch, and loaded where nobody has called ``register``."""
    for name in ("gpt2", "llama"):
        model = build(name)
        wanted = model(tokens).logits
        torch.save(model, tmp_path / name)
        for copied in (torch.load(tmp_path / name, weights_only=False), pickle.loads(pickle.dumps(model))):
            torch.testing.assert_close(copied(tokens).logits, wanted, rtol=0, atol=0)
            copied.save_pretrained(tmp_path / "saved")  # what ``register`` taught the class works on copies too
            assert json.loads((tmp_path / "saved" / "config.json").read_text())["phasekit_score"]["name"] == "ssa"
    joblib.dump(model, tmp_path / "joblib")
    torch.save(tokens, tmp_path / "tokens")
    code = f"""
import torch, joblib
tokens = torch.load({str(tmp_path / "tokens")!r})
for model in (torch.load({str(tmp_path / "llama")!r}, weights_only=False), joblib.load({str(tmp_path / "joblib")!r})):
    torch.save(model(tokens).logits, {str(tmp_path / "logits")!r})
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    torch.testing.assert_close(torch.load(tmp_path / "logits"), wanted, rtol=0, atol=1e-6)


def test_a_name_registered_again_leaves_earlier_models_alone(build, tokens):
    register(SSA(n=2.0), "ssa-again", learn=False)
    model = build("llama", "ssa-again")
    wanted = model(tokens).logits
    register(SSA(n=9.0), "ssa-again")
    torch.testing.assert_close(model(tokens).logits, wanted, rtol=0, atol=0)
    assert (build("llama", "ssa-again")(tokens).logits - wanted).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["gpt2", "llama", "roberta"])
@pytest.mark.parametrize("small", [0, 2**16])
def test_attention_weights_are_given_to_those_who_ask(build, tokens, monkeypatch, name, small):
    monkeypatch.setattr(paths, "SMALL", small)
    ours, theirs = build(name, "softmax"), build(name, "eager")
    got, wanted = (model(tokens, output_attentions=True).attentions for model in (ours, theirs))
    assert len(got) == 2
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert ours(tokens).attentions is None


def test_learned_values_of_a_model(build):
    values = learned_values(build("llama"))
    assert list(values) == [f"model.layers.{layer}.self_attn.score_norm" for layer in range(2)]
    assert all(numbers.shape == (4,) for one in values.values() for numbers in one.values())
    assert all(sorted(one) == ["b", "n"] for one in values.values())


@pytest.mark.slow
def test_without_transformers_one_line_names_the_extra():
    code = "import sys; sys.modules['transformers'] = None; import phasekit.attention.hf"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "InputError: package = 'transformers': not installed; pip install 'phasekit[lm]' brings it" in result.stderr


@pytest.mark.parametrize("name", ["mixture", "per-head"])
def test_cosformer_inside_another_score_needs_its_distance(build, name):
    register(get_score(name, scores="ssa,cosformer"), f"{name}-cosformer")
    with pytest.raises(InputError, match="score cosformer: M = None: must be given"):
        build("llama", f"{name}-cosformer")
