"""Write constraints.txt and the environment files from what this environment holds: `make pins`.

To add a library: name it in pyproject.toml, `pip install` it into .venv, run `make pins`, and commit what changed.
Only what pyproject.toml leads to (with every extra) is pinned, not whatever else lies in the environment.
"""

import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = """\
# Every package that phasekit and its extras lead to, at the version it is tested with. Written by `make pins`.
# torch is pinned without a build label, so that CPU, CUDA and other builds all satisfy it; the CUDA libraries that a
# CUDA build brings along are pinned by torch itself.
"""
ENVIRONMENT = """\
# For conda users: conda env create --file {file}. Written by `make pins` from constraints.txt.
# {about}
# Conda provides Python; the packages come through pip, because these are the very builds that the tests ran with.
name: {name}
channels:
  - conda-forge
dependencies:
  - python>=3.11,<3.14
  - pip
  - pip:
      - --constraint constraints.txt
"""


def main() -> None:
    """Follow every requirement of pyproject.toml and write all files."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    direct = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    versions: dict[str, str] = {}
    for text in [*settings["build-system"]["requires"], *direct]:
        follow(Requirement(text), versions, seen=set())
    pins = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
    (ROOT / "constraints.txt").write_text(CONSTRAINTS + "".join(pins))
    extras = project["optional-dependencies"]
    users = [*project["dependencies"], *extras["networks"]]
    write_environment("environment.yml", "phasekit", "Theory, networks and samplers.", users, versions)
    about = "Everything: tests, benchmarks, site, clusters, language models."
    write_environment("environment-dev.yml", "phasekit-dev", about, direct, versions)


def write_environment(file: str, name: str, about: str, wanted: list[str], versions: dict[str, str]) -> None:
    """Write an environment file with the packages that some requirements name."""
    names = sorted({canonicalize_name(Requirement(text).name) for text in wanted})
    packages = [f"      - {package}=={versions[package]}\n" for package in names]
    head = ENVIRONMENT.format(file=file, name=name, about=about)
    (ROOT / file).write_text(head + "".join(packages) + "      - --editable .\n")


def follow(requirement: Requirement, versions: dict[str, str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Record the installed version of a requirement and of all that it requires in turn."""
    name = canonicalize_name(requirement.name)
    if (name, frozenset(requirement.extras)) in seen:
        return
    seen.add((name, frozenset(requirement.extras)))
    distribution = metadata.distribution(name)
    versions[name] = distribution.version.partition("+")[0]
    for text in distribution.requires or []:
        child = Requirement(text)
        wanted = requirement.extras or {""}
        if child.marker is None or any(child.marker.evaluate({"extra": extra}) for extra in wanted):
            follow(child, versions, seen)


if __name__ == "__main__":
    main()
