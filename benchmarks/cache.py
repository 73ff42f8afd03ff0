"""Where benchmarks keep what is made once: programs, jars, the servers' data while they run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CACHE: Final = Path(os.environ.get("LAKEBED_CACHE") or Path.home() / ".cache" / "lakebed")
