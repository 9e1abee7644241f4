"""Minimal pairs: which of two sentences does a model find more probable, the grammatical one?

Files are Zorro's (lines two by two, the first ungrammatical, the second grammatical; https://github.com/phueb/Zorro) or
BLiMP's (a JSON object a line with ``sentence_good`` and ``sentence_bad``; arXiv:1912.00582). A file is a paradigm.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.language.likelihood import Scorer

#: What the names of paradigm files end in.
SUFFIXES = (".txt", ".jsonl")
RIGHT, TIE, WRONG = 1.0, 0.5, 0.0


@dataclass(frozen=True)
class Paradigm:
    """Pairs that test one rule of grammar.

    Attributes
    ----------
    name : str
    good, bad : tuples of str, of one length
    """

    name: str
    good: tuple[str, ...]
    bad: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.good)


def read_paradigms(
    place: str | Path, names: Sequence[str] | None = None, most: int | None = None
) -> tuple[Paradigm, ...]:
    """Read a file of pairs, or all of a folder, sorted by name.

    Parameters
    ----------
    place : path
    names : sequence of str, optional
        Only these of a folder.
    most : int, optional
        Pairs of each paradigm at most: those that come first. None: all.

    Raises
    ------
    InputError
        For a file that is missing, no text in UTF-8, empty, or not in pairs; a name of which there is no file.
    """
    if most is not None:
        whole_number("pairs", most, 1)
    folder = Path(place)
    if folder.is_file():
        return (read_paradigm(folder, most),)
    if not folder.is_dir():
        raise InputError("paradigms", str(place), "no such file or folder")
    files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES}
    if not files:
        raise InputError("paradigms", str(place), f"has no files that end in {' or '.join(SUFFIXES)}")
    for name in names or ():
        if name not in files:
            raise InputError("paradigm", name, f"{place} has no file of that name; it has {', '.join(files)}")
    return tuple(read_paradigm(files[name], most) for name in (files if names is None else names))


def read_paradigm(file: Path, most: int | None = None) -> Paradigm:
    """Read one file of pairs.

    Raises
    ------
    InputError
        As :func:`read_paradigms`.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError("paradigm", str(file), f"isn't UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise InputError("paradigm", str(file), f"can't be read ({error.strerror})") from None
    if not lines:
        raise InputError("paradigm", str(file), "is empty")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise InputError("paradigm", str(file), f"line {number} is empty")
    good, bad = (_from_json if file.suffix == ".jsonl" else _from_lines)(file, lines)
    return Paradigm(file.stem, tuple(good[:most]), tuple(bad[:most]))


def _from_lines(file: Path, lines: list[str]) -> tuple[list[str], list[str]]:
    if len(lines) % 2:
        raise InputError("paradigm", str(file), f"has {len(lines)} lines; two make a pair")
    found = [line.strip() for line in lines]
    return found[1::2], found[::2]


def _from_json(file: Path, lines: list[str]) -> tuple[list[str], list[str]]:
    good, bad = [], []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            pair = entry["sentence_good"], entry["sentence_bad"]
        except (ValueError, KeyError, TypeError):
            pair = None, None
        if not all(isinstance(sentence, str) and sentence.strip() for sentence in pair):
            raise InputError("paradigm", str(file), f"line {number} must have sentence_good and sentence_bad")
        good.append(pair[0])
        bad.append(pair[1])
    return good, bad


def score_pairs(scorer: Scorer, paradigm: Paradigm) -> NDArray[np.float64]:
    """Return 1 for each pair whose grammatical sentence has the higher score, ½ for a tie, 0 for the others.

    Parameters
    ----------
    scorer : callable
        One of :func:`phasekit.language.likelihood.scorers`.
    paradigm : Paradigm

    Returns
    -------
    array, shape (pairs,)
    """
    scores = scorer([*paradigm.good, *paradigm.bad])
    good, bad = scores[: len(paradigm)], scores[len(paradigm) :]
    return np.where(good > bad, RIGHT, np.where(good == bad, TIE, WRONG))
