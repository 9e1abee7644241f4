"""The command that trains one transformer."""

import json

import pytest

SMALL = ["--architecture", "one-layer:width=8", "--steps", "12", "--batch", "4", "--prompts", "8"]


def test_it_trains_and_tests(phasekit):
    ended = phasekit("icl", "every", "--score", "ssa:n=2", *SMALL, "--shift", "deviant=-1000:place=3", "--json")
    assert ended.status == 0
    found = json.loads(ended.out)
    assert found["subject"]["score"] == {"name": "ssa", "n": 2.0, "b": 0.8}
    assert found["tests"][-1]["deviant"] == -1000
    assert found["tests"][0]["optimal"] == 0
    assert set(found["learned"]) == {"blocks.0.attention.score.score_parameters"}
    ended = phasekit("icl", "linear-functions:points=5", *SMALL, "--tests", "none")
    assert ended.status == 0
    assert "trivial" in ended.out


def test_a_checkpoint_of_another_configuration_is_one_line_and_stays(phasekit, tmp_path):
    file = tmp_path / "state.npz"
    from phasekit.transformers import InContext, Training, train_in_context

    def stop(save):
        save()
        raise KeyboardInterrupt

    subject = InContext(task="every", architecture="one-layer:width=8")
    with pytest.raises(KeyboardInterrupt):
        train_in_context(subject, Training(steps=12, batch=4), checkpoint=file, pause=stop)
    before = file.read_bytes()
    ended = phasekit("icl", "every", *SMALL, "--score", "ssa", "--checkpoint", str(file))
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "belongs to a run with other subject" in ended.err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nothing"], "task = 'nothing': unknown"),
        (["every", "--shift", "colour=3"], "colour = '3': unknown; fields are points"),
        (["every", "--shift", "deviant=1000:place=11"], "shift.place = 11: must be below 11"),
        (["every", "--shift", "coefficient_scale=3"], "shift.coefficient_scale = 3.0: every can be shifted in"),
        (["every", "--shift", "points=300"], "points = 300: make 599 tokens, but there are 512 learned positions"),
        (["every", "--tests", "many"], "tests = 'many': must be one of"),
        (["every", "--architecture", "huge"], "architecture = 'huge': must be one of"),
        (["every", "--steps", "0"], "steps = 0: must be a whole number of at least 1"),
        (["every", "--checkpoint", "state.txt"], "its name must end in .npz"),
        (["every-or-some:labels=last"], "labels = 'last': must be each"),
    ],
)
def test_mistakes_are_one_line(phasekit, words, line):
    ended = phasekit("icl", *words)
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert line in ended.err
