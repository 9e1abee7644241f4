"""Claim C4's comparisons, and how the theory's error is measured against size."""

import numpy as np
import pandas as pd
import pytest
import torch

from figures.agreement import _agreement, agreement, size_dependence
from figures.agreement._agreement import at_zero_step, begun, steps_from, stiffest, theory
from figures.agreement._agreement_tables import notes, summary
from figures.posterior._samplings import Sampling
from phasekit.drawing.plotting import PAGE
from phasekit.drawing.presets import QUICK, TINY
from phasekit.heads import build_energy
from phasekit.model import Model
from phasekit.samplers import HMC
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.minima import find_minima
from tests.figures import small

SMALL = Model(V=3, L=6, score="linear")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr("figures._cache.FOLDER", tmp_path / "runs")


def well(mean, mcse=0.1, seed=0, verdict="mixed"):
    return {"P": 9, "data_seed": seed, "quantity": "q", "mean": mean, "mcse": mcse, "verdict": verdict, "well": 0}


def test_a_bias_linear_in_the_step_is_removed_and_its_error_carried():
    runs = [pd.DataFrame([well(3 + 2 * step), well(5.0, seed=1)]) for step in (0.4, 0.2)]
    first, second = at_zero_step((0.4, 0.2), runs).to_dict("records")
    assert first["mean"] == pytest.approx(3.0)
    assert first["mcse"] == pytest.approx(0.1 * np.sqrt(5))  # 2 m(h/2) − m(h)
    assert second["mean"] == pytest.approx(5.0)


def test_nothing_is_extrapolated_from_chains_that_disagree_at_one_step():
    runs = [pd.DataFrame([well(3.0)]), pd.DataFrame([well(np.nan, np.nan, verdict="not mixed")])]
    (row,) = at_zero_step((0.4, 0.2), runs).to_dict("records")
    assert np.isnan(row["mean"])
    assert row["verdict"] == "mixed; not mixed"


def test_steps_are_shares_of_the_inverse_curvature_up_to_the_longest():
    assert steps_from(40.0, (0.4, 0.2, 0.1)) == (0.01, 0.005, 0.0025)
    assert steps_from(2.0, (0.4, 0.2)) == (0.1, 0.05)


@pytest.mark.parametrize("score", ["linear", "softmax"])
def test_stiffest_curvature_is_the_largest_eigenvalue_of_the_hessian(score, folder):
    model = Model(V=3, L=4, score=score, sigma_w=0.7, sigma_g=1.3)
    sampling = Sampling(model, (30,), HMC(leaps=4), draws=2, thin=1, warmup=20, data=2, members=1)
    samples = sampling.samples()
    largest = []
    for d in range(2):
        energy = build_energy([draw_dataset(model.at(P=30.0), d)], dtype="float64")
        for chain in range(2):
            W, G = (torch.from_numpy(part[d, chain].copy()) for part in samples.final().values())
            units = torch.cat([torch.full((9,), 0.7), torch.full((16,), 1.3)]).double()

            def gradient(x, energy=energy, units=units):
                W, G = (units * x).split([9, 16])
                _, dW, dG = energy.energy_and_gradient(W.view(1, 1, 3, 3), G.view(1, 1, 4, 4))
                return units * torch.cat([dW.ravel(), dG.ravel()])

            x = torch.cat([W.ravel(), G.ravel()]) / units
            hessian = torch.stack([(gradient(x + 1e-5 * e) - gradient(x - 1e-5 * e)) / 2e-5 for e in torch.eye(25)])
            largest.append(torch.linalg.eigvalsh((hessian + hessian.T) / 2)[-1].item())
    assert stiffest(samples) == pytest.approx(max(largest), rel=0.01)


def test_theory_of_linear_attention_is_the_root_of_second_moments():
    found = find_minima(SMALL.at(P=150.0), "posterior")
    rows = theory(SMALL, (150,), "posterior").set_index("quantity")["theory"]
    for name in ("c1", "cG"):
        square = found.order_parameters[name][0] ** 2 + found.variance(name)[0]
        assert rows[name] == pytest.approx(np.sqrt(square))
    assert rows["loss"] == pytest.approx(found.loss[0])
    lowest = theory(SMALL, (150,), "map").set_index("quantity")["theory"]
    assert lowest["U"] == pytest.approx(find_minima(SMALL.at(P=150.0)).action[0])


def test_sgld_starts_from_both_ends_and_samples_what_hmc_does(folder, monkeypatch):
    """c1, cG, q and loss of one small head, beside a long HMC."""
    monkeypatch.setitem(_agreement.EFFORT, "tiny", (1, 1, 4, 1.0))
    monkeypatch.setitem(_agreement.STEPS, ("tiny", "linear"), (0.4, 0.2))
    monkeypatch.setitem(_agreement.TIMES, "linear", {3.0: 150.0})
    begin = begun(SMALL, 120, TINY)
    assert {*begin.samples().posterior.start.values.tolist()} == {"uniform", "copy"}
    rows = _agreement.sgld_rows(SMALL, {3.0: 120}, TINY).set_index("quantity")
    exact = Sampling(SMALL, (120,), HMC(leaps=8), 1500, 1, 200, members=2).samples().invariants().isel(dataset=0)
    for name, square in (("c1", "c1_c1"), ("cG", "cG_cG"), ("q", "q"), ("loss", "loss")):
        expected = float(exact[square].mean())
        expected = np.sqrt(expected) if name != square else expected
        row = rows.loc[name]
        assert row["error"] < 0.1 * row["mean"]
        assert row["mean"] == pytest.approx(expected, abs=4 * row["error"])
    assert rows["step"].iloc[0] == min(0.1, float(f"{0.4 / rows['stiffest'].iloc[0]:.2g}"))


def test_the_summary_counts_each_side_of_the_threshold():
    points = pd.DataFrame(
        {
            "score": "linear",
            "estimator": "map",
            "V": 8,
            "L": 16,
            "P": [1, 2, 3],
            "ratio": [0.5, 1.5, 3.0],
            "quantity": "loss",
            "difference": [np.nan, 0.02, -0.01],
            "sigma": [np.nan, 3.5, -1.0],
            "runs": 12,
            "left_out": [0, 1, 2],
        }
    )
    below, above = summary(points).to_dict("records")
    assert (below["side"], below["points"], below["unknown"]) == ("below", 1, 1)
    assert (above["points"], above["unknown"], above["within"]) == (2, 0, 1)
    assert (above["median"], above["largest"]) == (pytest.approx(0.015), 0.02)
    sampled = points.assign(estimator="posterior", left_out=1)
    told = notes(pd.concat([points, sampled]), QUICK)
    assert told[0].startswith("Adam: 3 of 36 networks")
    assert told[1].startswith("SGLD: 3 of 36 data sets")


def test_agreement_is_drawn_for_both_methods_and_sizes(drawn):
    result = drawn("agreement")
    (figure,) = result.figures.values()
    assert figure.get_figwidth() == PAGE
    assert len(figure.axes) == len(agreement.PANELS) * len(agreement.COLUMNS)
    numbers = result.numbers("agreement")
    runs = numbers[numbers["kind"] == "runs"]
    assert {*runs["estimator"]} == {"map", "posterior"}
    adam = runs[(runs["estimator"] == "map") & (runs["ratio"] > 1) & (runs["quantity"] == "U")]
    assert len(adam) == 2
    np.testing.assert_allclose(adam["mean"], adam["theory"], rtol=0.05)
    sgld = runs[(runs["estimator"] == "posterior") & (runs["quantity"] == "loss")].dropna(subset="mean")
    assert len(sgld) > 0
    np.testing.assert_allclose(sgld["mean"], sgld["theory"], rtol=0.25)  # two data sets of few tokens
    assert result.files[-1].read_text().count("## ") == 5
    assert small.ATTRIBUTES["agreement"]["agreement._agreement"]["TIMES"].keys() == _agreement.TIMES.keys()


def test_powers_of_size_are_found_with_their_error():
    L = np.array([16.0, 32.0, 64.0])
    rows = pd.DataFrame({"L": L, "ratio": 1.2, "gap": 3 * L**-1.5, "shift": -1.0}).assign(
        gap_error=lambda t: 0.1 * t["gap"], shift_error=1.0
    )
    (law,) = size_dependence.power_rows(rows).to_dict("records")  # a shift below 0 has no power
    assert law["exponent"] == pytest.approx(-1.5)
    assert law["prefactor"] == pytest.approx(3.0)
    assert law["exponent_error"] == pytest.approx(0.1 / (np.log(2) * np.sqrt(2)))


def test_gaps_are_theory_minus_samples_also_as_a_shift_of_P(monkeypatch):
    def theory(model, P):
        rows = [(each, 0, "aG", 0.1 + 0.5 * np.log(each / 100)) for each in P]
        return pd.DataFrame(rows, columns=["P", "branch", "quantity", "theory"])

    monkeypatch.setattr(size_dependence, "passing", lambda model: 100.0)
    monkeypatch.setattr(size_dependence, "theory_rows", theory)
    chains = pd.DataFrame({"P": 120, "data_seed": [0, 1], "well": 0, "verdict": "mixed", "start": ["copy", "uniform"]})
    chains = chains.assign(aG=[0.11, 0.13], aG_mcse=0.001)
    (row,) = size_dependence.gap_rows(Model(V=8, L=16, score="softmax"), chains).to_dict("records")
    assert (row["L"], row["ratio"], row["branches"], row["starts"], row["data"]) == (16, 1.2, 1, "copy+uniform", 2)
    assert row["gap"] == pytest.approx(0.1 + 0.5 * np.log(1.2) - 0.12)
    assert row["shift"] == pytest.approx(row["gap"] / 0.5)
    assert row["shift_error"] == pytest.approx(row["gap_error"] / 0.5) == pytest.approx(0.02)
