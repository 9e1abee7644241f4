"""Measured comparisons, one script each with a function ``main()`` that prints a table. ``make bench`` runs all.

Numbers that are compared are measured side by side in one run, because machines and their load differ.
"""
