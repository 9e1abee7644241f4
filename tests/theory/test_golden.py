"""Theory's numbers are those that it had before the house was rebuilt (commit 63c3965), for random models.

``python -m benchmarks.golden --against COMMIT`` compares with any commit on this machine, to 1e-12. Here the bound is
wider, because last digits differ between processors and a root of a flat function amplifies them.
"""

import json
import math

import pytest

from benchmarks.golden import KEPT, deviations, numbers_of

RECORDS = json.loads(KEPT.read_text())
#: Every so many models are compared in an ordinary run, all of them in the nightly job.
STEP = 10


def moved(records):
    """The models whose numbers are others, with the place and size of the largest deviation."""
    found = []
    for before in records:
        after = numbers_of(before["model"], before["estimator"])
        size, place = max((size, place) for place, size in [("", 0.0), *deviations(before, after)])
        if size > 1e-8:
            found.append((size, place, before["model"]))
    return found


@pytest.mark.slow
def test_every_tenth_model():
    assert not moved(RECORDS[::STEP])


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # of the flatness of a curve, where it is a kink
def test_all_models():
    assert not moved([record for number, record in enumerate(RECORDS) if number % STEP])


def test_a_changed_number_is_seen():
    before = RECORDS[0]
    after = json.loads(json.dumps(before))
    after["branches"][0]["action"] *= 1 + 1e-7
    assert max(size for _, size in deviations(before, after)) == pytest.approx(1e-7, rel=1e-3)
    after["branches"].pop()
    assert math.inf in [size for _, size in deviations(before, after)]
