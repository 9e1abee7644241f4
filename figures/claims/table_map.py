"""The map tables of docs/theory.md, section 9: theory beside networks trained on several data sets of their own.

Every row averages over data sets, so that "networks" carries a standard error and the noise of one data set shows.
Criteria: U within 0.5 %; order parameters within 5 % above their transition (c1 above P₁, cG above P₂, aG above P*).
A last table repeats some rows with more data at the same P/κ, where the theory doesn't change: what remains of a
difference there isn't due to finite data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from figures._sweeps import draw_rows, kept, networks
from figures._tables import with_error, write_table
from phasekit.drawing.presets import Preset
from phasekit.heads import onset_ratio
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

#: Allowed relative differences.
ENERGY, ORDER = 0.005, 0.05
#: This close above P₁ (relative), the onset of each data set is used too: ‖c‖ ∝ (P − P₁)^½ magnifies its scatter.
NEAR_ONSET = 0.05
#: What section 9 prints for the theory: (inputs, score, P) → quantity → text.
PRINTED: dict[tuple[str, str, int], dict[str, str]] = {
    ("positional", "linear", 128): {"U": "63.996", "c1": "0.0369", "cG": "0.0018"},
    ("positional", "linear", 256): {"U": "113.987", "c1": "0.1083", "cG": "0.1015"},
    ("positional", "linear", 512): {"U": "146.236", "c1": "0.0718", "cG": "0.1609"},
    ("positional", "softmax", 64): {"U": "27.815", "aG": "0.0055", "loss": "0.841"},
    ("positional", "softmax", 128): {"U": "54.000", "aG": "0.0417", "loss": "0.769"},
    ("positional", "softmax", 256): {"U": "68.975", "aG": "0.3524", "loss": "0.137"},
    ("positional", "softmax", 512): {"U": "80.834", "aG": "0.4427", "loss": "0.0676"},
    ("token+position", "linear", 96): {"U": "46.423", "c1": "0.2948", "cG": "0.0009"},
    ("token+position", "linear", 192): {"U": "88.702", "c1": "0.3732", "cG": "0.0053"},
    ("token+position", "linear", 384): {"U": "166.62", "c1": "0.3778", "cG": "0.0440"},
    ("token+position", "linear", 768): {"U": "240.88", "c1": "0.1550", "cG": "0.1102"},
    ("token+position", "softmax", 96): {"U": "41.848", "aG": "0.0023"},
    ("token+position", "softmax", 192): {"U": "82.377", "aG": "0.0100"},
}
#: The inputs of each table.
TABLES = {
    "Positional inputs, V = 8, L = 16": "positional",
    "Token+position inputs, V = 8, L = 24": "token+position",
}


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the tables as CSV and Markdown."""
    rows = pd.concat([compare(*each) for each in networks(preset, "table_map").items()], ignore_index=True)
    tables = {title: rows[(rows["inputs"] == inputs) & (rows["k"] == 1)] for title, inputs in TABLES.items()}
    more_data = limit_rows(rows)
    sections = [(title, for_people(table)) for title, table in tables.items()]
    sections.append(("The same theory with k times the data, at κ = k", limits_for_people(more_data)))
    numbers = pd.concat([*tables.values(), more_data], ignore_index=True)
    notes = [*_notes(numbers), _third_pattern(more_data, preset)]
    return write_table(out / "table_map", sections, numbers, notes)


def compare(without_P: Model, networks: pd.DataFrame) -> pd.DataFrame:
    """Return one row per P and quantity: theory, networks over data sets, difference, verdict."""
    draws = draw_rows(networks)
    rows = []
    for P in np.unique(networks["P"]):
        model = without_P.at(P=float(P))
        here, members = draws[draws["P"] == P], networks[networks["P"] == P]
        counts = {"draws": len(here), "kept": int((members["fate"] == "kept").sum()), "networks": len(members)}
        for row in _quantities(model, here):
            labels = {"inputs": model.inputs, "score": model.score.name, "P": P, "k": round(model.kappa)}
            rows.append({**labels, **row, **counts})
    return pd.DataFrame(rows)


def _quantities(model: Model, draws: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the comparison of each quantity of one model with the means over its data sets."""
    minima = find_minima(model)
    transitions = find_transitions(model).values
    theory = {"U": minima.action[0], **{n: v[0] for n, v in minima.order_parameters.items()}, "loss": minima.loss[0]}
    theory.pop("a1", None)  # a1 = 1 − aG
    starts_at = {"c1": "P1", "cG": "P2", "aG": "P_star"}
    for name, value in theory.items():
        if value == 0:  # below the onset: there is nothing that a difference could be relative to
            continue
        threshold = transitions.get(starts_at.get(name, ""))
        above = threshold is not None and threshold < (model.P or 0)
        allowed = ENERGY if name == "U" else ORDER if above else math.nan
        printed = PRINTED.get((model.inputs, model.score.name, int(model.P or 0)), {}).get(name, "")
        yield {"quantity": name, **comparison(float(value), draws[name], allowed), "printed": printed}
    P1 = transitions.get("P1")
    if P1 is not None and P1 < (model.P or 0) < P1 * (1 + NEAR_ONSET) and model.inputs == "positional":
        expected = at_own_onset(model, P1, draws["data_seed"].astype(int))
        yield {"quantity": "c1, own onset", **comparison(expected, draws["c1"], ORDER), "printed": ""}


def comparison(theory: float, draws: pd.Series, allowed: float) -> dict[str, object]:
    """Compare a number of the theory with the mean over data sets; ``allowed`` NaN means: no criterion."""
    mean, scatter = draws.mean(), draws.std(ddof=1)
    difference = mean / theory - 1 if theory != 0 else math.nan
    verdict = "" if math.isnan(allowed) else "pass" if abs(difference) <= allowed else "FAIL"
    return {
        "theory": theory,
        "mean": mean,
        "standard_error": scatter / math.sqrt(len(draws)),
        "one_draw": scatter,
        "difference": difference,
        "allowed": allowed,
        "verdict": verdict,
    }


def at_own_onset(model: Model, P1: float, seeds: pd.Series) -> float:
    """Return the theory's c1 averaged over data sets, each at the same distance from its own onset.

    Only P/P₁ matters close to the onset, so a data set that is past its own onset by a factor x is like the average
    one with P₁x sequences.
    """
    P, times = np.unique([P1 * onset_ratio(draw_dataset(model, int(seed))) for seed in seeds], return_counts=True)
    return float(np.average(find_minima(model.grid(P=P)).order_parameters["c1"][:, 0], weights=times))


def limit_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return comparisons at k times the data and κ = k: P/κ and P σ_w²/κ, all that the theory knows, stay the same."""
    labels = ["inputs", "score", "P"]
    rows = rows[rows["quantity"] != "loss"].assign(P=rows["P"] // rows["k"], verdict="", allowed=math.nan)
    return rows[rows.groupby(labels)["k"].transform("nunique") > 1]


def for_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as text."""
    digits = {"U": 3, "loss": 4}
    return pd.DataFrame(
        {
            "score": table["score"],
            "P": table["P"],
            "": table["quantity"],
            "printed": table["printed"],
            "theory": [f"{v:.{digits.get(n, 5)}f}" for n, v in zip(table["quantity"], table["theory"], strict=True)],
            "networks": _each(table, lambda row: with_error(row["mean"], row["standard_error"])),
            "difference, %": _each(table, _percent),
            "one data set, ± %": _each(table, lambda row: f"{100 * row['one_draw'] / row['theory']:.2g}"),
            "data sets": table["draws"],
            "kept": _each(table, lambda row: f"{row['kept']}/{row['networks']}"),
            "verdict": table["verdict"],
        }
    )


def limits_for_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return one line per model and quantity, the differences at each k side by side."""
    shown = table[~table["quantity"].str.contains(",")].assign(text=lambda t: _each(t, _percent))
    wide = shown.pivot(index=["inputs", "score", "P", "quantity"], columns="k", values="text").reset_index()
    return wide.rename(columns={"quantity": "", **{k: f"k = {k}: difference, %" for k in table["k"].unique()}})


def _each(table: pd.DataFrame, text: Callable[[pd.Series], str]) -> list[str]:
    return [text(row) for _, row in table.iterrows()]


def _percent(row: pd.Series) -> str:
    return with_error(100 * row["difference"], 100 * row["standard_error"] / abs(row["theory"]))


def _notes(numbers: pd.DataFrame) -> list[str]:
    judged = numbers[numbers["verdict"] != ""]
    failed = judged[judged["verdict"] == "FAIL"]
    names = [f"{r['score']} {r['inputs']} P = {r['P']} {r['quantity']}" for _, r in failed.iterrows()]
    return [
        f"{len(judged) - len(failed)} of {len(judged)} comparisons with a criterion pass"
        + (f"; not: {', '.join(names)}." if names else "."),
        'Differences are mean over data sets ± standard error; "one data set" is the scatter of a single one. '
        '"kept" counts networks at the lowest minimum of their data set.',
        "No criterion below a transition (c1 below P₁, cG below P₂, aG below P*), nor for the loss.",
        '"c1, own onset": the theory at each data set\'s own onset, for P within 5 % above P₁. Noise lowers the onset '
        "of finite data by a fraction of a per cent, which (P − P₁)^½ magnifies.",
    ]


def _third_pattern(limits: pd.DataFrame, preset: Preset) -> str:
    """Say what remains with token+position inputs when there is plenty of data."""
    tokens = (each for each in networks(preset, "table_map").items() if each[0].inputs == "token+position")
    model, rows = max(tokens, key=lambda each: each[0].kappa)
    k, L, matrices = round(model.kappa), model.L, kept(preset, "table_map", "A")
    by_data_set = [
        np.mean([matrices[str(task)][member] for member in part["member"]], axis=0)
        for task, part in rows[rows["fate"] == "kept"].groupby("task")
    ]
    excess = self_attention_excess(np.mean(by_data_set, axis=0))
    numbers = limits[(limits["inputs"] == "token+position") & (limits["k"] == k)].set_index("quantity")
    difference = {name: f"{100 * numbers.loc[name, 'difference']:.2g} %" for name in ("U", "c1", "cG")}
    shift = -excess * numbers.loc["c1", "mean"] / (L * (L - 1)) / numbers.loc["cG", "theory"]
    return (
        f"Token+position inputs, P = {numbers['P'].iloc[0]}, with {k} times the data: U differs by {difference['U']}, "
        f"c1 by {difference['c1']}, but cG (no order parameter of a transition yet) by {difference['cG']}. That isn't "
        f"noise: positions attend to themselves by {100 * excess:.0f} % more than to others, because the token block "
        "of G can tell equal tokens. The theory's two patterns leave this third one out. Through the row sums it "
        f"lowers the projection on the copying pattern by c1/(L(L − 1)) times that, {100 * shift:.2g} % of cG."
    )


def self_attention_excess(A: NDArray[np.float64]) -> float:
    """Return by how much the mean weight of a position on itself exceeds that on all but itself and the copied one."""
    L = len(A)
    lag = (np.arange(L)[:, None] - np.arange(L)) % L
    return float(A[lag == 0].mean() / A[lag > 1].mean() - 1)
