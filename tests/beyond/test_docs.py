"""The page is executed, and what it adds keeps the contract and has a theory."""

import re
from pathlib import Path

import numpy as np
import pytest

from phasekit.encodings import ENCODINGS
from phasekit.masks import MASKS
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.tokens import TOKEN_LAWS
from tests.beyond import test_words as contract

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "beyond.md").read_text()


@pytest.fixture
def page(monkeypatch):
    """Run the page; what it registers is forgotten afterwards."""
    for registry in (ENCODINGS, MASKS, TOKEN_LAWS):
        monkeypatch.setattr(registry, "_known", dict(registry._known))
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(snippet, {"__name__": "page"})


@pytest.mark.usefixtures("page")
def test_what_the_page_adds_keeps_the_contract():
    doubled, geometric = ENCODINGS.given("doubled"), TOKEN_LAWS.given("geometric")
    contract.test_an_encoding_collects_by_the_transpose_of_its_logits(doubled)
    contract.test_what_a_pattern_costs_is_the_norm_of_the_cheapest_weights(doubled)
    contract.test_positions_that_count_see_their_target_and_themselves(MASKS.given("ahead"))
    contract.test_a_law_is_what_its_draws_have(geometric)
    contract.test_sums_over_a_law_s_levels_are_sums_over_the_vocabulary(geometric)


@pytest.mark.usefixtures("page")
def test_what_the_page_adds_has_a_theory():
    doubled = find_minima(Model(V=8, L=32, P=200, encoding="doubled"))
    assert doubled.action == pytest.approx(find_minima(Model(V=8, L=32, P=200, sigma_g=2)).action)
    frequencies = 0.5 ** np.arange(6)
    given = "given:" + ",".join(map(str, (frequencies / frequencies.sum()).tolist()))
    geometric = find_minima(Model(V=6, L=32, P=200, tokens="geometric"))
    assert geometric.action == pytest.approx(find_minima(Model(V=6, L=32, P=200, tokens=given)).action)


def test_the_page_names_every_word():
    for registry in (ENCODINGS, MASKS, TOKEN_LAWS):
        for name in registry.names():
            assert f"{name}" in PAGE
