"""lm-eval runs tasks on models that carry their score, and reports what our own scores report."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("lm_eval")

from phasekit import InputError
from phasekit.language.harness import _carried, run_tasks
from phasekit.language.likelihood import log_likelihood
from phasekit.language.pairs import Paradigm, score_pairs
from tests.language.conftest import PAIRS, SENTENCES

PAIRS_TASK = """
task: made_up_pairs
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: ""
doc_to_target: 0
doc_to_choice: "{{{{[sentence_good, sentence_bad]}}}}"
num_fewshot: 0
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 2.0}}
"""
QUESTIONS_TASK = """
task: made_up_questions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
fewshot_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: 0
doc_to_choice: "{{{{[right, wrong]}}}}"
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""
QUESTIONS = [
    ("the dogs near the door", "sleep .", "sleeps ."),
    ("does the dog", "bark ?", "barks ?"),
    ("why do", "the cats sleep ?", "the cat sleeps ?"),
]


@pytest.fixture(autouse=True)
def quick_and_apart(tmp_path_factory, monkeypatch):
    import datasets.config

    folder = tmp_path_factory.mktemp("datasets")
    for name in ("HF_DATASETS_CACHE", "DOWNLOADED_DATASETS_PATH"):
        monkeypatch.setattr(datasets.config, name, folder)
    datasets.disable_progress_bars()
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)  # seconds of `pip list` for each run


@pytest.fixture
def pairs_task(tmp_path):
    return written(tmp_path, PAIRS_TASK, [{"sentence_good": good, "sentence_bad": bad} for bad, good in PAIRS])


def written(folder, task, entries):
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, entries)), "utf-8")
    (folder / "task.yaml").write_text(task.format(data=folder / "data.jsonl"), "utf-8")
    return folder / "task.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("score", ["sdpa", "ssa"])
@pytest.mark.parametrize("family", ["nemotron", "gpt2"])
def test_pairs_as_our_own_scorer_judges_them(build, tokenizer, pairs_task, family, score):
    model = build(family, score)
    (found,) = run_tasks(model, tokenizer, [pairs_task], batch=4)
    paradigm = Paradigm("pairs", tuple(good for _, good in PAIRS), tuple(bad for bad, _ in PAIRS))
    own = score_pairs(lambda sentences: log_likelihood(model, tokenizer, sentences), paradigm)
    np.testing.assert_array_equal(found.right["acc"], own)
    assert 0 < own.mean() < 1
    assert found.metrics["acc"] == pytest.approx(own.mean())
    assert found.metrics["acc_stderr"] == pytest.approx(own.std(ddof=1) / np.sqrt(len(own)))
    assert (found.task, found.version, found.shots, found.items) == ("made_up_pairs", "2.0", 0, len(PAIRS))
    assert found.length == 48
    assert model.training
    assert run_tasks(model, tokenizer, [pairs_task], most=2)[0].items == 2


@pytest.mark.slow
@pytest.mark.parametrize("score", ["sdpa", "ssa"])
def test_its_log_likelihoods_are_ours(build, tokenizer, score):
    from lm_eval.api.instance import Instance

    model = build("nemotron", score)
    wrapper = _carried(model, tokenizer, 3, None)
    ours = log_likelihood(model, tokenizer, SENTENCES)

    def asked(kind, arguments):
        requests = [Instance(kind, {}, given, 0) for given in arguments]
        return getattr(wrapper, kind)(requests)

    alone = [value for value, _ in asked("loglikelihood", [("", sentence) for sentence in SENTENCES])]
    np.testing.assert_allclose(alone, ours, rtol=1e-6)  # the harness sums in float32
    np.testing.assert_allclose(asked("loglikelihood_rolling", [(s,) for s in SENTENCES]), ours, rtol=1e-6)
    # of an answer behind a question: ours of both less ours of the question
    split = [sentence.partition(" ") for sentence in SENTENCES]
    heads = log_likelihood(model, tokenizer, [head for head, _, _ in split])
    answers = [value for value, _ in asked("loglikelihood", [(head, f" {rest}") for head, _, rest in split])]
    np.testing.assert_allclose(answers, ours - heads, rtol=1e-5)


@pytest.mark.slow
def test_what_it_generates_is_what_the_model_generates(build, tokenizer):
    from lm_eval.api.instance import Instance

    model = build("nemotron").eval()
    prompt = "the dogs near"
    tokens = [tokenizer.bos_token_id, *tokenizer(prompt, add_special_tokens=False)["input_ids"]]
    ours = model.generate(torch.tensor([tokens]), max_new_tokens=6, do_sample=False, eos_token_id=None)
    settings = {"until": ["§"], "max_gen_toks": 6, "do_sample": False, "eos_token_id": None}
    (found,) = _carried(model, tokenizer, 1, None).generate_until(
        [Instance("generate_until", {}, (prompt, settings), 0)]
    )
    assert found == tokenizer.decode(ours[0, len(tokens) :], skip_special_tokens=True)


@pytest.mark.slow
def test_shots_and_context_are_told(build, tokenizer, tmp_path):
    entries = [dict(zip(("question", "right", "wrong"), entry, strict=True)) for entry in QUESTIONS]
    task = written(tmp_path, QUESTIONS_TASK, entries)
    model = build("nemotron")
    (none,), (one,) = run_tasks(model, tokenizer, [task]), run_tasks(model, tokenizer, [task], shots=1, length=40)
    assert (none.shots, one.shots, one.length) == (0, 1, 40)
    own = []
    for question, right, wrong in QUESTIONS:
        good, bad = log_likelihood(model, tokenizer, [f"{question} {right}", f"{question} {wrong}"])
        own.append(float(good > bad))
    np.testing.assert_array_equal(none.right["acc"], own)


@pytest.mark.slow
def test_mistakes_are_one_line(build, tokenizer, tmp_path, pairs_task):
    decoder, encoder = build("nemotron"), build("roberta")
    (tmp_path / "wrong.yaml").write_text(PAIRS_TASK.format(data=tmp_path / "nowhere.jsonl"), "utf-8")
    for make, words in (
        (lambda: run_tasks(encoder, tokenizer, [pairs_task]), "an encoder can't say"),
        (lambda: run_tasks(decoder, tokenizer, []), "at least one entry"),
        (lambda: run_tasks(decoder, tokenizer, [tmp_path / "none.yaml"]), "no such file"),
        (lambda: run_tasks(decoder, tokenizer, ["no_such_task_at_all"]), "no_such_task_at_all"),
        (lambda: run_tasks(decoder, tokenizer, [tmp_path / "wrong.yaml"]), "nowhere.jsonl"),
    ):
        with pytest.raises(InputError) as refused:
            make()
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)
