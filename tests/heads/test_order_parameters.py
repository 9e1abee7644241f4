import pytest
import torch

from phasekit.heads import build_energy, order_parameters
from phasekit.heads.order_parameters import has_sign_symmetry, order_parameter_names
from phasekit.model import Model
from phasekit.scores import get_score
from phasekit.tasks.copy import draw_dataset

L = 6


def measured(A):
    """Order parameters of a given matrix: linear attention with G = L·A."""
    energy = build_energy([draw_dataset(Model(V=3, L=L, P=5, score="linear"), 0)], dtype="float64", device="cpu")
    averages = energy.averages(torch.zeros(1, 1, 3, 3, dtype=torch.float64), L * A[None, None])
    return [float(x) for x in order_parameters(averages, L)]


def test_the_two_patterns_are_read_back():
    uniform, shift = torch.full((L, L), 1 / L, dtype=torch.float64), torch.eye(L, dtype=torch.float64).roll(1, 0)
    assert measured(0.3 * uniform + 0.4 * shift) == pytest.approx([0.3, 0.4, 1.0], abs=1e-12)
    assert measured(-0.3 * uniform + 0.4 * shift) == pytest.approx([-0.3, 0.4, 1.0], abs=1e-12)


def test_they_are_the_least_squares_projection():
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(L, L, generator=generator, dtype=torch.float64)
    patterns = torch.stack(
        [torch.full((L * L,), 1 / L, dtype=torch.float64), torch.eye(L).roll(1, 0).double().flatten()]
    )
    solution = torch.linalg.lstsq(patterns.T, A.flatten()).solution
    explained = (patterns.T @ solution).square().sum() / A.square().sum()
    assert measured(A) == pytest.approx([*solution.tolist(), float(explained)], abs=1e-12)


def test_names_and_symmetry_follow_the_score():
    assert order_parameter_names(get_score("linear")) == ("c1", "cG")
    assert order_parameter_names(get_score("softmax")) == ("a1", "aG")
    assert has_sign_symmetry(get_score("linear"))
    assert not has_sign_symmetry(get_score("softmax"))
