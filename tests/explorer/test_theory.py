"""The explorer's numbers, computed by JavaScript, are those of phasekit, for random models of every score."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from phasekit import Model, find_minima, find_transitions, get_score
from phasekit.saturation import get_theorem

SOURCE = Path(__file__).resolve().parents[2] / "phasekit" / "explorer" / "source"
FILES = ("formulas.js", "numerics.js", "linear.js", "rows.js", "theory.js", "saturation.js")
DRIVER = """
const plain = ({action, order, loss}) => ({action, order, loss});
const attempt = (compute) => { try { return compute(); } catch (error) { return {failed: String(error.message)}; } };
const results = JSON.parse(require("fs").readFileSync(0)).map((model) => ({
  minima: attempt(() => minima(model).map(plain)),
  transitions: attempt(() => { const {before, after, ...found} = transitions(model); return found; }),
}));
console.log(JSON.stringify(results));
"""
ROWS = """
const rows = JSON.parse(require("fs").readFileSync(0)).map(({score, parameters, z, lambda}) => ({
  weights: rowWeights(score, parameters, z.map((x) => lambda * x)),
  bounds: massBounds(score, parameters, z, lambda),
}));
console.log(JSON.stringify(rows));
"""
# How far, as a share of what is drawn, the linear action along cG lies above each minimum, lowest first.
CURVES = """
const gaps = JSON.parse(require("fs").readFileSync(0)).map((model) => {
  const {x, S} = actionCurve(model), states = minima(model), span = Math.max(...S) - Math.min(...S);
  return states.map(({order, action}) => {
    const k = x.findIndex((cG) => cG >= order.cG), share = (order.cG - x[k - 1]) / (x[k] - x[k - 1]);
    return (S[k - 1] + share * (S[k] - S[k - 1]) - action) / span;
  });
});
console.log(JSON.stringify(gaps));
"""
NUMBERS = {"temperature": {"T": (0.3, 3.0)}, "ssa": {"n": (1.0, 6.0), "b": (0.3, 2.0)}, "entmax": {"alpha": (1.1, 2.5)}}
SCORES = ("softmax", "temperature", "ssa", "entmax", "sparsemax", "linear")

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def random_models(count, seed):
    """Return models as the page describes them, over the ranges of its sliders."""
    random = np.random.default_rng(seed)

    def between(low, high):
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    models = []
    for k in range(count):
        score = SCORES[k % len(SCORES)]
        V, L = round(between(2, 512)), round(between(4, 4096))
        sigma_w, sigma_g, kappa = between(0.3, 3), between(0.3, 3), between(0.1, 10)
        P = between(0.1, 10) * kappa * V * L**1.3 / sigma_w**2
        models.append(
            {
                "score": score,
                "parameters": {name: between(*ends) for name, ends in NUMBERS.get(score, {}).items()},
                "inputs": ("positional", "token+position", "relative")[int(random.integers(3))],
                **{"V": V, "L": L, "P": P, "sigma_w": sigma_w, "sigma_g": sigma_g, "kappa": kappa},
            }
        )
    return models


def in_javascript(models, driver=DRIVER):
    """Return what the page computes for models."""
    code = "\n".join((SOURCE / file).read_text("utf-8") for file in FILES) + driver
    done = subprocess.run(["node", "-e", code], input=json.dumps(models), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_model(described):
    rest = {name: value for name, value in described.items() if name not in ("score", "parameters")}
    if rest["inputs"] == "relative":
        rest["encoding"] = rest.pop("inputs")
    return Model(score={"name": described["score"], **described["parameters"]}, **rest)


def compare(models):
    worst = {}
    for described, found in zip(models, in_javascript(models), strict=True):
        model = as_model(described)
        mine = find_minima(model)
        assert "failed" not in found["minima"], (described, found)
        assert len(found["minima"]) == int(mine.count), (described, found["minima"], mine.action)
        for k, state in enumerate(found["minima"]):
            branch = mine.branch(k)
            for name in ("action", "loss"):
                keep(worst, name, state[name], branch[name], described)
            scale = max(abs(value) for value in branch["order_parameters"].values())
            for name, value in branch["order_parameters"].items():
                keep(worst, "order", state["order"][name], value, described, scale)
        passage, mine = found["transitions"], find_transitions(model)
        assert "failed" not in passage, (described, passage)
        assert passage["order"] == mine.order, (described, passage, mine.order)
        for name, value in mine.values.items():
            if name in ("P1", "P2", "P_star", "P_x") and value is not None:
                keep(worst, name, passage[name], value, described)
            if name == "spinodals":
                for one, other in zip(passage[name], value, strict=True):
                    keep(worst, name, one, other, described)
    return worst


def keep(worst, name, found, expected, described, scale=None):
    error = abs(found - expected) / (scale or abs(expected)) if (scale or expected) else abs(found)
    if error >= worst.get(name, (0.0, None))[0]:
        worst[name] = (error, described)


@needs_node
def test_numbers_are_those_of_phasekit():
    assert_close(compare(random_models(60, seed=1)))


@needs_node
@pytest.mark.nightly
def test_a_thousand_models():
    assert_close(compare(random_models(1000, seed=2)))


def assert_close(worst):
    for name, (error, described) in worst.items():
        assert error < 1e-9, (name, error, described)


@needs_node
def test_rows_and_their_bounds_are_those_of_phasekit():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3)
    rows = []
    for k in range(400):
        score = SCORES[k % 5]
        parameters = {name: float(random.uniform(*ends)) for name, ends in NUMBERS.get(score, {}).items()}
        z = random.normal(size=int(random.integers(2, 9))) * 10 ** random.uniform(-1, 1)
        z -= (
            k % 3 == 0
        ) * z.max()  # SSA becomes one-hot for a winner at 0, and differs for rows without a positive logit
        z -= (k % 3 == 1) * (z.max() + 0.1)
        rows.append(
            {"score": score, "parameters": parameters, "z": z.tolist(), "lambda": 10 ** random.uniform(-1, 1.5)}
        )
    bounded = 0
    for row, found in zip(rows, in_javascript(rows, ROWS), strict=True):
        z, lam, numbers = np.array(row["z"]), row["lambda"], row["parameters"]
        weights = get_score({"name": row["score"], **numbers}).rows(torch.tensor(lam * z[None]))[0].numpy()
        np.testing.assert_allclose(found["weights"], weights, rtol=1e-9, atol=1e-12, err_msg=str(row))
        if row["score"] in ("sparsemax", "entmax"):
            assert found["bounds"] is None
            continue
        name = found["bounds"]["theorem"]
        given = {"lam": lam / numbers.get("T", 1.0)} if name.startswith("softmax") else {"lam": lam, **numbers}
        expected = np.exp(np.ravel(get_theorem(name).bounds(z=z, **given)))
        np.testing.assert_allclose(
            [found["bounds"]["low"], found["bounds"]["high"]], expected, rtol=1e-9, err_msg=str(row)
        )
        bounded += 1
    assert bounded == 240


@needs_node
def test_minima_of_linear_attention_lie_on_the_curve_that_is_drawn():
    models = [model for model in random_models(240, seed=4) if model["score"] == "linear"]
    gaps = in_javascript(models, CURVES)
    assert max(abs(row[0]) for row in gaps) < 1e-3
    others = [gap for row in gaps for gap in row[1:]]
    assert len(others) > 5
    assert max(others) < 1e-3
    assert min(others) > -0.05  # another c1 may be lower at the same cG, and the page says so
