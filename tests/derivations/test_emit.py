"""The emitted numeric modules are current, proven, readable and free of SymPy."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from derivations import emit
from derivations.printer import Printer, UnreadableCode
from derivations.programs import softmax_map
from derivations.programs.program import Function, Line
from phasekit.derivations.proof import NotProven, vanishes
from phasekit.derivations.symbols import L, V, c1, cG, t

x, y = sp.symbols("x y")


@pytest.mark.slow
def test_emitted_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert emit.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_check_names_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in emit.FOLDER.glob("*.py"):
        shutil.copy(source, tmp_path)
    monkeypatch.setattr(emit, "FOLDER", tmp_path)
    assert emit.main(["--check"]) == 0
    changed = tmp_path / "softmax_map.py"
    changed.write_text(changed.read_text("utf-8").replace("1 + 2 * y", "1 + y"), "utf-8")
    (tmp_path / "thresholds.py").unlink()
    (tmp_path / "leftover.py").touch()
    assert emit.main(["--check"]) == 1
    complaints = capsys.readouterr().err
    assert all(name in complaints for name in ("softmax_map.py", "thresholds.py", "leftover.py"))
    assert "linear_map.py" not in complaints
    (tmp_path / "leftover.py").unlink()
    assert emit.main([]) == 0
    assert emit.main(["--check"]) == 0


def test_emitted_files_are_formatted() -> None:
    command = [sys.executable, "-m", "ruff", "format", "--check", "--config", "line-length=120", str(emit.FOLDER)]
    assert subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.slow
def test_emitted_modules_need_no_sympy() -> None:
    code = (
        "import sys; from phasekit.theory.action.generated import linear_map, softmax_map, thresholds; "
        "sys.exit('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_a_wrong_numeric_form_is_refused() -> None:
    right = next(function for function in softmax_map.module().functions if function.name == "gradient")
    right.prove()
    wrong = Function(right.name, right.summary, right.arguments, right.lines, (-right.outputs[0],), right.derived)
    with pytest.raises(NotProven, match="gradient"):
        wrong.prove()
    with pytest.raises(NotProven, match="2 derived"):
        Function(right.name, right.summary, right.arguments, right.lines, right.outputs, right.derived * 2).prove()


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ((x + y) ** 3 - (x**3 + 3 * x**2 * y + 3 * x * y**2 + y**3), True),
        ((x + y) ** 3 - (x**3 + 3 * x**2 * y + 3 * x * y**2 - y**3), False),
        (sp.exp(2 * x) / (1 + sp.exp(x)) ** 2 - 1 / (1 + sp.exp(-x)) ** 2, True),
        (sp.exp(2 * x) / (1 + sp.exp(x)) ** 2 - 1 / (1 + sp.exp(-x)), False),
        (sp.sqrt((L - 1) ** 3) - (L - 1) * sp.sqrt(L - 1), True),
        (1 / (V - sp.sqrt(V**2 - 1)) - (V + sp.sqrt(V**2 - 1)), True),
        (1 / (V - sp.sqrt(V**2 - 1)) - (V - sp.sqrt(V**2 - 1)), False),
        (sp.sqrt(V + sp.sqrt(V**2 - 1)) ** 2 - V - sp.sqrt(V**2 - 1), True),
        (sp.log(L * (1 + L / t)) - sp.log(L) - sp.log(t + L) + sp.log(t), True),
        (sp.tan(sp.atan2(2 * V, V**2 - 1) / 2) - 1 / V, True),
        (sp.tan(sp.atan2(2 * V, V**2 - 1) / 2) - V, False),
    ],
)
def test_equality(expression: sp.Expr, verdict: bool) -> None:
    assert vanishes(expression) is verdict


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (x / (2 * y), "x / (2 * y)"),
        (1 - x * y, "1 - x * y"),
        (x - (y + 1), "x - y - 1"),
        (x - 2 * (y + x**2), "x - 2 * x**2 - 2 * y"),
        (x * (1 - y), "x * (1 - y)"),
        (-x, "-x"),
        (x**3 + y**4, "x**2 * x + (y**2) ** 2"),
        (1 / (x + y), "1 / (x + y)"),
        (sp.sqrt(x + y) / sp.sqrt(y), "np.sqrt(x + y) / np.sqrt(y)"),
        ((x + y) ** 2 / y**2, "(x + y) ** 2 / y**2"),
        (sp.exp(-x) * y, "np.exp(-x) * y"),
        (sp.Rational(3, 2) * x, "3 * x / 2"),
        (sp.atan2(x, y) - sp.log(y), "np.arctan2(x, y) - np.log(y)"),
    ],
)
def test_printed_code(expression: sp.Expr, code: str) -> None:
    assert Printer([x, y])(expression) == code
    values = {"x": 1.7, "y": 0.6}
    assert eval(code, {"np": np}, values) == pytest.approx(float(expression.subs(values)), rel=1e-14)


@pytest.mark.parametrize("expression", [x**5, (x + y) ** 3, x ** sp.Rational(1, 3), sp.erf(x), t, -x - y])
def test_unreadable_code_is_refused(expression: sp.Expr) -> None:
    with pytest.raises(UnreadableCode):
        Printer([x, y])(expression)


def test_costly_repetition_is_refused() -> None:
    lines = (Line(x, c1**2 + cG), Line(y, sp.sqrt(c1**2 + cG)))
    function = Function("f", "Return.", (c1, cG), lines, (x + y,), (x + y,))
    with pytest.raises(UnreadableCode, match="common subexpressions"):
        emit.function_source(function)
