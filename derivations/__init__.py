"""From proven derivations to numeric code. This folder is used in a checkout and isn't installed.

The derivations themselves are in ``phasekit.derivations``, which is installed, so that ``phasekit derive`` can print
them. ``programs`` states in which form a result is computed without losing digits and proves that form, ``printer``
writes one formula as NumPy, and ``emit`` writes the modules of ``phasekit/theory/action/generated``.
"""
