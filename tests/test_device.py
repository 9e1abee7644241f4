"""Where networks run, and on how many threads."""

import pytest
import torch

from phasekit.device import suitable_threads


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("multiplications", "inside"), [(1e6, 1), (1e10, 4)])
def test_little_work_is_done_on_one_thread(multiplications, inside, four_threads):
    """Small heads took seven times longer on all cores of a machine; afterwards everything is as it was."""
    with suitable_threads(torch.device("cpu"), multiplications):
        assert torch.get_num_threads() == inside
    assert torch.get_num_threads() == 4


def test_threads_are_given_back_after_an_error(four_threads):
    with pytest.raises(ZeroDivisionError), suitable_threads(torch.device("cpu"), 1e6):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 4


def test_never_on_more_threads_than_before():
    torch.set_num_threads(1)
    with suitable_threads(torch.device("cpu"), 1e12):
        assert torch.get_num_threads() == 1
