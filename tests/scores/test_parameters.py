"""Learned parameters: they stay in float32, load, reset, and are split from what weight decay may touch."""

import copy
import pickle

import pytest
import torch

from phasekit.errors import InputError
from phasekit.scores import get_score, parameter_groups

LEARNERS = {
    "ssa": get_score("ssa"),
    "temperature": get_score("temperature", T=0.7),
    "entmax": get_score("entmax"),
    "mixture": get_score("mixture", scores=["ssa", "sparsemax", "temperature"], shares=(0.2, 0.5, 0.3)),
    "per-head": get_score("per-head", scores="ssa,softmax,entmax"),
    "nested": get_score("mixture", scores=[{"name": "mixture", "scores": "ssa,softmax"}, "temperature"]),
}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", LEARNERS)
def test_start_at_the_fields_values(name):
    score = LEARNERS[name]
    values = score.make_parameters(6)()
    for value in values.values():
        heads = value.shape[-3]
        assert value.shape[-2:] == (1, 1)
        assert heads == (2 if name == "per-head" else 6)
    if score.learnable:
        for key in score.learnable:
            assert torch.allclose(values[key], torch.tensor(getattr(score, key)), rtol=1e-6)
    if name == "mixture":
        assert values["shares"][:, 0, 0, 0].tolist() == pytest.approx([0.2, 0.5, 0.3], rel=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("narrow", ["bfloat16", "half", "to", "to device and dtype", "within a model"])
def test_narrowing_leaves_them_exactly_as_they_are(name, narrow):
    module = LEARNERS[name].make_parameters(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 7)
    before = {key: value.detach().clone() for key, value in module().items()}
    if narrow == "to":
        module.to(torch.float16)
    elif narrow == "to device and dtype":
        module.to(device="cpu", dtype=torch.bfloat16)
    elif narrow == "within a model":
        torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(module)).to(torch.bfloat16)
    else:
        getattr(module, narrow)()
    assert equal(module(), before)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}


def test_widening_and_moving_work():
    module = LEARNERS["ssa"].make_parameters(3)
    assert {parameter.dtype for parameter in module.double().parameters()} == {torch.float64}
    assert {parameter.dtype for parameter in module.bfloat16().parameters()} == {torch.float32}
    assert {parameter.device.type for parameter in module.to("meta").parameters()} == {"meta"}
    module.to_empty(device="cpu").reset_parameters()
    assert equal(module(), LEARNERS["ssa"].make_parameters(3)())


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("assign", [False, True])
def test_a_reduced_checkpoint_loads_into_float32(name, assign):
    module, other = (LEARNERS[name].make_parameters(3) for _ in range(2))
    state = {key: (tensor + 0.5).bfloat16() for key, tensor in module.state_dict().items()}
    model, wrapped = torch.nn.Sequential(other), {f"0.{key}": tensor for key, tensor in state.items()}
    model.load_state_dict(wrapped, assign=assign)
    for key, parameter in other.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, state[key].float())
    assert next(iter(wrapped.values())).dtype == torch.bfloat16  # the caller's checkpoint is left alone


@pytest.mark.parametrize("name", LEARNERS)
def test_copies_pickles_and_resets(name):
    module = LEARNERS[name].make_parameters(3)
    start = {key: value.detach().clone() for key, value in module().items()}
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += torch.arange(1.0, 1 + parameter.numel()).reshape(parameter.shape) / 10
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert equal(other(), module())
    assert not equal(module(), start)
    module.reset_parameters()
    assert equal(module(), start)


def test_groups_hold_every_trainable_parameter_once():
    shared = LEARNERS["nested"].make_parameters(2)
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2), shared, LEARNERS["ssa"].make_parameters(2), shared])
    model[0].bias.requires_grad_(False)
    decayed, kept = parameter_groups(model, weight_decay=0.01)
    assert [id(p) for p in decayed["params"]] == [id(model[0].weight)]
    assert {id(p) for p in kept["params"]} == {id(p) for m in model[1:] for p in m.parameters()}
    assert len(kept["params"]) == len({id(p) for p in kept["params"]})
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.01, 0.0)


@pytest.mark.parametrize("heads", [0, -1, 2.0])
@pytest.mark.parametrize("name", LEARNERS)
def test_wrong_numbers_of_heads(name, heads):
    with pytest.raises(InputError, match="heads"):
        LEARNERS[name].make_parameters(heads)


def test_scores_without_parameters_have_an_empty_module():
    module = get_score("softmax").make_parameters(4)
    assert module() == {}
    assert not list(module.parameters())
    assert parameter_groups(module, 0.1)[1]["params"] == []
