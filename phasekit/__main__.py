"""``python -m phasekit`` is ``phasekit``."""

from phasekit.cli import main

if __name__ == "__main__":
    main()
