"""The pictures of masks, encodings and token laws, at the tiny preset: what they write agrees with the theory."""

import numpy as np
import pytest

from phasekit.model import Model
from phasekit.theory.minima import find_minima


def test_the_front_and_the_networks_beside_it(drawn):
    table = drawn("front").numbers("front")
    assert set(table["panel"]) == {"copy", "position_loss", "front", "starts"}
    copied = table[(table["panel"] == "copy") & (table["kind"] == "theory")]
    P, L = copied["P"].max(), int(copied["L"].iloc[0])
    theory = find_minima(Model(V=8, L=L, P=P, mask="causal")).positions["copy"][0]
    assert copied.loc[copied["P"] == P, "y"].to_numpy() == pytest.approx(theory)
    network = table[(table["panel"] == "copy") & (table["kind"] == "network") & (table["P"] == P)]["y"]
    assert len(network) == L - 1
    assert np.abs(network.to_numpy() - theory).max() < 0.3  # a hundred steps of training on few data
    starts = table[(table["panel"] == "starts") & (table["kind"] == "theory")]
    assert starts["y"].min() > -1e-6


@pytest.mark.slow
def test_laws_beyond_the_paper_s_head(drawn):
    table = drawn("beyond_laws").numbers("beyond_laws")
    assert set(table["panel"]) == {"none", "causal", "encodings", "tails"}
    tails = table[(table["panel"] == "tails") & (table["exponent"] == 2.0)].pivot(index="P", columns="kind", values="y")
    assert (tails["rare"] <= tails["loss"] * (1 + 1e-9)).all()  # what rare tokens leave is part of the loss
    relative = table[(table["panel"] == "encodings") & (table["encoding"] == "relative")]
    one_hot = table[(table["panel"] == "encodings") & (table["encoding"] == "one-hot")]
    assert (relative["P"].to_numpy() < one_hot["P"].to_numpy()).all()
