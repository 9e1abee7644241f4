"""Results that travel with the source: one netCDF file for each sweep and preset, which a run starts from.

See docs/runs.md, "The archive". `phasekit archive make STORE` writes one, `phasekit archive verify` computes a random
sample of it again.
"""
