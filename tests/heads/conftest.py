import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Small arrays are fastest on one thread, and test workers share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
