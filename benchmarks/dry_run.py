"""Show what `inv all --dry-run` costs beside starting Python and importing invoke and yaml."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from ratio import alternate

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 3.0


def main() -> None:
    """Measure both, alternately."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flaggems", help="checkout to plan for; else the embedded suite")
    parser.add_argument("--pairs", type=int, default=15)
    given = parser.parse_args()
    ours = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "all", "--dry-run"]
    ours += ["--flaggems", given.flaggems] if given.flaggems else []
    theirs = [sys.executable, "-c", "import invoke, yaml"]
    ratio = alternate(
        lambda: subprocess.run(ours, check=True, capture_output=True),
        lambda: subprocess.run(theirs, check=True, capture_output=True),
        given.pairs,
    )
    print(ratio.line("inv all --dry-run over importing invoke and yaml", LIMIT))


if __name__ == "__main__":
    main()
