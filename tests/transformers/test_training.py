"""The training loop: matched arms, a plain PyTorch loop beside it, checkpoints, and what stops it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from phasekit.errors import InputError
from phasekit.tasks.in_context import build_task
from phasekit.transformers import Architecture, Curriculum, Diverged, InContext, Training, train, train_in_context
from tests.transformers.plain import Plain

ROOT = Path(__file__).resolve().parents[2]
TINY = Architecture(layers=2, heads=2, width=8)


class Stop(Exception):
    """Stands for whatever ends a run."""


def stopping_after(pauses):
    """Return a pause that saves every time, and stops the run after so many."""
    seen = []

    def pause(save):
        save()
        seen.append(1)
        if len(seen) == pauses:
            raise Stop

    return pause


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "tolerance"), [pytest.param("float32", 1e-5, marks=pytest.mark.nightly), ("float64", 1e-10)]
)
def test_the_softmax_arm_is_a_plain_transformer_after_a_hundred_steps(precision, tolerance):
    """Same weights at the start, same batches, torch's own attention, Adam and clipping: same network."""
    task = build_task("linear-functions")
    settings = Training(steps=100, batch=16, precision=precision, rate=3e-4)
    subject = InContext(task=task)
    plain = Plain(1, 1).to(settings.dtype).take(subject.build(5).to(settings.dtype))
    model, history = train_in_context(subject, settings, seed=5)
    adam = torch.optim.Adam(plain.parameters(), lr=1.0)
    losses = []
    for step in range(100):
        prompts = task.draw("train", 5, step, 16)
        found = plain(torch.from_numpy(prompts.tokens).to(settings.dtype))[:, ::2, 0]
        loss = functional.mse_loss(found, torch.from_numpy(prompts.targets).to(settings.dtype))
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        adam.param_groups[0]["lr"] = 3e-4 * 0.5 * (1 + np.cos(np.pi * step / 100))
        adam.step()
        losses.append(loss.item())
    prompts = torch.from_numpy(task.draw("test", 0, 0, 64).tokens).to(settings.dtype)
    with torch.no_grad():
        assert float((model(prompts) - plain(prompts)).abs().max()) < tolerance
    np.testing.assert_allclose(history.loss, losses, rtol=1e-4)


def test_arms_see_the_same_batches(monkeypatch):
    from phasekit.transformers import in_context

    seen = []
    real = in_context.answers_of
    monkeypatch.setattr(in_context, "answers_of", lambda m, prompts: seen[-1].append(prompts) or real(m, prompts))
    for score in ("softmax", "ssa"):
        seen.append([])
        train_in_context(InContext(task="every", architecture=TINY, score=score), Training(steps=3, batch=4), seed=2)
    softmax, ssa = seen
    assert len(softmax) == len(ssa) == 3
    assert all((one.tokens == other.tokens).all() for one, other in zip(softmax, ssa, strict=True))


@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_a_run_that_was_stopped_goes_on_to_the_last_bit(score, tmp_path):
    subject = InContext(task="every", architecture=TINY, score=score)
    settings = Training(steps=45, batch=4, weight_decay=0.1)
    growth = Curriculum(first=3, by=2, every=10)
    known = {"seed": 1, "curriculum": growth, "watch_every": 7}
    model, history = train_in_context(subject, settings, **known)
    file = tmp_path / "state.npz"
    for pauses in (1, 2):
        with pytest.raises(Stop):
            train_in_context(subject, settings, **known, checkpoint=file, pause=stopping_after(pauses))
    again, resumed = train_in_context(subject, settings, **known, checkpoint=file)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    for name in ("loss", "gradient_norm", "watched_at"):
        np.testing.assert_array_equal(getattr(history, name), getattr(resumed, name))
    assert list(history.watched_at) == [0, 7, 14, 21, 28, 35, 42, 45]
    for name, values in history.watched.items():
        np.testing.assert_array_equal(values, resumed.watched[name])


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_last_bit(tmp_path):
    script = f"""
import os, signal
from phasekit.transformers import InContext, Training, train_in_context
from pathlib import Path
count = []
def pause(save):
    save()
    count.append(1)
    if len(count) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
subject = InContext(task="linear-functions", score="ssa")
file = Path({str(tmp_path / "s.npz")!r})
train_in_context(subject, Training(steps=30, batch=4), seed=3, checkpoint=file, pause=pause)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    subject, settings = InContext(task="linear-functions", score="ssa"), Training(steps=30, batch=4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        resumed, _ = train_in_context(subject, settings, seed=3, checkpoint=tmp_path / "s.npz")
        whole, _ = train_in_context(subject, settings, seed=3)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))


def test_a_checkpoint_of_something_else_is_refused_in_one_line(tmp_path):
    file = tmp_path / "state.npz"
    subject = InContext(task="every", architecture=TINY)
    settings = Training(steps=25, batch=2)
    with pytest.raises(Stop):
        train_in_context(subject, settings, checkpoint=file, pause=stopping_after(1))
    before = file.read_bytes()
    for other, plan, seed in (
        (subject.at(score="ssa"), settings, 0),
        (subject, settings.at(steps=50), 0),
        (subject, settings, 1),
    ):
        with pytest.raises(InputError, match=r"^checkpoint = .*belongs to a run with other") as refused:
            train_in_context(other, plan, seed=seed, checkpoint=file)
        assert "\n" not in str(refused.value)
    assert file.read_bytes() == before, "nothing is lost"


def test_a_loss_that_is_no_number_stops_with_step_and_seed():
    subject = InContext(task="linear-functions", architecture=TINY)
    model = subject.build()

    def loss(network, number):
        value = network(torch.ones(1, 1, 1)).sum()
        return value * float("nan") if number == 13 else value

    with pytest.raises(Diverged, match=r"the loss is nan at step 13 \(seed 8\)"):
        train(model, loss, Training(steps=30), seed=8, run={})


def test_mixed_precision_keeps_weights_in_float32():
    subject = InContext(task="every", architecture=TINY, score="ssa")
    model, history = train_in_context(subject, Training(steps=5, batch=4, precision="bfloat16"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert np.isfinite(history.loss).all()
    whole, _ = train_in_context(subject, Training(steps=5, batch=4))
    assert not torch.equal(model.read_in.weight, whole.read_in.weight)
    np.testing.assert_allclose(model.read_in.weight.detach(), whole.read_in.weight.detach(), atol=0.02)


def test_accumulated_batches_are_one_batch():
    """Two halves with averaged gradients are the whole, for a loss that is a mean over examples of one size."""
    tokens = torch.randn(6, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def found(accumulate):
        model = InContext(task="linear-functions", architecture=TINY).build().double()
        parts = tokens.chunk(accumulate)
        train(
            model,
            lambda network, number: network(parts[number % accumulate]).square().mean(),
            Training(steps=4, accumulate=accumulate, precision="float64"),
            seed=0,
            run={},
        )
        return model.read_in.weight.detach()

    torch.testing.assert_close(found(2), found(1), rtol=0, atol=1e-9)


def test_the_rate_follows_its_plan():
    plan = Training(steps=100, rate=1.0, warmup=10, final_rate=0.1)
    assert [round(plan.rate_at(step), 3) for step in (0, 9, 10, 55, 99)] == [0.091, 0.909, 1.0, 0.55, 0.1]
    assert plan.at(decay="linear").rate_at(55) == pytest.approx(0.55)
    assert plan.at(decay="constant").rate_at(99) == 1.0


def test_a_curriculum_grows():
    growth = Curriculum(first=11, by=2, every=2000)
    assert [growth.points_at(step, 41) for step in (0, 1999, 2000, 10**6)] == [11, 11, 13, 41]
    assert Curriculum().points_at(0, 41) == 41


def test_scores_learn_without_decay():
    subject = InContext(task="copy", architecture=TINY, score="ssa")
    start = subject.build().attentions[0].score.parameter_values()["n"].detach()
    model, _ = train_in_context(subject, Training(steps=20, batch=4, weight_decay=0.0))
    learned = model.attentions[0].score.parameter_values()["n"].detach()
    assert not torch.equal(learned, start)
    fixed, _ = train_in_context(subject.at(learned="no"), Training(steps=2, batch=4))
    assert fixed.attentions[0].score.score_parameters is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "steps", "below"), [("every", 60, 0.05), ("copy", 100, 0.05), ("linear-functions", 100, 1.5)]
)
def test_small_networks_learn(task, steps, below):
    """The error of somebody who learned nothing is 0.06, 0.88 and 2."""
    subject = InContext(task=task)
    _, history = train_in_context(subject, Training(steps=steps, batch=32, rate=2e-3), watch_every=steps)
    assert history.watched["answer_error"][-1] < below
