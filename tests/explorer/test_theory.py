"""The explorer's numbers, computed by JavaScript, are those of phasekit, for random models of every score."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from phasekit import Model, find_minima, find_transitions

SOURCE = Path(__file__).resolve().parents[2] / "phasekit" / "explorer" / "source"
FILES = ("formulas.js", "numerics.js", "linear.js", "rows.js", "theory.js")
DRIVER = """
const plain = ({action, order, loss}) => ({action, order, loss});
const attempt = (compute) => { try { return compute(); } catch (error) { return {failed: String(error.message)}; } };
const results = JSON.parse(require("fs").readFileSync(0)).map((model) => ({
  minima: attempt(() => minima(model).map(plain)),
  transitions: attempt(() => { const {before, after, ...found} = transitions(model); return found; }),
}));
console.log(JSON.stringify(results));
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
                "inputs": ("positional", "token+position")[int(random.integers(2))],
                **{"V": V, "L": L, "P": P, "sigma_w": sigma_w, "sigma_g": sigma_g, "kappa": kappa},
            }
        )
    return models


def in_javascript(models):
    """Return what the page computes for models."""
    code = "\n".join((SOURCE / file).read_text("utf-8") for file in FILES) + DRIVER
    done = subprocess.run(["node", "-e", code], input=json.dumps(models), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_model(described):
    rest = {name: value for name, value in described.items() if name not in ("score", "parameters")}
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
