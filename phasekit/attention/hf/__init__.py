"""Any score in any Hugging Face model that goes through the attention interface.

    import phasekit.attention.hf
    phasekit.attention.hf.register()
    model = AutoModelForCausalLM.from_config(config, attn_implementation="ssa")

Needs the extra ``lm``: ``pip install phasekit[lm]``.
"""

from phasekit.extras import missing

try:
    import transformers  # noqa: F401
except ModuleNotFoundError:
    raise missing("transformers") from None

from phasekit.attention.hf.parameters import attach
from phasekit.attention.hf.registration import register

__all__ = ["attach", "register"]
