"""Texts from files and streams, and one line for each that can't be read."""

import hashlib
import importlib.machinery
import sys
import types

import pytest

from phasekit.errors import InputError
from phasekit.language.text import FOLDER, Text, digest, documents
from tests.language.texts import sentences, write


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz"])
def test_all_kinds_of_files_give_the_same_documents(tmp_path, name):
    lines = sentences(50)
    assert list(documents(Text(source=str(write(tmp_path, name, lines))))) == lines


def test_documents_are_chosen_by_words_number_and_part(tmp_path):
    path = str(write(tmp_path, "a.txt", ["one", "two words", "", "  three   words  here ", "and four words here"]))
    assert list(documents(Text(source=path))) == ["one", "two words", "three words here", "and four words here"]
    assert list(documents(Text(source=path, least_words=3))) == ["three words here", "and four words here"]
    assert list(documents(Text(source=path, least_words=2, most=2))) == ["two words", "three words here"]
    assert list(documents(Text(source=path, first=0.5))) == ["three words here", "and four words here"]
    parts = [list(documents(Text(source=path, first=a, last=b))) for a, b in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.0))]
    assert [document for part in parts for document in part] == list(documents(Text(source=path)))


def test_names_are_looked_up_in_the_folder_of_texts(tmp_path, monkeypatch):
    write(tmp_path, "a.txt", ["some words"])
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert list(documents(Text(source="a.txt"))) == ["some words"]


def test_a_text_is_known_by_its_bytes(tmp_path):
    path = write(tmp_path, "a.txt", ["some words"])
    whole = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest(Text(source=str(path), sha256=whole[:8])) == whole
    with pytest.raises(InputError, match="its SHA-256 begins with"):
        list(documents(Text(source=str(path), sha256="0" * 8)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"caf\xe9\n", "isn't UTF-8"),
        ("a.txt", b"", "has no document"),
        ("a.txt.gz", b"plain", "can't be read"),
        ("a.jsonl", b'{"text": "one"}\n{"txt": "two"}\n', "line 2 must be a JSON object"),
        ("a.jsonl", b"[1]\n", "line 1 must be a JSON object"),
        (None, b"", "can't be read"),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / (name or "missing.txt")
    if name:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        list(documents(Text(source=str(path))))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "hf:some/name"}, "may never end"),
        ({"source": "hf:some/name", "most": 3, "first": 0.5}, "no known end"),
        ({"source": "a.txt", "first": 0.5, "last": 0.5}, "must be above first"),
        ({"source": "a.txt", "sha256": "xyz"}, "sha256"),
    ],
)
def test_parts_that_do_not_exist_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Text(**fields)


def test_streams_of_datasets_have_the_same_interface(monkeypatch):
    asked = []

    def load_dataset(name, configuration, split, streaming):
        asked.append((name, configuration, split, streaming))
        return ({"text": f"document number {k}", "id": k} for k in range(10**9))

    module = types.SimpleNamespace(
        load_dataset=load_dataset,
        exceptions=types.SimpleNamespace(DatasetsError=RuntimeError),
        __spec__=importlib.machinery.ModuleSpec("datasets", None),
    )
    monkeypatch.setitem(sys.modules, "datasets", module)
    text = Text(source="hf:HuggingFaceFW/fineweb-edu:sample-10BT", most=3)
    assert list(documents(text)) == [f"document number {k}" for k in range(3)]
    assert asked == [("HuggingFaceFW/fineweb-edu", "sample-10BT", "train", True)]
    with pytest.raises(InputError, match="has no such column"):
        list(documents(text.at(column="content")))


def test_a_local_dataset_streams_through_the_real_library(tmp_path):
    pytest.importorskip("datasets")
    write(tmp_path, "a.jsonl", sentences(20))
    text = Text(source=f"hf:{tmp_path}", most=5)
    assert list(documents(text)) == sentences(20)[:5]
