"""Trainings of seconds and grids of few points, in place of what the figures use."""

import importlib

from figures._ensembles import LINEAR, LINEAR_TOKENS, SOFTMAX, SOFTMAX_TOKENS
from figures._trainings import Training

_SCRIPTS = (
    "transitions.landscape", "transitions.linear_transition", "transitions.softmax_transition",
    "transitions.phase_diagrams", "transitions.attention_matrices", "laws.scaling_laws", "claims.table_map",
    "claims.table_claims", "factorised.factorised_heads", "agreement.agreement",
)  # fmt: skip
SCRIPTS = {name.split(".")[1]: importlib.import_module(f"figures.{name}") for name in _SCRIPTS}
NAMES = tuple(SCRIPTS)
HELPERS = {
    name.split(".")[1]: importlib.import_module(f"figures.{name}")
    for name in ("claims._claims_linear", "agreement._agreement")
}

ENDS = ("uniform", "copy")
#: The trainings of figures._ensembles, with as little work as still converges.
TRAININGS = {
    "linear_table": Training(LINEAR, (128, 256), draws=2, starts=ENDS, steps=400),
    "linear_more": Training(LINEAR, (64, 1024), draws=2, starts=ENDS, steps=400),
    "softmax_table": Training(LINEAR.at(score="softmax"), (64, 256), draws=2, starts=ENDS, steps=400),
    "softmax_transition": Training(SOFTMAX, (700, 823, 880), draws=1, starts=ENDS, steps=400),
    "linear_tokens_table": Training(LINEAR_TOKENS, (192,), draws=2, starts=ENDS, steps=400),
    "linear_tokens_more": Training(LINEAR_TOKENS, (32, 72), draws=1, starts=ENDS, steps=400),
    "softmax_tokens_table": Training(SOFTMAX_TOKENS, (96,), draws=2, starts=("uniform",), steps=200),
}
LIMITS = [
    {k: Training(LINEAR.at(kappa=float(k)), (128 * k,), draws=2, starts=ENDS, steps=400) for k in (1, 4)},
    {k: Training(LINEAR_TOKENS.at(kappa=float(k)), (96 * k,), draws=2, starts=ENDS, steps=400) for k in (1, 2)},
]
#: Attributes of scripts and helpers that are replaced.
POINTS = {
    "landscape": {"POINTS": {"quick": (7, 5)}},
    "phase_diagrams": {"POINTS": {"quick": 6}},
    "scaling_laws": {"POINTS": {"quick": 9}},
    "table_claims": {"POINTS": {"quick": 9}},
    "_claims_linear": {"CONTEXTS": (16, 64), "GRID": 5},
    "factorised_heads": {
        "JUMP_DIMENSIONS": {"linear": (16,), "softmax": (4, 16)},
        "SHOWN_P": {"linear": (290, 430, 680), "softmax": (300, 520)},
        "POSTERIOR_DIMENSIONS": (8, 16, 64),
        "LINE_DIMENSIONS": (4, 15, 16, 256),
        "EFFORT": {"quick": (2, 1, 20)},
    },
    "agreement": {
        "MIDDLE": {"V": 4, "L": 8},
        "LINES": {(s, e): (0.5, 2.0) for s in ("linear", "softmax") for e in ("map", "posterior")},
    },
    "_agreement": {
        "SIZES": {"quick": ((4, 8),)},
        "TIMES": {"linear": {0.5: 40.0, 3.0: 40.0}, "softmax": {0.5: 40.0, 2.0: 30.0}},
        "EFFORT": {"quick": (2, 2, 6, 1.0)},
    },
    "attention_matrices": {"LINEAR": tuple((P, "kept", "some pattern") for P in (32, 72, 72))},
}
