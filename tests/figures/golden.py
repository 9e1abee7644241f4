"""The numbers behind the theory-only pictures, at few points: rewrite them with ``python -m tests.figures.golden``."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.figures import small

FOLDER = Path(__file__).with_name("golden")
THEORY_ONLY = ("landscape", "phase_diagrams", "scaling_laws")


def tables(files: list[Path]) -> list[Path]:
    """Return the CSV files among those that a script wrote."""
    return [path for path in files if path.suffix == ".csv"]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for script in THEORY_ONLY:
        for attribute, value in small.POINTS[script].items():
            setattr(small.SCRIPTS[script], attribute, value)
        with TemporaryDirectory() as scratch:
            for csv in tables(small.SCRIPTS[script].main(Path(scratch), "quick")):
                (FOLDER / csv.name).write_bytes(csv.read_bytes())
