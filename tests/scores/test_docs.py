"""The page on scores is executed, and the score it adds keeps the contract."""

import re
from pathlib import Path

import pytest
import sympy as sp
import torch

from phasekit.scores import get_score, names, registry

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scores.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def page(monkeypatch):
    """Everything the page defines; what it registers is forgotten afterwards."""
    monkeypatch.setattr(registry.SCORES, "_known", dict(registry.SCORES._known))
    namespace = {"__name__": "page"}
    for snippet in SNIPPETS:
        exec(snippet, namespace)
    return namespace


def test_the_table_names_every_score():
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, flags=re.MULTILINE)) == set(names())


def test_adding_a_score_takes_about_twenty_lines():
    (added,) = [snippet for snippet in SNIPPETS if "@register" in snippet]
    assert len(added.strip().splitlines()) <= 24


def test_what_the_page_computes(page):
    assert page["weights"].shape == (2, 8, 5, 7)
    assert page["model"]["projection"].weight.dtype == torch.bfloat16
    assert next(page["parameters"].parameters()).dtype == torch.float32
    u, v, m, n, b = (page[name] for name in "uvmnb")
    ratio = ((1 + b * u) / (1 + b * v)) ** n
    assert sp.simplify(page["raised"] - ratio / (ratio + m - 1)) == 0


def test_the_added_score_keeps_the_contract(page):
    score = get_score("cubic", c=0.2)
    z = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    keep = torch.ones(4, 5, dtype=torch.bool).tril()
    values = {key: value.detach().requires_grad_() for key, value in score.make_parameters(3).double()().items()}
    weights = score.rows(z, keep, values)
    expected = (z + 0.2 * z**3).masked_fill(~keep, -torch.inf).softmax(-1)
    assert torch.allclose(weights, expected, rtol=0, atol=1e-7)
    function = lambda z, c: score.rows(z, keep, {"c": c})  # noqa: E731
    assert torch.autograd.gradcheck(function, (z, values["c"]))
    assert torch.autograd.gradgradcheck(function, (z[:1], values["c"]))
    upstream = torch.randn_like(weights)
    (gradient,) = torch.autograd.grad(weights, z, upstream)
    assert torch.allclose(score.pull_back(z.detach(), weights.detach(), upstream, keep, values), gradient)
    raised, other = score.symbolic_two_level(sp.Float(1.3), sp.Float(-0.4), sp.Integer(6))
    row = score.rows(torch.tensor([[1.3] + [-0.4] * 5], dtype=torch.float64))[0]
    assert [float(raised), float(other)] == pytest.approx([float(row[0]), float(row[1])], rel=1e-12)


def test_the_page_leaves_the_registry_alone():
    assert "cubic" not in names()
