"""The set-up: the pins agree with each other, and importing phasekit costs nothing that isn't used."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = {
    canonicalize_name(Requirement(text).name): Requirement(text)
    for text in [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
}


def pins(lines: list[str]) -> dict[str, str]:
    """Read lines ``name==version``; a name may appear once only."""
    found = [re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)", line) for line in lines]
    names = [canonicalize_name(match[1]) for match in found if match]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    assert len(set(names)) == len(names)
    return {name: match[2] for name, match in zip(names, found, strict=True) if match}


def imports(path: Path) -> set[str]:
    """Return the top-level packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).partition(".")[0])
    return found


def pins_of(requirements: list[str]) -> set[str]:
    """The names of the packages that requirements ask for."""
    return {canonicalize_name(Requirement(text).name) for text in requirements}


@pytest.fixture(scope="module")
def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return pins([line for line in lines if line and not line.startswith("#")])


@pytest.fixture(scope="module", params=["environment.yml", "environment-dev.yml"])
def environment(request) -> dict[str, list[str]]:
    """The conda packages and the pip lines of an environment file."""
    text = (ROOT / request.param).read_text()
    conda = re.findall(r"^  - ([^:\n]+)$", text, flags=re.MULTILINE)
    return {"file": request.param, "conda": conda, "pip": re.findall(r"^      - (.+)$", text, flags=re.MULTILINE)}


def test_every_direct_requirement_is_pinned_and_the_pin_allowed(constraints):
    assert DIRECT.keys() <= constraints.keys()
    for name, requirement in DIRECT.items():
        assert requirement.specifier.contains(constraints[name]), (name, requirement, constraints[name])


@pytest.mark.slow
def test_every_imported_package_is_a_direct_requirement():
    own = {"phasekit", "derivations", "figures", "benchmarks", "tests", "sitecustomize"}  # the last: seeds of tests
    files = [path for folder in [*own, ".ci"] for path in (ROOT / folder).rglob("*.py")]
    imported = set().union(*(imports(path) for path in files)) - own - sys.stdlib_module_names
    provides = metadata.packages_distributions()
    missing = {name for name in imported if not {canonicalize_name(d) for d in provides.get(name, [])} & DIRECT.keys()}
    assert len(files) > 20
    assert not missing


def test_pins_reach_everything_that_the_packages_require(constraints):
    # What a CUDA build of torch brings along differs from build to build, and torch pins it itself.
    cuda = re.compile("nvidia-|cuda-|triton")
    for name in constraints:
        for text in metadata.requires(name) or []:
            child = Requirement(text)
            applies = child.marker is None or child.marker.evaluate({"extra": ""})
            if applies and not (name == "torch" and cuda.match(child.name)):
                assert canonicalize_name(child.name) in constraints, f"{name} requires {child.name}"
                assert child.specifier.contains(constraints[canonicalize_name(child.name)]), f"{name} requires {child}"


def test_torch_is_pinned_exactly_and_without_a_build_label(constraints):
    assert constraints["torch"] == "2.13.0"
    assert not [version for version in constraints.values() if "+" in version]


def test_environment_holds_the_same_pins(constraints, environment):
    listed = pins([line for line in environment["pip"] if not line.startswith("--")])
    users = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["networks"]]
    wanted = pins_of(users) if environment["file"] == "environment.yml" else DIRECT.keys()
    assert listed == {name: constraints[name] for name in wanted}
    assert "--constraint constraints.txt" in environment["pip"]
    assert environment["pip"][-1] == "--editable ."


def test_environment_asks_for_a_python_that_the_project_allows(environment):
    python = next(Requirement(line) for line in environment["conda"] if line.startswith("python"))
    required = Requirement(f"python{PROJECT['requires-python']}").specifier
    for version in ("3.11", "3.12", "3.13"):
        assert python.specifier.contains(version)
        assert required.contains(version)
    assert not python.specifier.contains("3.10")
    assert not required.contains("3.10")


def test_no_file_of_the_setup_names_a_package_index():
    for name in ("pyproject.toml", "constraints.txt", "environment.yml", "Makefile", ".ci/run"):
        text = (ROOT / name).read_text().replace("https://arxiv.org/", "")  # the papers
        assert not re.search(r"index-url|find-links|https?://", text), name


def test_versions_installed_here_are_the_pinned_ones(constraints):
    installed = {name: metadata.version(name).partition("+")[0] for name in constraints}
    assert installed == constraints


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import phasekit", {"numpy", "scipy", "sympy", "torch", "matplotlib", "xarray", "pydantic"}),
        ("import phasekit; phasekit.Model(V=8, L=16, P=256.0)", {"scipy", "sympy", "torch", "matplotlib", "xarray"}),
        ("import phasekit.cli.app", {"scipy", "sympy", "torch", "matplotlib", "xarray", "pandas"}),
        ("from phasekit.theory.minima import find_minima", {"sympy", "torch", "matplotlib"}),
    ],
)
def test_imports_bring_only_what_they_need(statement, forbidden):
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not forbidden & set(json.loads(result.stdout))


def test_the_conda_recipe_asks_for_what_the_project_does():
    import yaml

    recipe = yaml.safe_load((ROOT / "recipe" / "meta.yaml").read_text())
    assert recipe["package"]["name"] == PROJECT["name"]
    run = {line.partition(" ")[0] for line in recipe["requirements"]["run"]}
    assert run - {"python"} == {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert f"python {PROJECT['requires-python']}" in recipe["requirements"]["run"]
    for text in PROJECT["dependencies"]:
        wanted = Requirement(text)
        line = f"{canonicalize_name(wanted.name)} {wanted.specifier}".strip()
        assert line in recipe["requirements"]["run"]


def test_the_citation_is_readable_and_of_this_version():
    import yaml

    from phasekit import __version__

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == __version__
    assert {"cff-version", "message", "title", "authors", "license"} <= cited.keys()
    papers = {one["identifiers"][0]["value"] for one in cited["references"]}
    links = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"].values()
    assert {f"https://arxiv.org/abs/{paper.removeprefix('arXiv:')}" for paper in papers} <= set(links)
