"""From the model to its effective action and thresholds, step by step, with SymPy.

Read in the order of ``catalogue.py``: moments of the collected tokens (``vocabulary``), the readout integrated out
(``evidence``), order parameters (``patterns``), the cheapest logits (``prior``), then linear attention (``linear``,
``landau``, ``copying``) and softmax attention (``softmax``, ``jump``). In each module, a function is one step: its
docstring is the reasoning that ``phasekit derive`` prints, its value the equation. Steps that claim an equality have it
proven (``proof``).

The folder ``derivations/`` of a checkout turns these results into the numeric code of
``phasekit/theory/action/generated``. Nothing else imports this package, except where a derivation or a proof is
printed.
"""
