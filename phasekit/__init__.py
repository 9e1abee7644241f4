"""phasekit: when does an attention head suddenly learn to copy?"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names and their rooms; imported on first use, so that `import phasekit` stays fast.
_ROOMS = {
    "InputError": "phasekit.errors",
    "Model": "phasekit.model",
    "Grid": "phasekit.model",
    "get_score": "phasekit.scores",
}

if TYPE_CHECKING:
    from phasekit.errors import InputError as InputError
    from phasekit.model import Grid as Grid
    from phasekit.model import Model as Model
    from phasekit.scores import get_score as get_score


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(importlib.import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'phasekit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ROOMS])
