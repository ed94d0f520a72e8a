"""Load the plugin in a child whose Python has only pytest and PyYAML.

The folder of this file is put on the child's PYTHONPATH. It holds nothing else, so that no other
package of the parent's environment reaches the child.
"""

import importlib.util
import sys
from pathlib import Path

if "fusion" not in sys.modules:
    _package = Path(__file__).resolve().parent.parent
    _spec = importlib.util.spec_from_file_location(
        "fusion", _package / "__init__.py", submodule_search_locations=[str(_package)]
    )
    assert _spec is not None and _spec.loader is not None
    sys.modules["fusion"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["fusion"])

from fusion.plugin import pytest_configure  # noqa: F401
