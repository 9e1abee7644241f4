"""``phasekit train`` and ``phasekit sample``: networks, or chains, of one model beside its theory."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from phasekit.cli import CHECK_FAILED, NO_ANSWER
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, print_json, print_table, working
from phasekit.errors import InputError
from phasekit.model import Model, in_words
from phasekit.progress import bar

Seeds = Annotated[int, typer.Option("--data-sets", min=1, help="Data sets; the first has seed 0.")]
Members = Annotated[int, typer.Option("--members", min=1, help="Networks, or chains, for each start and data set.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:N or auto.")]
_TOO_FEW = "a whole number of sequences can be trained on; theory takes any P"


@takes_model(without=("estimator",))
def train(
    options: ModelOptions,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of Adam.")] = 1000,
    rate: Annotated[float, typer.Option("--rate", help="Learning rate of the first step.")] = 0.1,
    data_sets: Seeds = 1,
    members: Members = 2,
    device: Device = "cpu",
    json: JsonOption = False,
) -> None:
    """Train networks of one model by Adam from both ends and from random weights, beside theory's minima.

    Networks that end above the lowest energy of their data are caught in a metastable minimum: their fate says so.
    Exit status 1 if none of a data set is kept.
    """
    from phasekit.fates import sort_networks
    from phasekit.heads import Adam
    from phasekit.heads import train as train_heads
    from phasekit.theory.minima import find_minima

    model = _whole(options.model())
    minima = find_minima(model, "map")
    with bar("training", total=steps) as progress:
        ensemble = train_heads(
            model,
            data_seeds=range(data_sets),
            members=members,
            settings=Adam(steps=steps, rate=rate),
            device=device,
            progress=lambda done, _: progress.show(done, "training"),
        )
    rows = ensemble.rows()
    for seed in range(data_sets):
        own = [row for row in rows if row["data_seed"] == seed]
        U, converged, failed = (np.array([row[name] for row in own]) for name in ("U", "converged", "failed"))
        for row, fate in zip(own, sort_networks(U, converged, failed)[0], strict=True):
            row["fate"] = str(fate)
    kept = {row["data_seed"] for row in rows if row["fate"] == "kept"}
    status = 0 if len(kept) == data_sets else CHECK_FAILED
    theory = [minima.branch(k) for k in range(int(minima.count))]
    if json:
        print_json({"model": model.describe(), "theory": theory, "networks": rows})
        raise typer.Exit(status)
    names = [*minima.order_parameters]
    lines = [[*_theory(branch, k, names), "–", "–"] for k, branch in enumerate(theory)]
    for row in rows:
        orders = (row[name] for name in names)
        numbers = [row["U"], *orders, row["loss"], row["coverage"], row["data_seed"], row["fate"]]
        lines.append([f"network {row['number']}", row["start"], *numbers])
    columns = ["", "start", "action or U", *names, "loss", "coverage", "data seed", "fate"]
    notes = [f"caveat: {minima.caveat}"] if minima.caveat else []
    print_table(f"Trained networks ({in_words(model, 'map')})", columns, lines, notes)
    raise typer.Exit(status)


@takes_model(without=("estimator",))
def sample(
    options: ModelOptions,
    method: Annotated[str, typer.Option("--method", help="hmc, langevin or sgld.")] = "hmc",
    draws: Annotated[int, typer.Option("--draws", min=8, help="Draws of each chain.")] = 400,
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Updates before the first draw.")] = 200,
    thin: Annotated[int, typer.Option("--thin", min=1, help="Updates for one draw.")] = 1,
    step: Annotated[
        float | None, typer.Option("--step", help="Step of langevin and sgld (default: measured from the curvature).")
    ] = None,
    data_sets: Seeds = 1,
    members: Members = 2,
    device: Device = "cpu",
    json: JsonOption = False,
) -> None:
    """Sample one model's posterior with chains from both ends, beside the theory of the posterior.

    Every mean stands with its Monte Carlo standard error and the verdict on the chains: mixed, coexistence (two wells,
    each a line of its own) or not mixed, where no mean is given. Exit status 1 for the last.
    """
    from phasekit.samplers import ChainDiverged, diagnose, get_method
    from phasekit.samplers import sample as draw

    model = _whole(options.model())
    settings: dict[str, Any] = {"name": method}
    if method == "hmc":
        if step is not None:
            raise InputError("step", step, "hmc tunes its own")
    else:
        settings["step"] = "auto" if step is None else step
    try:
        with bar("sampling", total=warmup + draws * thin) as progress:
            samples = draw(
                model,
                get_method(settings),
                draws=draws,
                warmup=warmup,
                thin=thin,
                data_seeds=range(data_sets),
                members=members,
                device=device,
                progress=lambda done, _: progress.show(done, "sampling"),
            )
    except ChainDiverged as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(NO_ANSWER) from None
    with working("diagnosing chains"):
        found = diagnose(samples)
    theory = _posterior(model)
    verdicts = [found.verdict(d) for d in range(data_sets)]
    status = CHECK_FAILED if "not mixed" in verdicts else 0
    if json:
        wells = [[{"chains": w.chains, "mean": w.mean, "mcse": w.mcse} for w in one] for one in found.wells]
        chains = [{"data_seed": d, "verdict": verdicts[d], "wells": wells[d]} for d in range(data_sets)]
        print_json({"model": model.describe(), "method": samples.method.describe(), "theory": theory, "chains": chains})
        raise typer.Exit(status)
    known = found.table.quantity.values
    quantities = [name for name in ("loss", "a1", "aG", "c1_c1", "cG_cG", "q") if name in known]
    lines: list[list[Any]] = []
    for d, wells_of_one in enumerate(found.wells):
        for k, well in enumerate(wells_of_one):
            name = "all chains" if len(wells_of_one) == 1 else f"well {k + 1}"
            lines.append([name, d, verdicts[d], *(f"{well.mean[q]:.5g} ± {well.mcse[q]:.2g}" for q in quantities)])
        if not wells_of_one:
            lines.append(["chains", d, verdicts[d], *(None for _ in quantities)])
    rhat, size = float(found.table.rhat.max()), float(found.table.ess_bulk.min())
    notes = [f"largest R-hat {rhat:.3g}, smallest effective size {size:.3g} (over all chains together)"]
    notes += [theory["refused"]] if "refused" in theory else [_in_one_line(branch) for branch in theory["branches"]]
    notes += [f"caveat: {theory['caveat']}"] if "caveat" in theory else []
    title = f"Posterior samples by {method} ({in_words(model, 'posterior')})"
    print_table(title, ["", "data seed", "verdict", *quantities], lines, notes)
    raise typer.Exit(status)


def _whole(model: Model) -> Model:
    if model.P is None or round(model.P) != model.P:
        raise InputError("P", model.P, _TOO_FEW)
    return model


def _theory(branch: dict[str, Any], k: int, names: list[str]) -> list[Any]:
    orders = (branch["order_parameters"][name] for name in names)
    word = "theory, global" if k == 0 else "theory, metastable"
    return [word, "–", branch["action"], *orders, branch["loss"], branch["coverage"]]


def _posterior(model: Model) -> dict[str, Any]:
    """Return theory's minima of the posterior, or why there are none to stand beside the chains."""
    from phasekit.theory.minima import find_minima

    try:
        return find_minima(model, "posterior").describe()
    except InputError as refused:
        return {"refused": f"no theory beside them: {refused}"}


def _in_one_line(branch: dict[str, Any]) -> str:
    numbers = {**branch["order_parameters"], "loss": branch["loss"]}
    for names, x in branch.get("covariance", {}).items():
        first, second = names.split()
        if first == second:
            numbers[f"variance of {first}"] = x
    return "theory: " + ", ".join(f"{name} = {x:.5g}" for name, x in numbers.items() if x is not None)
