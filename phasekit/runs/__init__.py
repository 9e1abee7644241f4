"""Sweeps over many networks that survive anything: descriptions, a store of results, and those who do the work.

See docs/runs.md. From Python::

    sweep = load_sweep("sims/softmax_scaling.toml", preset="quick")
    run_sweep(sweep, expand(sweep), Store.create("build/runs/softmax_scaling"), LocalProcesses(), Silent())
"""
