"""In-context tasks: what all of them keep to, and each held against a plain way of writing it down."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset
from phasekit.tasks.in_context import NO_SHIFT, TASKS, Shift, build_task
from phasekit.tasks.in_context.base import LAWS

OTHERS = [
    build_task("every", labels="last"),
    build_task("some", labels="last", points=5),
    build_task("linear-functions", noise=0.5),
    build_task("linear-regression", dimension=3, noise=0.2),
    build_task("sparse-regression", dimension=4, nonzero=1, noise=0.3),
]
ALL = [*map(build_task, TASKS.names()), *OTHERS]
SHIFTS = [
    Shift(points=7),
    Shift(x_scale=3.0),
    Shift(coefficient_scale=0.5),
    Shift(law="uniform"),
    Shift(law="zipf"),
    Shift(deviant=-1000.0, place=4),
]


def known(task):
    for shift in (NO_SHIFT, *SHIFTS):
        try:
            task.check(shift)
        except InputError:
            continue
        yield shift


@pytest.fixture(params=ALL, ids=lambda task: "-".join([task.name, *(["noisy"] if getattr(task, "noise", 0) else [])]))
def task(request):
    return request.param


def test_prompts_have_the_shapes_that_a_network_needs(task):
    for shift in known(task):
        prompts = task.draw("test", 0, 0, 6, shift)
        points = shift.points or task.points
        answers = len(prompts.places)
        assert prompts.tokens.shape == (6, task.tokens_in(points), task.inputs)
        assert prompts.x.shape[:2] == (6, points)
        assert prompts.targets.shape == prompts.counts.shape == (6, answers)
        assert 0 <= prompts.places.min() <= prompts.places.max() < prompts.tokens.shape[1]
        assert np.isfinite(prompts.tokens).all()
        assert np.isfinite(prompts.targets).all()
        assert prompts.counts.any(1).all()
        for answer in (task.trivial(prompts), task.optimal(prompts)):
            assert answer.shape == (6, answers, task.outputs)
            assert task.prompt_errors(prompts, answer).shape == (6,)


def test_the_address_decides_what_is_drawn(task):
    one, again = (task.draw("train", 3, 8, 5) for _ in range(2))
    assert (one.tokens == again.tokens).all()
    assert (one.targets == again.targets).all()
    for other in (task.draw("test", 3, 8, 5), task.draw("train", 4, 8, 5), task.draw("train", 3, 9, 5)):
        assert (one.tokens != other.tokens).any()


def test_longer_prompts_begin_like_shorter_ones(task):
    short, long = (task.draw("test", 0, 0, 4, Shift(points=points)) for points in (6, 9))
    if getattr(task, "labels", "each") == "last":
        short, long = np.abs(short.x), np.abs(long.x)
    else:
        short, long = short.tokens, long.tokens
    if getattr(task, "noise", 0):  # its noise is drawn behind all x
        short, long = short[:, ::2], long[:, ::2]
    np.testing.assert_array_equal(long[:, : short.shape[1]], short)


def test_an_answer_sees_nothing_behind_its_place(task):
    """Change all inputs behind the middle: optimal answers up to there stay."""
    if getattr(task, "labels", "each") == "last":
        return
    first, second = task.draw("test", 0, 0, 40), task.draw("test", 0, 1, 40)
    half = task.points // 2
    mixed = {
        name: np.concatenate([getattr(first, name)[:, :half], getattr(second, name)[:, half:]], axis=1)
        for name in ("targets", "x")
    }
    joined = type(first)(first.tokens, first.places, mixed["targets"], first.counts, mixed["x"])
    if task.loss != "cross-entropy":
        before, after = task.optimal(first)[:, :half], task.optimal(joined)[:, :half]
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)


def test_the_optimal_predictor_is_no_worse_than_the_trivial_one(task):
    for shift in known(task):
        prompts = task.draw("test", 1, 0, 300, shift)
        counted = task.counted(prompts)
        trivial = task.errors(prompts, task.trivial(prompts))[counted].mean()
        best = task.errors(prompts, task.optimal(prompts))[counted].mean()
        assert best <= trivial * (1 + 1e-9), shift


def test_shifts_that_mean_nothing_are_one_line(task):
    wrong = [
        Shift(law="cauchy"),
        Shift(deviant=3.0),
        Shift(place=1),
        Shift(deviant=3.0, place=task.points),
        Shift(deviant=3.0, place=5, points=5),
    ]
    if "x_scale" not in task.shifts:
        wrong += [Shift(x_scale=2.0)]
    if "coefficient_scale" not in task.shifts:
        wrong += [Shift(coefficient_scale=2.0)]
    for shift in wrong:
        with pytest.raises(InputError, match=r"^shift\.") as refused:
            task.draw("test", 0, 0, 2, shift)
        assert "\n" not in str(refused.value)


def test_unknown_tasks_and_settings_are_one_line():
    for make in (
        lambda: build_task("none"),
        lambda: build_task("every", points=0),
        lambda: build_task("every", labels="none"),
        lambda: build_task("every-or-some", labels="last"),
        lambda: build_task("every").draw("test", 0, 0, 0),
        lambda: build_task("sparse-regression", dimension=2, nonzero=3).draw("test", 0, 0, 1),
        lambda: Shift(x_scale=0),
    ):
        with pytest.raises(InputError) as refused:
            make()
        assert "\n" not in str(refused.value)


def test_laws_have_mean_0_and_variance_1():
    z = np.random.default_rng(0).standard_normal(200_000)
    for name, law in LAWS.items():
        x = law(z)
        error = np.sqrt(np.var(x**2) / x.size)
        assert abs(x.mean()) < 5 / np.sqrt(x.size), name
        assert abs(x.var() - 1) < 5 * error, name


def test_quantifiers_say_what_python_says():
    for name, holds in (("every", all), ("some", any)):
        prompts = build_task(name).draw("test", 0, 0, 50, Shift(deviant=-70.0, place=6))
        for x, y in zip(prompts.x[..., 0], prompts.targets, strict=True):
            assert list(y) == [1.0 if holds(v > 0 for v in x[: i + 1]) else -1.0 for i in range(len(x))]


def test_always_false_is_wrong_in_a_sixteenth_of_the_prompts_of_every():
    task = build_task("every")
    prompts = task.draw("test", 0, 0, 20_000)
    wrong = task.prompt_errors(prompts, task.trivial(prompts))
    assert abs(wrong.mean() - 1 / 16) < 5 * wrong.std() / np.sqrt(wrong.size)
    assert task.prompt_errors(prompts, task.optimal(prompts)).max() == 0


def test_a_mixture_is_ambiguous_once():
    """Both rules differ first where a label and a sign do; there half of the guesses are wrong, later none is."""
    task = build_task("every-or-some", skip=0)
    prompts = task.draw("test", 0, 0, 4000)
    wrong = task.errors(prompts, task.optimal(prompts))
    assert wrong.sum(1).max() == 1
    assert abs(wrong.sum(1).mean() - 0.5) < 0.05  # nearly every prompt has both signs


def test_one_label_for_all():
    task = build_task("every", labels="last", points=5)
    prompts = task.draw("test", 0, 0, 2000)
    assert prompts.tokens.shape == (2000, 5, 1)
    assert list(prompts.targets[:, 0]) == [1.0 if (x > 0).all() else -1.0 for x in prompts.x[..., 0]]
    assert abs((prompts.targets == 1).mean() - (1 / 2 + 1 / 64)) < 0.01


def test_copy_is_the_task_of_the_theory():
    tokens = draw_dataset(Model(V=5, L=12, P=30, score="linear"), 0).tokens
    targets, counts = build_task("copy", V=5).answers(tokens)
    assert (targets[:, 1:] == tokens[:, :-1]).all()
    assert (targets[:, 0] == tokens[:, -1]).all(), "cyclically, but there is nothing to see it by"
    assert counts[:, 1:].all()
    assert not counts[:, 0].any()


def test_induction_looks_up_what_followed():
    task = build_task("induction", V=4, points=20)
    tokens = np.random.default_rng(0).integers(4, size=(30, 20))
    targets, counts = task.answers(tokens)
    for row, answer, counted in zip(tokens, targets, counts, strict=True):
        for i, token in enumerate(row):
            before = [j for j in range(i) if row[j] == token]
            assert counted[i] == bool(before)
            assert not before or answer[i] == row[before[-1] + 1]


def test_least_squares_finds_a_function_from_as_many_points_as_it_has_coefficients():
    for name, coefficients in (("linear-functions", 2), ("linear-regression", 5)):
        task = build_task(name)
        prompts = task.draw("test", 0, 0, 100, Shift(x_scale=10.0, coefficient_scale=10.0))
        errors = task.errors(prompts, task.optimal(prompts))
        assert errors[:, coefficients:].max() < 1e-9
        assert errors[:, coefficients - 1].mean() > 1


def test_ridge_is_the_mean_of_the_posterior():
    """Held against importance sampling from the prior, which knows nothing of linear algebra."""
    task = build_task("linear-functions", noise=0.7)
    prompts = task.draw("test", 2, 0, 3, Shift(points=5))
    a, c = np.random.default_rng(0).standard_normal((2, 400_000))
    for x, y, found in zip(prompts.x[..., 0], prompts.targets, task.optimal(prompts)[..., 0], strict=True):
        f = a[:, None] * x + c[:, None]
        weight = np.exp(-((f[:, :4] - y[:4]) ** 2).sum(1) / (2 * 0.7**2))
        weight /= weight.sum()
        mean = (weight * f[:, 4]).sum()
        error = np.sqrt((weight**2 * (f[:, 4] - mean) ** 2).sum())
        assert abs(found[4] - mean) < 5 * error


def test_sparse_functions_are_told_by_the_mean_over_supports():
    task = build_task("sparse-regression", dimension=4, nonzero=2, noise=0.7)
    prompts = task.draw("test", 2, 0, 2, Shift(points=6))
    draws = np.random.default_rng(0)
    w = draws.standard_normal((400_000, 4))
    w[draws.random((400_000, 4)).argsort(1).argsort(1) >= 2] = 0
    for x, y, found in zip(prompts.x, prompts.targets, task.optimal(prompts)[..., 0], strict=True):
        f = w @ x.T
        weight = np.exp(-((f[:, :5] - y[:5]) ** 2).sum(1) / (2 * 0.7**2))
        weight /= weight.sum()
        mean = (weight * f[:, 5]).sum()
        assert abs(found[5] - mean) < 5 * np.sqrt((weight**2 * (f[:, 5] - mean) ** 2).sum())
    assert build_task("sparse-regression", dimension=60, nonzero=4).optimal(prompts) is None, "too many supports"


@pytest.mark.parametrize("name", ["network-regression", "tree-regression"])
def test_kernels_are_the_covariance_of_drawn_functions(name, monkeypatch):
    """The predictor is linear in y: its kernel must be what the functions' values really have."""
    from phasekit.tasks.in_context import regression

    task = build_task(name, dimension=3)
    x = np.random.default_rng(1).standard_normal((1, 4, 3))
    values = task.functions(np.random.default_rng(2), 40_000)(np.repeat(x, 40_000, axis=0))
    seen = {}
    monkeypatch.setattr(regression, "kernel_predictions", lambda kernel, y, noise: seen.update(kernel=kernel) or y)
    prompts = task.draw("test", 0, 0, 1, Shift(points=4))
    task.optimal(type(prompts)(prompts.tokens, prompts.places, prompts.targets, prompts.counts, x))
    products = values[:, :, None] * values[:, None, :]
    error = products.std(0) / np.sqrt(len(products))
    assert (abs(products.mean(0) - seen["kernel"][0]) < 5 * error + 1e-12).all()
