"""Three number systems in which a theorem is evaluated: one formula, written once, means the same in each.

=============  ==============================================  =================================
``Balls``      float64 with a proven bound on rounding errors  millions of random rows
``Intervals``  mpmath.iv, any number of digits                 rows that float64 leaves open
``Gradients``  torch float64 with automatic differentiation    the descent towards a violation
=============  ==============================================  =================================

Each has the methods of :class:`~phasekit.saturation.arithmetic.base.Arithmetic`; its numbers know + − × ÷.
"""
