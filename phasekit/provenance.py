"""Which source code is running: the commit of the checkout that this package was imported from."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def commit() -> str:
    """Return the commit in twelve digits, with "-dirty" behind it if files were changed; "" outside of a checkout.

    An installed package, or one without git at hand, knows its version only.
    """
    if not (ROOT / ".git").exists():
        return ""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
