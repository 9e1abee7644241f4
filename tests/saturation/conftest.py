"""Let tests of this folder import its brute-force reference."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
