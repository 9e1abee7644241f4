"""Language models with any score: built and trained the same way in every arm, and examined in the same way.

Needs the extra ``lm``: ``pip install phasekit[lm]``.
"""

from phasekit.extras import missing

for _package in ("transformers", "tokenizers"):
    try:
        __import__(_package)
    except ModuleNotFoundError:
        raise missing(_package) from None
