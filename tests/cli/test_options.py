"""The model's options: built from the registered scores, and read by the model itself."""

import pytest
import typer
from typer.testing import CliRunner

from phasekit.cli.evidence.options import LoopOptions, takes_loop
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.scores import Softmax, registry


class Sharpened(Softmax):
    """A score with a parameter, for the tests."""

    name = "sharpened"
    sharp_ness: float = 2.0


def read(arguments, **settings):
    """Return what a command receives for some arguments."""
    app = typer.Typer()
    received = []

    @app.command()
    @takes_model(**settings)
    def command(options: ModelOptions, loud: bool = False) -> None:
        received.append((options, loud))

    result = CliRunner().invoke(app, arguments, catch_exceptions=False, standalone_mode=False)
    return received[0] if received else result


def test_numbers_are_read_by_the_model():
    options, loud = read("-V 8 -L 16 -P 2.5e2 --sigma-w 0.5 --kappa 2 --score linear --inputs token+position --loud")
    assert loud
    assert options.estimator == "map"
    assert options.model() == Model(V=8, L=16, P=250, sigma_w=0.5, kappa=2, score="linear", inputs="token+position")


def test_what_is_left_out_has_the_model_s_defaults():
    options, _ = read("-V 8 -L 16")
    assert options.model() == Model(V=8, L=16)


def test_whole_numbers_may_have_an_exponent():
    options, _ = read("-V 1E1 -L 1e3 --score ssa:n=2")
    assert options.model() == Model(V=10, L=1000, score="ssa:n=2")


def test_a_score_s_number_is_given_once():
    options, _ = read("-V 8 -L 16 --score ssa:n=2 --n 3")
    with pytest.raises(InputError, match="gives n, and n = 3 is given beside it"):
        options.model()
    with pytest.raises(InputError, match="gives n, and n = "):
        read("-V 8 -L 16 --score ssa:n=2")[0].model(n=2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        "-V 8.5",
        "-V 1e-1",
        "-L 1e3.5",
        "-V eight",
        "-L 1e400",
        "-P nan",
        "-P -3",
        "--kappa 0",
        "--inputs x",
        "--score x",
    ],
)
def test_a_wrong_value_is_refused_by_the_model(wrong):
    options, _ = read(f"-V 8 -L 16 {wrong}")
    with pytest.raises(InputError, match=wrong.split()[0].strip("-").replace("-", "_")):
        options.model()


def test_an_unknown_estimator_is_refused():
    with pytest.raises(InputError, match="estimator = 'mle': must be one of map, posterior"):
        read("--estimator mle")


def test_an_axis_gives_a_missing_number_but_never_overrides_one():
    options, _ = read("-V 8 -P 100")
    assert options.model(L=4.0) == Model(V=8, L=4, P=100)
    with pytest.raises(InputError, match="V = '8': given as a number and as an axis"):
        options.model(V=4.0)
    with pytest.raises(InputError, match="L = None: missing"):
        options.model()


def test_a_score_s_parameters_are_options_by_their_names(monkeypatch):
    monkeypatch.setitem(registry.SCORES._known, "sharpened", Sharpened)
    options, _ = read("-V 8 -L 16 --score sharpened --sharp-ness 3")
    assert options.model().score == Sharpened(sharp_ness=3.0)
    assert read("-V 8 -L 16 --score sharpened")[0].model().score == Sharpened()
    with pytest.raises(InputError, match="sharp_ness = 'x'"):
        read("-V 8 -L 16 --score sharpened --sharp-ness x")[0].model()


def test_a_parameter_of_another_score_is_refused(monkeypatch):
    monkeypatch.setitem(registry.SCORES._known, "sharpened", Sharpened)
    options, _ = read("-V 8 -L 16 --score linear --sharp-ness 3")
    with pytest.raises(InputError, match="score linear: sharp_ness = '3': unknown"):
        options.model()


def test_help_lists_the_parameters_of_scores(monkeypatch):
    monkeypatch.setitem(registry.SCORES._known, "sharpened", Sharpened)
    help_text = read("--help").output
    assert "--sharp-ness" in help_text
    assert "(default 2.0)" in " ".join(help_text.replace("│", " ").split())


def test_an_option_can_be_left_out():
    with pytest.raises(typer.TyperException, match="-P"):
        read("-V 8 -L 16 -P 3", without=("P",))


def sweep_read(arguments, **defaults):
    """Return what a command that sweeps P receives for some arguments."""
    app = typer.Typer()
    received = []

    @app.command()
    @takes_model(without=("P",))
    @takes_loop(**defaults)
    def command(options: ModelOptions, *, chains: LoopOptions, loud: bool = False) -> None:
        received.append((options, chains, loud))

    CliRunner().invoke(app, arguments, catch_exceptions=False, standalone_mode=False)
    return received[0]


def test_options_of_a_sweep_come_as_one_object():
    defaults = {"draws": 40, "thin": 6, "members": 4}
    options, chains, loud = sweep_read("-V 8 -L 16 --members 3 --step 0.2 --data-seed 5 --loud", **defaults)
    assert options.model() == Model(V=8, L=16)
    assert loud
    assert chains == LoopOptions(draws=40, thin=6, members=3, warmup=120, step=0.2, data_seed=5, seed=0)
    _, chains, loud = sweep_read("--seed 7 --warmup 9 --draws 30", thin=1, members=2, draws=50)
    assert not loud
    assert chains == LoopOptions(draws=30, thin=1, members=2, warmup=9, step=0.08, data_seed=0, seed=7)
