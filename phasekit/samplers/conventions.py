"""What phasekit calls SGLD's step, and what other packages call it.

phasekit:   θ' = θ - step ∇U + √(2 step T) ξ              (Euler-Maruyama with dt = step)
posteriors: θ' = θ + lr ∇log_posterior + √(2 lr T) ξ
devinterp:  θ' = θ - (eps/2) ∇U + √eps ξ
"""

from __future__ import annotations


def posteriors_lr(step: float, per: float = 1.0) -> float:
    """Return the ``lr`` of ``posteriors.sgmcmc.sgld`` that makes the same chain.

    Parameters
    ----------
    step : float
        phasekit's.
    per : float
        What U was divided by: that package recommends ``log_posterior = -U/N`` for N data at ``temperature = 1/N``;
        then ``per = N``. Its ``temperature`` is phasekit's divided by ``per``.
    """
    return step * per


def step_from_posteriors(lr: float, per: float = 1.0) -> float:
    """Return phasekit's step for an ``lr`` of ``posteriors``; see :func:`posteriors_lr`."""
    return lr / per


def devinterp_epsilon(step: float) -> float:
    """Return the ``epsilon`` (``lr``) of devinterp's SGLD that makes the same chain at temperature 1."""
    return 2 * step


def step_from_devinterp(epsilon: float) -> float:
    """Return phasekit's step for an ``epsilon`` of devinterp's SGLD."""
    return epsilon / 2
