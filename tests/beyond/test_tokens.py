"""Token laws in the theory: dense matrices, differences, Monte Carlo and networks say the same."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.heads import Adam, train
from phasekit.model import Model
from phasekit.theory.action import action_for
from phasekit.theory.action.token_data import loss as token_loss
from phasekit.theory.action.two_level import CopyData
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions
from phasekit.tokens import Given

RANDOM = np.random.default_rng(5)


def random_model(random, replacement=True):
    V, L = int(random.integers(2, 12)), int(random.integers(2, 40))
    frequency = random.dirichlet(np.full(V, random.uniform(0.3, 3))) + 1e-6
    tokens = Given(frequency=tuple(frequency / frequency.sum()))
    if not replacement:
        V, tokens = L + int(random.integers(1, 9)), "uniform:replacement=false"
    scales = {name: float(np.exp(random.uniform(-1, 1))) for name in ("sigma_w", "sigma_g", "kappa")}
    return Model(V=V, L=L, P=float(10 ** random.uniform(0, 4)), tokens=tokens, **scales)


def dense(model, delta):
    """Φ and the loss from matrices: E[xxᵀ] and E[x_j x_kᵀ] of the law, and the readout by a linear solve."""
    L, V = model.L, model.V
    alpha = 1 / (1 + (L - 1) * np.exp(-delta))
    g, q = alpha, alpha**2 + (1 - alpha) ** 2 / (L - 1)
    frequency = model.tokens.frequencies(V)
    one, pair = np.diag(frequency), np.outer(frequency, frequency)
    if model.tokens.name == "uniform":
        pair = (np.ones((V, V)) - np.eye(V)) / (V * (V - 1))
    M, N = q * one + (1 - q) * pair, g * one + (1 - g) * pair
    W = np.linalg.solve(M + np.eye(V) * model.kappa / (model.P * model.sigma_w**2), N)
    loss = 1 - 2 * (W * N).sum() + (W * (M @ W)).sum()
    return model.P / (2 * model.kappa) * loss + (W**2).sum() / (2 * model.sigma_w**2), loss


@pytest.mark.parametrize("seed", range(40))
def test_the_data_part_is_that_of_dense_matrices(seed):
    random = np.random.default_rng(seed)
    model = random_model(random, replacement=seed % 4 > 0)
    p, delta = model.parameters(), np.asarray(random.uniform(-1, 12))
    value, slope, bend = CopyData().jet(delta, p)
    wanted, loss = dense(model, float(delta))
    assert value == pytest.approx(wanted, rel=1e-9)
    action = action_for(model)
    scale = model.sigma_g / np.sqrt(model.L - 1)
    assert action.loss((delta / scale,), p) == pytest.approx(loss, rel=1e-7, abs=1e-12)
    h = 1e-4
    high, low = (dense(model, float(delta) + shift)[0] for shift in (h, -h))
    assert slope == pytest.approx((high - low) / (2 * h), rel=1e-4, abs=1e-6 * wanted)
    (_, up, _), (_, down, _) = (CopyData().jet(delta + shift, p) for shift in (h, -h))
    assert bend == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-8 * wanted)
    pull, steepness = CopyData().force(delta, p.strength, p)
    assert pull == pytest.approx(-slope, rel=1e-9)
    more, _ = CopyData().force(delta, p.strength * (1 + h), p)
    assert steepness == pytest.approx(np.log(more / pull) / np.log1p(h), rel=1e-3)


def test_equal_frequencies_are_uniform_tokens():
    for score in ("softmax", "ssa", "entmax"):
        even, same = (Model(V=8, L=64, score=score, tokens=law) for law in ("zipf:0", "uniform"))
        one, other = find_transitions(even), find_transitions(same)
        assert one.order == other.order
        assert pytest.approx(other.passages[0].P, rel=1e-9) == one.passages[0].P


@pytest.mark.parametrize(
    ("V", "L", "exponent", "P_star"),
    [
        *((16, 32, zeta, P) for zeta, P in ((0.0, 369.2), (0.5, 370.4), (1.0, 384.0), (1.5, 428.4), (2.0, 520.6))),
        *((1000, 64, zeta, P) for zeta, P in ((0.0, 2671), (1.0, 1646))),
    ],
)
def test_thresholds_against_zipf_s_exponent(V, L, exponent, P_star):
    """Zipf raises P* where V is small and lowers it where V is large."""
    found = find_transitions(Model(V=V, L=L, tokens=f"zipf:{exponent}"))
    assert found.threshold("P_star") == pytest.approx(P_star, abs=10 ** np.floor(np.log10(P_star) - 3) * 0.6)


def test_states_on_both_sides_of_the_jump():
    minima = find_minima(Model(V=16, L=32, tokens="zipf:1").grid(P=[200, 400, 900]))
    assert minima.count.tolist() == [1, 2, 1]
    assert minima.action[:, 0] == pytest.approx([85.500, 165.23, 203.15], rel=1e-4)
    assert minima.averages["g"][:, 0] == pytest.approx([0.0336, 0.2325, 0.3702], abs=6e-5)
    assert minima.loss[:, 0] == pytest.approx([0.844, 0.314, 0.0879], abs=6e-4)
    assert minima.converged[:, 0].all()


def test_a_grid_may_vary_the_vocabulary():
    both = find_minima(Model(V=8, L=32, P=500, tokens="zipf").grid(V=[4, 16]))
    for k, V in enumerate((4, 16)):
        assert both.action[k, 0] == pytest.approx(find_minima(Model(V=V, L=32, P=500, tokens="zipf")).action[0])


@pytest.mark.slow
@pytest.mark.parametrize("law", ["zipf:1", "uniform:replacement=false"])
def test_networks_have_the_theory_s_energy(law):
    """One data set each: within 0.5 % (Zipf; the difference is one draw's noise)."""
    model = Model(V=16, L=16, P=900, tokens=law)
    found = train(model, starts=("copy",), members=1, data_seeds=(0, 1), settings=Adam(steps=600), device="cpu").data
    theory = find_minima(model)
    assert found.converged.all()
    assert float(found.U.mean()) == pytest.approx(theory.action[0], rel=5e-3)
    assert float(found.g.mean()) == pytest.approx(theory.averages["g"][0], rel=0.02)


@pytest.mark.parametrize(
    ("sizes", "action", "copy"),
    [
        ({"V": 4, "L": 4, "P": 40}, 12.96783, 0.0947),
        ({"V": 8, "L": 8, "P": 100}, 43.58911, 0.0684),
        ({"V": 16, "L": 8, "P": 3427, "sigma_w": 1.1, "sigma_g": 0.8168, "kappa": 1.993}, 807.0081, 0.0246),
    ],
)
def test_without_replacement_attending_to_all_others_is_a_minimum(sizes, action, copy):
    """What a row lacks tells of it too (negative readout). A scan of dense matrices' S finds all that is listed."""
    model = Model(tokens="uniform:replacement=false", **sizes)
    found = find_minima(model)
    delta = np.linspace(-8, 20, 2801)
    cost = (model.L - 1) * delta**2 / (2 * model.sigma_g**2)
    scan = np.array([dense(model, x)[0] for x in delta]) + cost
    lowest = np.sort(scan[1:-1][(scan[1:-1] < scan[:-2]) & (scan[1:-1] < scan[2:])])
    assert found.converged.all()
    assert found.action == pytest.approx(lowest, rel=1e-3)
    assert found.action[-1] == pytest.approx(action, rel=1e-6)
    assert found.averages["g"][-1] == pytest.approx(copy, abs=1e-4)
    assert found.coordinates["gap"][-1] < 0


def test_what_has_no_theory_is_refused_with_its_reason():
    for fields, reason in [
        ({"score": "linear"}, "sum to one"),
        ({"key_dim": 4}, "nuclear norm"),
        ({"mask": "causal"}, "together with tokens = 'zipf'"),
    ]:
        with pytest.raises(InputError, match=reason):
            action_for(Model(V=8, L=16, tokens="zipf", **fields))
    with pytest.raises(InputError, match="posterior"):
        action_for(Model(V=8, L=16, tokens="zipf"), "posterior")


@pytest.mark.parametrize("zeta", [1.5, 2.0, 3.0])
def test_rare_tokens_leave_a_power_law(zeta):
    """For a head that copies perfectly the loss falls like P^(−(ζ−1)/ζ) while some tokens are too rare to be known."""
    model = Model(V=10**6, L=64, P=1, tokens=f"zipf:{zeta}")
    P = np.geomspace(1e3, 1e5, 5)
    p = model.grid(P=P).parameters()
    loss = token_loss(np.full(P.shape, 300.0), p)
    t = P[:, None] * model.tokens.frequencies(model.V)
    assert loss == pytest.approx((model.tokens.frequencies(model.V) / (1 + t) ** 2).sum(1), rel=1e-6)
    assert np.diff(np.log(loss)) / np.diff(np.log(P)) == pytest.approx(-(zeta - 1) / zeta, rel=0.06)


def test_local_exponents_of_the_loss_behind_the_jump():
    P = np.array([3e3, 1e4, 3e4, 1e5])
    ends = [find_minima(Model(V=10_000, L=64, tokens="zipf:1").grid(P=P * x)).loss[:, 0] for x in (0.98, 1.02)]
    exponents = np.log(ends[1] / ends[0]) / np.log(1.02 / 0.98)
    assert exponents == pytest.approx([-0.67, -0.70, -0.925, -1.33], abs=0.006)


def landscape(model, P):
    """Return δ and S(δ) of softmax for different tokens, from the action's definition on a dense grid."""
    V, L = model.V, model.L
    delta = np.concatenate([np.linspace(-12, -1e-3, 1000), np.linspace(0, 20, 20001)])
    alpha = 1 / (1 + (L - 1) * np.exp(-delta))
    g = (V * alpha - 1) / (V - 1)
    q = (V * (alpha**2 + (1 - alpha) ** 2 / (L - 1)) - 1) / (V - 1)
    t = P * model.sigma_w**2 / (model.kappa * V)
    data = P / (2 * model.kappa) * (1 - 1 / V) * (1 - t * g**2 / (1 + t * q))
    return delta, data + (L - 1) * delta**2 / (2 * model.sigma_g**2)


def ahead(model, P):
    """Return by how much the best minimum that copies lies below the other one; None if there is no such pair."""
    delta, S = landscape(model, P)
    k = np.flatnonzero((S[1:-1] < S[:-2]) & (S[1:-1] <= S[2:])) + 1
    k = k[delta[k] > -0.5 if model.V > model.L else delta[k] >= 0]
    return None if k.size < 2 else float(S[k[0]] - S[k[-1]])


def drawn_models(count, whole):
    rng = np.random.default_rng(17)
    for _ in range(count):
        L = int(rng.integers(3, 40))
        V = L if whole else L + int(rng.integers(1, 2 * L))
        numbers = dict(zip(("sigma_w", "sigma_g", "kappa"), np.exp(rng.uniform(-1, 1, 3)), strict=True))
        yield Model(V=V, L=L, tokens="uniform:replacement=false", **numbers)


@pytest.mark.parametrize("whole", [True, False], ids=["V = L", "V > L"])
def test_transitions_of_different_tokens_against_a_scan(whole):
    """P* and the lower spinodal of random models, beside a dense grid of the action itself."""
    jumps = 0
    for model in drawn_models(20 if whole else 6, whole):
        found = find_transitions(model)
        assert found.order == "first" or not whole, model
        if found.order != "first":
            assert all(ahead(model, P) is None for P in found.values["P_x"] * np.geomspace(0.2, 5, 6))
            continue
        jumps += 1
        star, low = found.values["P_star"], found.values["spinodals"][0]
        if star / low < 1 + 1e-3:
            continue  # a grid of δ doesn't resolve so narrow a window
        assert ahead(model, star * (1 - 1e-4)) < 0 < ahead(model, star * (1 + 1e-4)), model
        assert ahead(model, low * (1 - 2e-3)) is None
        assert ahead(model, low * (1 + 2e-3)) is not None
        if whole:
            end = found.evidence["even_attention_ends"]
            assert end == pytest.approx(model.kappa * model.L**2 / (model.sigma_w * model.sigma_g), rel=1e-9)
            assert found.values["spinodals"][1] is None
            assert found.values["jump"]["aG"][0] == 0
    assert jumps > 2


def test_two_tokens_that_are_all_there_are():
    """V = L = 2: what isn't the other is known, and copying grows out of even attention at once."""
    found = find_transitions(Model(V=2, L=2, tokens="uniform:replacement=false", kappa=0.5))
    assert found.order == "second"
    assert found.values["P_star"] == pytest.approx(0.5 * 4)
