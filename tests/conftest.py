"""Settings of property tests: the same examples in every run, unless the nightly job asks for new ones."""

import getpass
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from hypothesis import settings

# No deadline: a loaded machine is no error. `--hypothesis-profile=rotating --hypothesis-seed=N` draws other examples.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("rotating", deadline=None, print_blob=True, max_examples=500)
settings.load_profile("fixed")

# torch keeps what its compiler made for one instruction set and takes it for another: a folder for each.
_instructions = os.environ.get("ATEN_CPU_CAPABILITY", "own")
_compiled = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}_{_instructions}"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_compiled))

# PHASEKIT_SEED_SHIFT=N gives every test other random numbers: none may pass by its seed.
if int(os.environ.get("PHASEKIT_SEED_SHIFT", "0")):
    _folder = str(Path(__file__).parent / "shifted")
    os.environ["PYTHONPATH"] = os.pathsep.join([_folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.path.insert(0, _folder)
    sys.modules.pop("sitecustomize", None)
    import sitecustomize

    if importlib.util.find_spec("torch"):
        sitecustomize.shift_torch()


def pytest_collection_modifyitems(items):
    """Begin with the site, which takes longest and can't be shared out: else it would run alone at the end."""
    items.sort(key=lambda item: item.path.name != "test_site.py")
