import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import build_energy
from phasekit.heads.build import choose_path
from phasekit.heads.energy_linear_tokens import LinearTokenEnergy
from phasekit.heads.energy_tokens import TokenEnergy
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

from . import brute_force

V, L = 3, 5
# P on both sides of L·V = 15; both data sets in one ensemble
PS = (4, 40)
MEMBERS = 3
TOLERANCE = {"float32": 3e-6, "float64": 1e-13}
VARIANTS = [
    ("linear", "positional", "moments"),
    ("softmax", "positional", "moments"),
    ("linear", "positional", "sequences"),
    ("softmax", "positional", "sequences"),
    ("linear", "token+position", "sequences"),
    ("softmax", "token+position", "sequences"),
    ("linear", "token+position", "auto"),
]


def setting(score, inputs, path, dtype="float64"):
    """An ensemble with all variances away from 1, so that a misplaced one shows."""
    models = [Model(V=V, L=L, P=P, score=score, inputs=inputs, sigma_w=0.7, sigma_g=1.3, kappa=0.4) for P in PS]
    datasets = [draw_dataset(model, seed=1) for model in models]
    energy = build_energy(datasets, dtype=dtype, device="cpu", path=path)
    n = energy.logit_size
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(len(PS), MEMBERS, V, V, generator=generator, dtype=torch.float64)
    G = torch.randn(len(PS), MEMBERS, n, n, generator=generator, dtype=torch.float64)
    return energy, W.to(energy.dtype), G.to(energy.dtype)


def each_member(energy, W, G):
    for d, dataset in enumerate(energy.datasets):
        for m in range(W.shape[1]):
            yield d, m, dataset, W[d, m].double(), G[d, m].double()


def largest_relative(found, expected):
    return float((found.double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_energy_is_the_definition(score, inputs, path, dtype):
    energy, W, G = setting(score, inputs, path, dtype)
    U = energy.energy_and_gradient(W, G)[0]
    for d, m, dataset, w, g in each_member(energy, W, G):
        expected = brute_force.energy(dataset.model, dataset.tokens, w.numpy(), g.numpy())
        assert float(U[d, m]) == pytest.approx(expected, rel=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_gradient_is_autograd_of_the_definition(score, inputs, path, dtype):
    energy, W, G = setting(score, inputs, path, dtype)
    _, dW, dG = energy.energy_and_gradient(W, G)
    for d, m, dataset, w, g in each_member(energy, W, G):
        model = dataset.model
        w.requires_grad_()
        g.requires_grad_()
        X = torch.nn.functional.one_hot(torch.from_numpy(dataset.tokens.astype("int64")), V).double()
        seen = torch.cat([X, torch.eye(L, dtype=torch.float64).expand(len(X), L, L)], dim=2)
        logits = g if inputs == "positional" else seen @ g @ seen.mT
        output = model.score.rows(logits) @ X @ w
        error = (X.roll(1, dims=1) - output).square().sum()
        prior = w.square().sum() / (2 * model.sigma_w**2) + g.square().sum() / (2 * model.sigma_g**2)
        (error / (2 * model.kappa * L) + prior).backward()
        assert largest_relative(dW[d, m], w.grad) < TOLERANCE[dtype]
        assert largest_relative(dG[d, m], g.grad) < TOLERANCE[dtype]


@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_gradient_is_the_slope_of_the_energy(score, inputs, path):
    energy, W, G = setting(score, inputs, path)
    _, dW, dG = energy.energy_and_gradient(W, G)
    generator = torch.Generator().manual_seed(2)
    direction_W = torch.randn(W.shape, generator=generator, dtype=W.dtype)
    direction_G = torch.randn(G.shape, generator=generator, dtype=G.dtype)
    h = 1e-5
    up = energy.energy_and_gradient(W + h * direction_W, G + h * direction_G)[0]
    down = energy.energy_and_gradient(W - h * direction_W, G - h * direction_G)[0]
    slope = (dW * direction_W).sum((-2, -1)) + (dG * direction_G).sum((-2, -1))
    torch.testing.assert_close((up - down) / (2 * h), slope, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("score", ["linear", "softmax"])
def test_both_positional_paths_agree(score):
    results = []
    for path in ("moments", "sequences"):
        energy, W, G = setting(score, "positional", path)
        averages = energy.averages(W, G)
        results.append([*energy.energy_and_gradient(W, G), averages.loss, averages.g, averages.q])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_averages_are_the_definition(score, inputs, path):
    energy, W, G = setting(score, inputs, path)
    averages, mean_attention = energy.averages(W, G), energy.mean_attention(G)
    for d, m, dataset, w, g in each_member(energy, W, G):
        patterns = [brute_force.attention(dataset.model, x, g.numpy()) for x in dataset.tokens]
        losses = [brute_force.squared_error(dataset.model, x, w.numpy(), g.numpy()) / L for x in dataset.tokens]
        expected = {
            "loss": np.mean(losses),
            "s": np.mean([A.sum(1).mean() for A in patterns]),
            "s2": np.mean([(A.sum(1) ** 2).mean() for A in patterns]),
            "g": np.mean([np.mean([A[i, i - 1] for i in range(L)]) for A in patterns]),
            "q": np.mean([(A**2).sum() / L for A in patterns]),
        }
        for name, value in expected.items():
            assert float(getattr(averages, name)[d, m]) == pytest.approx(value, rel=1e-12), name
        np.testing.assert_allclose(mean_attention[d, m].numpy(), np.mean(patterns, axis=0), rtol=1e-12)


@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_chunks_make_no_difference(score, inputs, path, monkeypatch):
    whole = setting(score, inputs, path)
    expected = [*whole[0].energy_and_gradient(*whole[1:]), whole[0].mean_attention(whole[2])]
    monkeypatch.setattr("phasekit.heads.moments._CHUNK_NUMBERS", 7 * L * V)
    monkeypatch.setattr("phasekit.heads.energy_sequences._CHUNK_NUMBERS", 7 * L * V)
    monkeypatch.setattr("phasekit.heads.energy_tokens._CHUNK_WEIGHTS", {"cpu": 7 * MEMBERS * L * L})
    monkeypatch.setattr("phasekit.heads.energy_linear_tokens._CHUNK_NUMBERS", {"cpu": 7 * V})
    cut = setting(score, inputs, path)
    for a, b in zip([*cut[0].energy_and_gradient(*cut[1:]), cut[0].mean_attention(cut[2])], expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_double_precision_copy_is_exact(score, inputs, path):
    single, W, G = setting(score, inputs, path, "float32")
    double, _, _ = setting(score, inputs, path, "float64")
    copy = single.in_double()
    assert copy.dtype == torch.float64
    assert copy.in_double() is copy
    for a, b in zip(
        copy.energy_and_gradient(W.double(), G.double()),
        double.energy_and_gradient(W.double(), G.double()),
        strict=True,
    ):
        assert torch.equal(a, b)


def test_a_bound_gradient_follows_its_buffers():
    energy, W, G = setting("softmax", "positional", "moments")
    dW, dG = torch.empty_like(W), torch.empty_like(G)
    gradient = energy.bind({"W": W, "G": G}, {"W": dW, "G": dG})
    for factor in (1.0, 0.5):
        W.mul_(factor)
        G.mul_(factor)
        gradient()
        U, expected_W, expected_G = energy.energy_and_gradient(W, G)
        assert torch.equal(dW, expected_W)
        assert torch.equal(dG, expected_G)
        assert torch.equal(gradient.likelihood() + energy.prior(W, G), U)


def test_the_path_follows_the_operation_count():
    for size in (2, 3, 8, 64):
        for length in (2, 3, 8, 64, 1024):
            assert choose_path(Model(V=size, L=length, P=size * length)) == "moments"
    assert choose_path(Model(V=8, L=16, P=8)) == "sequences"
    for P, path in ((8, "sequences"), (1000, "moments")):
        assert build_energy([draw_dataset(Model(V=8, L=16, P=P), 0)], device="cpu").path == path
    tokens = Model(V=3, L=4, P=5, inputs="token+position")
    assert type(build_energy([draw_dataset(tokens, 0)], device="cpu")) is TokenEnergy
    assert type(build_energy([draw_dataset(tokens.at(score="linear"), 0)], device="cpu")) is LinearTokenEnergy


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"path": "moment"}, "path"),
        ({"dtype": "float16"}, "dtype"),
        ({"device": "tpu"}, "device"),
        ({"device": "cuda:99"}, "device"),
    ],
)
def test_wrong_arguments_are_refused(arguments, field):
    dataset = draw_dataset(Model(V=3, L=4, P=5), 0)
    with pytest.raises(InputError, match=f"^{field} = "):
        build_energy([dataset], **arguments)


def test_data_sets_must_belong_together():
    dataset = draw_dataset(Model(V=3, L=4, P=5), 0)
    with pytest.raises(InputError, match="everything but P"):
        build_energy([dataset, draw_dataset(Model(V=3, L=4, P=5, kappa=2), 0)])
    with pytest.raises(InputError, match="at least one"):
        build_energy([])
    tokens = draw_dataset(Model(V=3, L=4, P=5, inputs="token+position"), 0)
    with pytest.raises(InputError, match="second moments"):
        build_energy([tokens], path="moments")
