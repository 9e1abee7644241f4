"""Any score in any Hugging Face model that goes through the attention interface.

    import phasekit.hf
    phasekit.hf.register()
    model = AutoModelForCausalLM.from_config(config, attn_implementation="ssa")

Needs the extra ``lm``: ``pip install phasekit[lm]``.
"""

from phasekit.hf.parameters import attach
from phasekit.hf.registration import register

__all__ = ["attach", "register"]
