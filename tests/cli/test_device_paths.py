import pytest
import torch

from phasekit import cli
from phasekit.cli import device_paths


@pytest.fixture(autouse=True)
def two_paths(monkeypatch):
    """Half of the paths, so that the test is quick; `make gpu-check` runs them all."""
    monkeypatch.setattr(device_paths, "_PATHS", device_paths._PATHS[::3])


@pytest.mark.slow
def test_the_cpu_agrees_with_itself(capsys):
    assert cli.run(["check-device", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "pair counts" in printed
    assert "second moments, softmax: U after training" in printed
    assert "tokens, keys first, linear: energy, gradient, averages" in printed
    assert "DISAGREES" not in printed
    assert ", 0 disagree" in printed


@pytest.mark.slow
def test_a_wrong_device_path_is_caught(capsys, monkeypatch):
    """A float32 product that loses a thousandth, as reduced precision on a GPU would."""
    from phasekit.heads.energy_moments import MomentEnergy

    double = MomentEnergy.__init__

    def sloppy(self, datasets, device, dtype):
        double(self, datasets, device, dtype)
        if dtype == torch.float32:
            self.key_pairs *= 1.001

    monkeypatch.setattr(MomentEnergy, "__init__", sloppy)
    assert cli.run(["check-device", "--device", "cpu"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "DISAGREES" in line]
    assert lines
    assert all(line.startswith("second moments") and "float32" in line for line in lines)


def test_a_nan_disagrees():
    assert not device_paths.Check("x", "float32", float("nan"), 1.0).agrees
    assert device_paths._largest([0.0, float("nan"), 1.0]) != device_paths._largest([0.0, float("nan"), 1.0])


def test_no_gpu_has_its_own_status(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cli.run(["check-device"]) == 3
    assert "nothing was checked" in capsys.readouterr().out


def test_wrong_usage(capsys):
    assert cli.run(["check-device", "--device", "abacus"]) == 2
    assert capsys.readouterr().err.startswith("error: device = 'abacus'")
