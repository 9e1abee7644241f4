"""Which networks are trained for the figures and tables, for each preset."""

from __future__ import annotations

from figures._trainings import Training
from phasekit.model import Model

#: The models whose networks are shown. Unit variances and κ = 1 throughout.
LINEAR = Model(V=8, L=16, score="linear")
SOFTMAX = Model(V=8, L=64, score="softmax")
LINEAR_TOKENS = Model(V=8, L=24, score="linear", inputs="token+position")
SOFTMAX_TOKENS = Model(V=8, L=24, score="softmax", inputs="token+position")

#: The training set sizes of the map tables of docs/theory.md, section 9.
LINEAR_TABLE_P = (128, 256, 512)
SOFTMAX_TABLE_P = (64, 128, 256, 512)
LINEAR_TOKENS_TABLE_P = (96, 192, 384, 768)
SOFTMAX_TOKENS_TABLE_P = (96, 192)

# With token+position inputs every sequence has its own attention matrix, so a step costs P times as much: fewer draws,
# fewer starts, and 500 steps, after which both starts have converged far below the tolerance.
_TOKEN_STARTS, _TOKEN_STEPS = ("uniform", "copy"), 500
#: Draws shown in pictures (tables average over more where they have more).
SHOWN_DRAWS = {"quick": 3, "full": 8}


def linear_table(preset: str) -> Training:
    """Linear attention, positional inputs, at the P of the table."""
    return Training(LINEAR, LINEAR_TABLE_P, draws=_number(preset, 32, 256), members=2)


def linear_more(preset: str) -> Training:
    """The same at further P, for the picture of the transitions."""
    P = (64, 90, 112, 120, 136, 150, 170, 205, 320, 400, 724, 1024, 2048)
    return Training(LINEAR, P, draws=SHOWN_DRAWS[preset], members=2)


def softmax_table(preset: str) -> Training:
    """Softmax attention, positional inputs, at the P of the table."""
    model = LINEAR.at(score="softmax")
    return Training(model, SOFTMAX_TABLE_P, draws=_number(preset, 32, 256), members=2)


def softmax_transition(preset: str) -> Training:
    """Softmax attention in a context long enough for a wide window of two minima."""
    few = (300, 450, 600, 700, 760, 823, 880, 950, 1100, 1250, 1350, 1800, 2500)
    many = (300, 450, 600, 660, 700, 730, 760, 800, 823, 850, 880, 950, 1050, 1150, 1250, 1300, 1350, 1800, 2500, 4000)
    return Training(SOFTMAX, few if preset == "quick" else many, draws=SHOWN_DRAWS[preset])


def linear_tokens_table(preset: str) -> Training:
    """Linear attention, token+position inputs, at the P of the table."""
    return _tokens(LINEAR_TOKENS, LINEAR_TOKENS_TABLE_P, _number(preset, 10, 64))


def linear_tokens_more(preset: str) -> Training:
    """The same at further P, for the pictures."""
    return _tokens(LINEAR_TOKENS, (24, 32, 40, 48, 56, 72, 136, 272, 544, 1088), SHOWN_DRAWS[preset])


def softmax_tokens_table(preset: str) -> Training:
    """Softmax attention, token+position inputs, at the P of the table."""
    return _tokens(SOFTMAX_TOKENS, SOFTMAX_TOKENS_TABLE_P, _number(preset, 10, 64))


def limits(preset: str) -> list[dict[int, Training]]:
    """Return trainings with k times the data at κ = k, for which the theory is the same, by k."""
    more = (1, 4, 16) if preset == "quick" else (1, 4, 16, 64)
    positional = [(LINEAR, 128), (LINEAR.at(score="softmax"), 64)]
    return [
        *(
            {k: Training(model.at(kappa=float(k)), (P * k,), draws=_number(preset, 32, 256), members=2) for k in more}
            for model, P in positional
        ),
        {k: _tokens(LINEAR_TOKENS.at(kappa=float(k)), (96 * k,), _number(preset, 5, 32)) for k in (1, 4, 16)},
    ]


def _tokens(model: Model, P: tuple[int, ...], draws: int) -> Training:
    return Training(model, P, draws=draws, starts=_TOKEN_STARTS, steps=_TOKEN_STEPS)


def _number(preset: str, quick: int, full: int) -> int:
    return quick if preset == "quick" else full
