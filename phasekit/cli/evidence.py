"""``phasekit evidence``: what samples of the posterior say about the order of a transition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.axes import SYNTAX, parse_axis
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, in_words, print_json, print_table, working
from phasekit.errors import InputError
from phasekit.model import Model

if TYPE_CHECKING:
    from phasekit.evidence import Loop
    from phasekit.minima import Minima

evidence = typer.Typer(
    help="Look for the order of a transition in samples of the posterior: loops, barriers, fluctuations, warnings.",
    rich_markup_mode="markdown",
)

#: Chains disagree further than this: a window of umbrella sampling, or a mean, must not be trusted.
_RHAT, _OVERLAP = 1.2, 0.03
#: Sweeps and susceptibilities look at chains that stay at each P for a short time.
_BOUNDS = {"rhat_max": _RHAT, "ess_min": 20.0}

_POINTS = SYNTAX.removeprefix("NAME=").replace("NAME=", "")
SizesOption = Annotated[
    str | None,
    typer.Option("-P", "--P", metavar="SIZES", help=f"Data set sizes: {_POINTS}. Default: around the transition."),
]
DrawsOption = Annotated[int, typer.Option("--draws", min=8, help="Draws of each chain, at each P or in each window.")]
ThinOption = Annotated[int, typer.Option("--thin", min=1, help="Updates from one draw to the next.")]
WarmupOption = Annotated[int, typer.Option("--warmup", min=0, help="Updates before the first draw.")]
MembersOption = Annotated[int, typer.Option("--members", min=1, help="Chains from each end.")]
StepOption = Annotated[float, typer.Option("--step", help="Step of the Langevin dynamics (BAOAB, friction 1).")]
DataOption = Annotated[int, typer.Option("--data-seed", min=0, help="Which data set is drawn.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the chains' noise.")]


@evidence.command()
@takes_model(without=("P", "estimator"))
def hysteresis(
    options: ModelOptions,
    sizes: SizesOption = None,
    draws: DrawsOption = 40,
    thin: ThinOption = 6,
    warmup: WarmupOption = 120,
    members: MembersOption = 4,
    step: StepOption = 0.08,
    data_seed: DataOption = 0,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Sweep P up and down with chains carried along: at a first-order transition the two ways differ."""
    model = options.model()
    loop = _sweep(model, sizes, draws, thin, warmup, members, step, data_seed, seed)
    split = loop.split()
    area, error = loop.area()
    means = _means(loop)
    rows = [
        {"P": int(P), "up": up, "down": down, "apart": bool(apart > 0)}
        for P, up, down, apart in zip(loop.data.P.to_numpy(), *means, split.to_numpy(), strict=True)
    ]
    document = {"quantity": loop.order, "area": area, "area_error": error, "points": rows}
    if json:
        print_json({"model": model.describe(), **document})
        return
    print_table(
        f"{loop.order} swept up and down ({in_words(model, 'posterior', varied=['P'])})",
        ["P", "up", "down", "in different wells"],
        [[row["P"], row["up"], row["down"], row["apart"]] for row in rows],
        [f"loop area, the integral of down - up over ln P: {area:.3g} ± {error:.1g}"],
    )


@evidence.command()
@takes_model(without=("P", "estimator"))
def barrier(
    options: ModelOptions,
    sizes: Annotated[
        str | None, typer.Option("-P", "--P", metavar="NUMBER", help="Training sequences. Default: the transition.")
    ] = None,
    windows: Annotated[int, typer.Option("--windows", min=2, help="Umbrella windows.")] = 20,
    draws: DrawsOption = 200,
    warmup: WarmupOption = 60,
    members: MembersOption = 1,
    leaps: Annotated[int, typer.Option("--leaps", min=1, help="Leapfrog steps of each HMC trajectory.")] = 16,
    bins: Annotated[int, typer.Option("--bins", min=4, help="Bins of the free energy.")] = 36,
    data_seed: DataOption = 0,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Measure the free energy along copying by umbrella sampling, and the barrier between its wells.

    Exit status 1 if windows overlap too little, or chains from the two ends disagree in one: it can't be trusted then.
    """
    model = options.model()
    from phasekit.evidence import barrier as find_barrier
    from phasekit.evidence import free_energy, posterior_place, umbrella
    from phasekit.evidence import windows as place_windows
    from phasekit.samplers import HMC

    with working("sampling umbrella windows"):
        if sizes is None:
            P = float(round(posterior_place(model).P))
        else:
            (P,) = _sizes(sizes, least=1, most=1)
        model = model.at(P=P)
        centres, stiffness = place_windows(model, windows)
        method = HMC(step=0.05, leaps=leaps)
        settings: dict[str, Any] = {"draws": draws, "warmup": warmup, "members": members, "data_seed": data_seed}
        found = free_energy(umbrella(model, centres, stiffness, method, seed=seed, **settings), bins)
    wells = find_barrier(found)
    rhat, profile = float(found.rhat.max()), found.profile
    columns = {"a": profile.a.to_numpy(), "F": profile.F.to_numpy(), "error": found.error}
    trusted = rhat <= _RHAT and found.overlap >= _OVERLAP
    if json:
        heights = None if wells is None else vars(wells)
        checks = {"rhat": rhat, "overlap": found.overlap, "trusted": trusted}
        print_json({"model": model.describe(), "barrier": heights, **checks, "free_energy": columns})
    else:
        name = str(profile.attrs["order"])
        notes = [f"largest R-hat of a window {rhat:.3f}, smallest overlap {found.overlap:.2f}"]
        if wells is None:
            notes.insert(0, "one well")
        else:
            notes.insert(0, f"wells at {wells.low:.3g} and {wells.high:.3g}, barrier at {wells.top:.3g}")
            for words, (value, error) in (
                ("barrier above the low well", wells.from_low),
                ("barrier above the high well", wells.from_high),
                ("F of the high well minus F of the low one", wells.difference),
            ):
                notes.insert(-1, f"{words}: {value:.2f} ± {error:.2f}")
        if not trusted:
            notes.append("not to be trusted: draw more, or more windows")
        print_table(
            f"Free energy along {name} ({in_words(model, 'posterior')})",
            [name, "F", "error"],
            zip(*(column.tolist() for column in columns.values()), strict=True),
            notes,
        )
    if not trusted:
        raise typer.Exit(CHECK_FAILED)


@evidence.command()
@takes_model(without=("P", "estimator"))
def susceptibility(
    options: ModelOptions,
    sizes: SizesOption = None,
    draws: DrawsOption = 60,
    thin: ThinOption = 8,
    warmup: WarmupOption = 120,
    members: MembersOption = 6,
    step: StepOption = 0.08,
    data_seed: DataOption = 0,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Measure the variance of the order parameters against P, well by well, beside theory's inverse Hessian.

    Linear attention, whose sign is a symmetry: the second moment.
    Exit status 1 if the chains of some P neither agree nor settled in two wells: it has no variance then.
    """
    model = options.model()
    from phasekit.evidence import susceptibility as measure

    loop = _sweep(model, sizes, draws, thin, warmup, members, step, data_seed, seed)
    rows = []
    for P in loop.data.P.to_numpy():
        found = measure(loop.samples(P), **_BOUNDS).isel(dataset=0)
        theory = _theory(model.at(P=float(P)))
        wells = 2 if str(found.verdict.values) == "coexistence" else 1
        for name in found.quantity.values.tolist():
            for well in range(wells):
                here = found.sel(quantity=name).isel(well=well)
                copying = float(found["mean"].isel(quantity=1, well=well))
                known = None if theory is None else _variance(theory, name, copying)
                row = {"P": int(P), "quantity": name, "verdict": str(found.verdict.values), "well": well}
                rows.append({**row, "variance": float(here.variance), "error": float(here.error), "theory": known})
    if json:
        print_json({"model": model.describe(), "points": rows})
    else:
        print_table(
            f"Variances of the order parameters ({in_words(model, 'posterior', varied=['P'])})",
            list(rows[0]),
            [list(row.values()) for row in rows],
        )
    if any(row["verdict"] == "not mixed" for row in rows):
        raise typer.Exit(CHECK_FAILED)


@evidence.command()
@takes_model(without=("P", "estimator"))
def warning(
    options: ModelOptions,
    sizes: SizesOption = None,
    event: Annotated[
        float | None, typer.Option("--event", help="P of the event; only smaller ones count. Default: the transition.")
    ] = None,
    draws: DrawsOption = 60,
    thin: ThinOption = 8,
    warmup: WarmupOption = 120,
    members: MembersOption = 6,
    step: StepOption = 0.08,
    data_seed: DataOption = 0,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Tell whether growing fluctuations would have announced the transition: variance and lag-1 autocorrelation.

    Each is tested for a trend before the event by Kendall's rank correlation with P; both must have p < 0.05.
    """
    model = options.model()
    from phasekit.evidence import early_warning, posterior_place

    with working("locating the transition"):
        at = posterior_place(model).P if event is None else event
    loop = _sweep(model, sizes, draws, thin, warmup, members, step, data_seed, seed)
    name = "aG" if model.score.normalised else "c1"
    found = early_warning(loop.data[name].isel(dataset=0, drop=True).sel(direction="up"), at)
    trends = {
        key: {"tau": found.tau[key], "p": found.p_value[key], "growth": found.growth[key]} for key in found.tau
    }  # fmt: skip
    indicators = found.indicators.to_dict("records")
    if json:
        document = {"quantity": name, "event": at, "warned": found.warned, "trends": trends, "indicators": indicators}
        print_json({"model": model.describe(), **document})
        return
    columns = ["P", "variance", "variance_error", "lag1", "lag1_error", "before"]
    notes = [f"{key}: tau = {t['tau']:.2f}, p = {t['p']:.2g}, growth {t['growth']:.3g}" for key, t in trends.items()]
    print_table(
        f"Indicators of {name} on the way up ({in_words(model, 'posterior', varied=['P'])})",
        columns,
        [[row[column] for column in columns] for row in indicators],
        [*notes, f"{'a warning' if found.warned else 'no warning'} before P = {at:.6g}"],
    )


def _sweep(
    model: Model,
    sizes: str | None,
    draws: int,
    thin: int,
    warmup: int,
    members: int,
    step: float,
    data_seed: int,
    seed: int,
) -> Loop:
    if not step > 0:
        raise InputError("step", step, "must be a number above 0")
    from phasekit.evidence import posterior_place, sweep, sweep_P
    from phasekit.samplers import Langevin

    with working("sweeping P up and down"):
        P = [int(size) for size in _sizes(sizes, least=2)] if sizes else sweep_P(posterior_place(model))
        settings: dict[str, Any] = {"draws": draws, "thin": thin, "warmup": warmup, "members": members, "seed": seed}
        return sweep(model, P, Langevin(step=step), data_seeds=(data_seed,), **settings)


def _sizes(text: str, least: int, most: int | None = None) -> list[float]:
    """Return data set sizes, whole numbers in ascending order."""
    _, values = parse_axis(f"P={text}")
    found = sorted({float(round(value)) for value in values})
    if found[0] < 1:
        raise InputError("P", text, "must be whole numbers of at least 1")
    if len(found) < least or (most is not None and len(found) > most):
        raise InputError("P", text, "must be one size" if most == 1 else f"must be at least {least} sizes")
    return found


def _means(loop: Loop) -> tuple[list[float], list[float]]:
    """Return the mean of the copy order parameter on both ways (its square's, where the sign is a symmetry)."""
    data = loop.data
    values = data["aG"] if loop.order == "aG" else data["cG"] ** 2
    up, down = (values.sel(direction=way).mean(("dataset", "chain", "draw")).to_numpy() for way in ("up", "down"))
    return up.tolist(), down.tolist()


def _theory(model: Model) -> Minima | None:
    """Return the theory's branches; None where there is no theory of the posterior: samples stand alone then."""
    from phasekit.minima import find_minima

    try:
        return find_minima(model, "posterior")
    except InputError:
        return None


def _variance(theory: Minima, name: str, copying: float) -> float | None:
    """Return the variance of the branch whose copying is nearest to a well's.

    For linear attention that is the second moment, of the lowest branch: samples have both signs.
    """
    if theory.covariance is None or not theory.converged.all():
        return None
    spread, means = theory.covariance[f"{name} {name}"], theory.order_parameters
    if "cG" in means:
        return float(spread[0] + means[name][0] ** 2)
    return float(spread[int(abs(means["aG"] - copying).argmin())])
