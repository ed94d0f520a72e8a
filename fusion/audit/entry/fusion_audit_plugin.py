"""Load the audit in a child whose Python need not have the project installed.

The folder of this file is put on the child's PYTHONPATH, and it is named there as a pytest plugin.
"""

import importlib.util
import sys
from pathlib import Path

if "fusion" not in sys.modules:
    _package = Path(__file__).resolve().parents[2]
    _spec = importlib.util.spec_from_file_location(
        "fusion", _package / "__init__.py", submodule_search_locations=[str(_package)]
    )
    assert _spec is not None and _spec.loader is not None
    sys.modules["fusion"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["fusion"])

from fusion.audit.child.session import *  # noqa: F403
