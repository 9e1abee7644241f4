"""Language models with any score: built and trained the same way in every arm, and examined in the same way.

Needs the extra ``lm``: ``pip install phasekit[lm]``.
"""

from phasekit.extras import missing

try:
    import tokenizers  # noqa: F401
    import transformers  # noqa: F401
except ModuleNotFoundError as error:
    raise missing(error.name or "transformers") from None

from phasekit.language.corpus import Corpus, prepare
from phasekit.language.models import Trained, build, load, parameter_count, save
from phasekit.language.shapes import SHAPES, Shape, get_shape
from phasekit.language.subject import LanguageModel
from phasekit.language.text import Text
from phasekit.language.training import train_language

__all__ = [
    "SHAPES",
    "Corpus",
    "LanguageModel",
    "Shape",
    "Text",
    "Trained",
    "build",
    "get_shape",
    "load",
    "parameter_count",
    "prepare",
    "save",
    "train_language",
]
