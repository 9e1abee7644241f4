"""Comparisons of language models, from made-up results: tables against loops, ratios against resampled documents."""

import numpy as np
import pytest

pytest.importorskip("transformers")

from phasekit import InputError
from phasekit.language.evaluation import Evaluation
from phasekit.language.perplexity import Perplexity
from phasekit.language.subject import LanguageModel
from phasekit.measure.arms import compare_arms, holm
from phasekit.measure.language import AVERAGE, Arm, Experiment, band, compare
from phasekit.runs.procedures.language import LanguageTraining
from phasekit.runs.store.store import Finished

SEEDS = (0, 1, 2, 5)
SIZES = {"short": 30, "long": 90}


def evaluation(draws, bonus, nats):
    """Pairs that are right with some probability, and a text whose losses share the documents' difficulty."""
    pairs = {name: (draws.random(size) < 0.5 + bonus).astype(float) for name, size in SIZES.items()}
    pairs["short"][:2] = 0.5
    tokens = np.array([[1, 4], [1, 9], [1, 2], [1, 0]] * 10)
    losses = tokens * (nats + draws.normal(0, 0.1, tokens.shape))
    return Evaluation({"log_likelihood": pairs}, {"held out": Perplexity(losses, tokens, "document")})


@pytest.fixture
def experiment():
    draws = np.random.default_rng(0)
    arms = {}
    for score, bonus in (("softmax", 0.0), ("ssa", 0.2), ("temperature", 0.0)):
        seeds = SEEDS if score != "ssa" else (*SEEDS, 7)
        watched = {
            seed: {"watched_at": np.array([0, 10]), "watched_loss": np.array([5.0, 4 - bonus + 0.1 * seed], np.float32)}
            for seed in seeds
        }
        arm = Arm(
            LanguageModel(corpus={"text": "text.txt"}, score=score),
            {seed: Finished({}, {}, watched[seed], {}) for seed in seeds},
            {seed: evaluation(draws, 2 * bonus, 4 - bonus) for seed in seeds},
        )
        arms[arm.label] = arm
    return Experiment(LanguageModel(corpus={"text": "text.txt"}), LanguageTraining(steps=10), arms)


def test_tables_hold_every_result_once(experiment):
    assert experiment.seeds == list(SEEDS)
    tests = experiment.pairs("log_likelihood")
    assert list(tests) == [AVERAGE, "short", "long"]
    for name, size in SIZES.items():
        for label, found in tests[name].items():
            assert found.shape == (len(SEEDS), size)
            for row, seed in zip(found, SEEDS, strict=True):
                one = experiment.arms[label].examined[seed]
                np.testing.assert_array_equal(row, one.pairs["log_likelihood"][name])
    for label, found in tests[AVERAGE].items():
        means = [[tests[name][label][k].mean() for name in SIZES] for k in range(len(SEEDS))]
        np.testing.assert_allclose(found.mean(axis=1), np.mean(means, axis=1))
    assert experiment.ties("log_likelihood", "short", "ssa") == 2 * len(SEEDS)
    assert experiment.ties("log_likelihood", AVERAGE, "ssa") == 2 * len(SEEDS)
    assert experiment.ties("log_likelihood", "long", "ssa") == 0


def test_losses_of_documents_add_up_to_that_of_a_token(experiment):
    for label, found in experiment.texts()["held out"].items():
        for row, seed in zip(found, SEEDS, strict=True):
            text = experiment.arms[label].examined[seed].texts["held out"]
            assert row.mean() == pytest.approx(text.loss)
    # the scatter of rows' means over drawn documents is that of the ratio
    draws = np.random.default_rng(1)
    chosen = draws.integers(40, size=(20_000, 40))
    nats, tokens = text.nats.sum(1), text.tokens.sum(1)
    ratios = nats[chosen].sum(1) / tokens[chosen].sum(1)
    assert row[chosen].mean(1).std() == pytest.approx(ratios.std(), rel=0.05)


def test_the_table_is_what_its_parts_say(experiment):
    table = compare(experiment)
    assert len(table) == 3 * (1 + 2 + 1)
    found = table.set_index(["way", "test", "arm"])
    pairs = experiment.pairs("log_likelihood")
    for test in ("short", "long", AVERAGE):
        row = found.loc["log_likelihood", test, "ssa"]
        (own,) = compare_arms({"softmax": pairs[test]["softmax"], "ssa": pairs[test]["ssa"]}, "softmax", None)
        assert row["difference"] == pytest.approx(pairs[test]["ssa"].mean() - pairs[test]["softmax"].mean())
        assert (row["difference_low"], row["difference_high"]) == pytest.approx(own.mean.interval)
        assert row["p"] == pytest.approx(own.p)
        assert row["value"] == pytest.approx(pairs[test]["ssa"].mean())
        assert row["low"] < row["value"] < row["high"]
    family = table[(table["way"] != "") & (table["test"] != AVERAGE) & (table["arm"] != "softmax")]
    np.testing.assert_allclose(family["corrected"], holm(family["p"]))
    assert found.loc["log_likelihood", AVERAGE, "ssa"]["verdict"] == "higher"
    assert found.loc["", "held out", "ssa"]["verdict"] == "lower"
    assert found.loc["", "held out", "ssa"]["difference"] == pytest.approx(-0.2, abs=0.03)
    assert found.loc["", "held out", "softmax"]["verdict"] == "reference"
    assert (table["seeds"] == len(SEEDS)).all()
    turned = compare(experiment, "ssa").set_index(["way", "test", "arm"])
    assert turned.loc["", "held out", "softmax"]["difference"] == pytest.approx(0.2, abs=0.03)


def test_curves_and_their_band(experiment):
    steps, values = experiment.arms["ssa"].curve("loss")
    assert steps.tolist() == [0, 10]
    assert values.shape == (len(SEEDS) + 1, 2)
    mean, low, high = band(values)
    assert mean[1] == pytest.approx(values[:, 1].mean())
    reach = 2.776 * values[:, 1].std(ddof=1) / np.sqrt(5)  # Student's, 4 degrees of freedom
    assert (mean[1] - low[1], high[1] - mean[1]) == pytest.approx((reach, reach), rel=1e-3)
    assert np.isnan(band(values[:1])[1]).all()
    with pytest.raises(InputError, match="entropy"):
        experiment.arms["ssa"].curve("entropy")


def test_labels_tell_how_numbers_are_learned():
    def label(**fields):
        return Arm(LanguageModel(corpus={"text": "text.txt"}, **fields)).label

    assert label(score="softmax") == label(score="softmax", learned="no") == "softmax"
    assert label(score="ssa") == "ssa"
    assert label(score="ssa", learned="layer") == "ssa (one for a layer)"
    assert label(score="ssa:n=2:b=1", learned="no") == "ssa (n = 2, b = 1)"


def test_mistakes_are_one_line(experiment):
    arms = experiment.arms
    lacking = {**arms, "ssa": Arm(arms["ssa"].subject, {9: arms["ssa"].found[0]}, {9: arms["ssa"].examined[0]})}
    shorter = Evaluation({"log_likelihood": {"short": np.ones(3), "long": np.ones(90)}}, {})
    unlike = {**arms, "ssa": Arm(arms["ssa"].subject, arms["ssa"].found, {**arms["ssa"].examined, 0: shorter})}
    single = {name: Arm(arm.subject, {0: arm.found[0]}, {0: arm.examined[0]}) for name, arm in arms.items()}

    def of(arms):
        return Experiment(experiment.common, experiment.procedure, arms)

    for make, words in (
        (lambda: compare(experiment, "cosformer"), "reference = 'cosformer': must be one of softmax, ssa, temperature"),
        (lambda: compare(of({"ssa": arms["ssa"]})), "must be at least 2; there is ssa"),
        (lambda: compare(of(lacking)), "no seed is finished in all arms"),
        (lambda: compare(of(unlike)), "weren't examined on the same texts and pairs"),
        (lambda: compare(of(single)), "one seed tells nothing about seeds"),
    ):
        with pytest.raises(InputError) as refused:
            make()
        assert words in str(refused.value)
