"""``phasekit check-device``: every path on a device against its reference on the CPU."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from phasekit.cli import CHECK_FAILED, DONE, NO_ANSWER
from phasekit.cli.output import write


def check_device(
    device: Annotated[str, typer.Option("--device", help="cuda, cuda:N, or cpu (the CPU with itself).")] = "cuda",
) -> None:
    """Compare energies, training and chains on a device with the CPU, in both precisions: a line for each comparison.

    Exit status 1 if something disagrees, 3 if this machine has no GPU (nothing was checked).
    """
    import torch

    from phasekit.cli.device_paths import checks
    from phasekit.device import describe_device, resolve_device, wait_for

    if device.startswith("cuda") and not torch.cuda.is_available():
        write("This machine has no CUDA device: nothing was checked.\n")
        raise typer.Exit(NO_ANSWER)
    there = resolve_device(device)
    write(f"{describe_device(there)} against cpu, torch {torch.__version__}\n")
    write(f"{'check':60s} {'precision':9s} {'deviation':>9s} {'allowed':>8s}\n")
    begun, failed, count = time.perf_counter(), 0, 0
    for check in checks(there):
        count, failed = count + 1, failed + (not check.agrees)
        mark = "" if check.agrees else "  DISAGREES"
        write(f"{check.name:60s} {check.dtype:9s} {check.deviation:9.1e} {check.tolerance:8.0e}{mark}\n")
    wait_for(there)
    write(f"{count} checks, {failed} disagree, {time.perf_counter() - begun:.0f} s\n")
    raise typer.Exit(CHECK_FAILED if failed else DONE)
