"""Every public function says in one line what it takes, whatever it is handed."""

import numpy as np
import pytest

import phasekit
from phasekit.errors import InputError
from phasekit.heads import train
from phasekit.model import Model
from phasekit.samplers import HMC, sample
from phasekit.theory.compare import compare_scores
from phasekit.theory.transitions import Family, critical_endpoint

MODEL = Model(V=8, L=16, P=10)
GRID = MODEL.grid(L=[8, 16])
LENGTHS = [8, 16, 32, 64, 128]
THEORY = {
    "find_minima": (phasekit.find_minima, MODEL),
    "find_transitions": (phasekit.find_transitions, MODEL),
    "transition_table": (phasekit.transition_table, GRID),
    "phase_diagram": (phasekit.phase_diagram, GRID),
    "scaling_law": (lambda model, estimator: phasekit.scaling_law(model, "P_star", "L", LENGTHS, estimator), MODEL),
    "critical_endpoint": (lambda model, estimator: critical_endpoint(model, Family("L", (6, 40)), estimator), MODEL),
    "compare_scores": (lambda model, estimator: compare_scores(model, [MODEL.score], estimator), MODEL),
}


@pytest.mark.parametrize("name", THEORY)
@pytest.mark.parametrize("word", ["Posterior", "MAP", "", None, ["map"], np.array(["map"])])
def test_the_estimator_is_one_of_two_words(name, word):
    function, models = THEORY[name]
    with pytest.raises(InputError, match=r"estimator = .*: must be one of map, posterior"):
        function(models, word)


@pytest.mark.parametrize(
    ("function", "wrong", "line"),
    [
        (phasekit.find_minima, [MODEL, MODEL], "must be one Model.* or a grid"),
        (phasekit.find_minima, None, "must be one Model.* or a grid"),
        (phasekit.find_transitions, GRID, "must be one Model.*; for a grid there is transition_table"),
        (phasekit.transition_table, [MODEL], "must be one Model.* or a grid"),
        (phasekit.phase_diagram, MODEL, "must be a grid"),
        (train, GRID, "must be one Model.* or a list"),
        (train, None, "must be one Model.* or a list"),
        (train, [], "must be one Model.* or a list"),
        (lambda wrong: train(MODEL, data_seeds=wrong), 3, "must be a list"),
        (lambda wrong: sample(wrong, HMC(), draws=2), GRID, "must be one Model.* or a list"),
        (lambda wrong: MODEL.grid(L=wrong), np.geomspace(16, 4096, 30), "round the points and take each once"),
        (lambda wrong: MODEL.grid(P=wrong), np.ma.array([1.0, 2.0], mask=[0, 1]), "none of them masked"),
        (lambda wrong: MODEL.grid(P=wrong), [1j], "must be numbers"),
        (lambda wrong: MODEL.grid(score=wrong), ["linear"], "must be one of P, V, L"),
        (lambda wrong: MODEL.at(P=wrong), True, "must be a number"),
        (lambda wrong: MODEL.at(V=wrong), b"8", "must be an integer"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(function, wrong, line):
    with pytest.raises(InputError, match=line) as refused:
        function(wrong)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250
