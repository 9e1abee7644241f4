"""Induction heads: every branch against networks on all sequences there are, and against descents from many starts."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.model import Model, Parameters
from phasekit.theory.action import action_for
from phasekit.theory.minima import find_minima, minima_of

SOFTMAX = action_for(Model(V=8, L=8, task="induction"))


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class EveryQuestion:
    """S(G₁, G₂) = min_W U on all sequences of L distinct tokens and all queries, weighted to P sequences."""

    def __init__(self, model):
        self.model = model
        self.x = np.eye(model.V)[np.array(list(permutations(range(model.V), model.L)))]

    def action(self, first, second):
        model, x = self.model, self.x
        keys = softmax(first) @ x
        collected = (softmax(x @ second @ keys.transpose(0, 2, 1)) @ x).reshape(-1, model.V)
        targets = np.roll(x, -1, axis=1).reshape(-1, model.V)
        M, N = collected.T @ collected / len(collected), collected.T @ targets / len(collected)
        ridge = model.kappa / (model.P * model.sigma_w**2) * np.eye(model.V)
        data = model.P / (2 * model.kappa) * (1 - np.trace(N.T @ np.linalg.solve(M + ridge, N)))
        return data + ((first**2).sum() + (second**2).sum()) / (2 * model.sigma_g**2)

    def pattern(self, gap, match):
        V, L = self.model.V, self.model.L
        shift = np.roll(np.eye(L), -1, axis=1)
        assert shift[1, 0] == 1  # position 1 looks at position 0
        return gap * (shift - 1 / L), match * (np.eye(V) - 1 / V)


@pytest.mark.parametrize(
    ("V", "L", "others"),
    [(4, 4, {"P": 1000.0}), (5, 4, {"P": 150.0, "sigma_w": 0.7, "sigma_g": 1.3, "kappa": 2.0}), (6, 3, {"P": 90.0})],
)
def test_action_is_that_of_all_sequences(V, L, others):
    model = Model(V=V, L=L, task="induction", **others)
    exact, found = EveryQuestion(model), find_minima(model)
    assert found.converged[: int(found.count)].all()
    for k in range(int(found.count)):
        weights = exact.pattern(found.coordinates["gap"][k], found.coordinates["match"][k])
        assert exact.action(*weights) == pytest.approx(found.action[k], rel=1e-12)


def test_every_sheet_has_a_minimum_among_all_weights():
    """Around each minimum no direction of G₁ and G₂ leads down: second differences along random directions."""
    model = Model(V=4, L=4, P=1000.0, task="induction")
    exact, found = EveryQuestion(model), find_minima(model)
    assert found.count == 5  # four sheets and the unstructured state
    rng = np.random.default_rng(1)
    for k in range(5):
        first, second = exact.pattern(found.coordinates["gap"][k], found.coordinates["match"][k])
        for _ in range(40):
            a, b = rng.standard_normal((4, 4)), rng.standard_normal((4, 4))
            h = 1e-3 / np.sqrt((a**2).sum() + (b**2).sum())
            up, down = (exact.action(first + s * h * a, second + s * h * b) for s in (1, -1))
            assert (up + down - 2 * found.action[k]) / 1e-6 > 0.5


@pytest.mark.parametrize(("V", "P"), [(3, 300.0), (4, 300.0)])
def test_at_three_tokens_an_antisymmetric_match_leads_down_and_the_output_says_so(V, P):
    model = Model(V=V, L=3, P=P, task="induction")
    exact, found = EveryQuestion(model), find_minima(model)
    assert "saddle points among all weights" in found.caveat
    tilt = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]) / np.sqrt(6) * 1e-3
    around = np.pad(tilt, (0, V - 3))
    for k in range(int(found.count)):
        gap, match = found.coordinates["gap"][k], found.coordinates["match"][k]
        first, second = exact.pattern(gap, match)
        up, down = (exact.action(first, second + sign * around) for sign in (1, -1))
        assert ((up + down - 2 * found.action[k]) / 1e-6 > 0) == (gap * match >= 0)
    assert find_minima(Model(V=4, L=4, P=P, task="induction")).caveat is None


#: V, L, P: action and order parameters of the lowest two minima.
KNOWN = {
    (8, 8, 140): ((61.72, 0.125, 0.125), (68.73, 0.6435, 0.3711)),
    (8, 8, 400): ((74.61, 0.6914, 0.4511), None),
    (16, 8, 300): ((121.37, 0.7742, 0.4489), (135.89, 0.125, 0.125)),
    (16, 16, 500): ((225.29, 0.6814, 0.3470), (234.86, 0.0625, 0.0625)),
    (16, 16, 800): ((230.78, 0.6963, 0.3760), (375.49, 0.0625, 0.0625)),
}


@pytest.mark.parametrize("sizes", KNOWN)
def test_numbers_found_before(sizes):
    V, L, P = sizes
    found = find_minima(Model(V=V, L=L, P=P, task="induction"))
    for k, known in enumerate(KNOWN[sizes]):
        if known is not None:
            numbers = (found.action[k], found.order_parameters["alpha1"][k], found.order_parameters["alpha2"][k])
            assert np.all(np.abs(np.subtract(numbers, known)) <= (0.0051, 5.1e-5, 5.1e-5))


def random_models(count, seed):
    rng = np.random.default_rng(seed)
    V = np.floor(10 ** rng.uniform(0.4, 4, count))
    L = np.floor(np.maximum(2, V ** rng.uniform(0.2, 1, count)))
    sigma_w, sigma_g, kappa = 10 ** rng.uniform(-0.5, 0.5, (3, count))
    P = kappa / sigma_g**2 * (V + L) * np.log(L + 1) ** 2 * 10 ** rng.uniform(-0.7, 1.5, count)
    return Parameters(P, V, L, sigma_w, sigma_g, kappa)


def descents(action, p, starts):
    """Return where L-BFGS ends from every start, in whitened coordinates, and the action there."""

    def value(z):
        jet = action.jet(tuple(np.array([x]) for x in z), p)
        return float(jet.value[0]), jet.gradient[0]

    ends = [minimize(value, z, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}) for z in starts]
    return np.array([end.x for end in ends]), np.array([end.fun for end in ends])


def check_against_descents(action, p, seed):
    rng = np.random.default_rng(seed)
    owner, z, _ = minima_of(action, p)
    z = np.stack(z, axis=-1)
    value, gradient, _ = action.jet(tuple(z.T), p[owner])
    assert np.all(np.linalg.norm(gradient, axis=-1) < 1e-8 * (1 + np.abs(value)))
    for k in range(p.shape[0]):
        q, mine = p[k : k + 1], owner == k
        gap = np.sqrt(float(q.L[0]) - 1) / float(q.sigma_g[0]) * rng.uniform(-2, 8, 6)
        match = np.sqrt(float(q.V[0]) - 1) / float(q.sigma_g[0]) * rng.uniform(-4, 12, 6)
        starts = [*np.stack([gap, *[0 * gap] * (z.shape[1] - 2), match], axis=-1), *z[mine]]
        ends, values = descents(action, q, starts)
        assert values.min() > value[mine].min() - 1e-7 * (1 + abs(values.min())), q
        for end, low in zip(ends, values, strict=True):
            curvature = action.curvatures(tuple(np.array([x]) for x in end), q)[0, 0]
            near = np.abs(value[mine] - low) < 1e-6 * (1 + abs(low))
            assert near.any() or curvature < 1e-3, (q, end)  # a descent may creep past a saddle point


@pytest.mark.slow
@pytest.mark.parametrize("count", [25, pytest.param(1500, marks=pytest.mark.nightly)])
def test_no_descent_finds_another_minimum(count):
    check_against_descents(SOFTMAX, random_models(count, 3), 4)


@pytest.mark.parametrize("first", ["temperature", {"name": "ssa", "n": 2.0, "b": 1.0}])
def test_other_scores_in_layer_1(first):
    action = action_for(Model(V=8, L=8, task={"name": "induction", "first": first}))
    numbers = Model(V=8, L=8, task={"name": "induction", "first": first}).task.numbers
    p = random_models(8, 5)
    p = p.with_score({name: np.full(8, value) for name, value in numbers.items()})
    check_against_descents(action, p, 6)


@pytest.mark.parametrize("first", [{"name": "ssa"}, {"name": "ssa", "n": 4.0, "b": 1.0}])
def test_no_minimum_is_lost_however_many_the_data(first):
    """Log odds that grow as logarithms stretch the path to gaps of millions; the lowest minimum lies at its start."""
    model = Model(V=8, L=8, task={"name": "induction", "first": first})
    action, numbers = action_for(model), model.task.numbers
    rng = np.random.default_rng(7)
    L = np.array([2.0, 2, 3, 4, 8, 16, 2, 4])
    V = L + np.array([0, 0, 0, 0, 0, 0, 3, 12])
    p = Parameters(10 ** rng.uniform(3, 8, 8), V, L, *10 ** rng.uniform(-0.3, 0.3, (3, 8)))
    p = p.with_score({name: np.full(8, value) for name, value in numbers.items()})
    owner, z, _ = minima_of(action, p)
    value = action.jet(z, p[owner]).value
    for k in range(8):
        q = p[k : k + 1]
        starts = [np.array([x, 0.0, y]) * (L[k] + V[k]) ** 0.5 for x in (1.0, 4.0) for y in (1.0, 4.0)]
        starts += [start * [i, 1, j] for start in starts for i, j in ((-1, -1), (1, -1), (-1, 1))]
        ends, lowest = descents(action, q, starts)
        found = value[owner == k]
        assert found.min() <= lowest.min() * (1 + 1e-7), q
        stable = action.curvatures(tuple(ends.T), p[np.full(len(ends), k)])[:, 0] > 1e-2
        assert (np.abs(lowest[stable, None] / found - 1).min(axis=1) < 1e-5).all(), q


def test_temperature_is_a_scale_of_the_prior():
    plain = find_minima(Model(V=12, L=6, P=300.0, sigma_g=0.5, task="induction"))
    warm = find_minima(Model(V=12, L=6, P=300.0, score={"name": "temperature", "T": 2.0}, task="induction"))
    assert warm.action == pytest.approx(plain.action, rel=1e-12)
    first = {"name": "induction", "first": {"name": "temperature", "T": 2.0}}
    own = find_minima(Model(V=12, L=6, P=300.0, score={"name": "temperature", "T": 2.0}, task=first))
    assert own.action == pytest.approx(plain.action, rel=1e-12)


def test_unstructured_state_ends_at_the_spinodal():
    for V, L, known in [(16, 8, 940.7), (128, 8, 2975), (128, 32, 71360)]:
        p = Model(V=V, L=L, P=1.0, task="induction").parameters().ravel()
        spinodal = SOFTMAX.spinodal(p)
        assert spinodal[0] == pytest.approx(known, rel=2e-4)
        origin = (np.zeros(1), np.zeros(1))
        for factor, sign in ((1 - 1e-9, 1), (1 + 1e-9, -1)):
            assert sign * SOFTMAX.curvatures(origin, p.replace(P=factor * spinodal))[0, 0] > 0
    assert SOFTMAX.spinodal(Model(V=9, L=9, P=1.0, task="induction").parameters().ravel())[0] == np.inf


def test_what_has_no_theory_is_refused():
    for changes, field in [
        ({"score": "linear"}, "score"),
        ({"score": "ssa"}, "score"),
        ({"task": {"name": "induction", "first": "linear"}}, "score"),
    ]:
        with pytest.raises(InputError) as caught:
            find_minima(Model(**{"V": 8, "L": 8, "P": 10.0, "task": "induction", **changes}))
        assert caught.value.field == field
    with pytest.raises(InputError, match="no theory for induction yet"):
        find_minima(Model(V=8, L=8, P=10.0, task="induction"), "posterior")
