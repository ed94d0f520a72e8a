"""What tests share: a small benchmark folder that runs, and the way from options to a report."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from fusion import session
from fusion.session import Options, Surroundings, Watcher

RESOURCES = Path(__file__).parent / "resources"
SHARED = Path(__file__).parent.parent.parent / "shared"


class Bench:
    """A folder with a benchmark suite and its formulas, and runs of it."""

    def __init__(self, root: Path, layout: str) -> None:
        self.root = root
        self.suite = root / "FlagGems"
        self.output = root / "out"
        self.events = []
        shutil.copytree(RESOURCES / "suites" / layout, self.suite)
        shutil.copy(
            RESOURCES / "suites" / "formulas.yaml",
            self.suite / "benchmark" / "fusion_metrics_formulas.yaml",
        )

    @property
    def watcher(self) -> Watcher:
        return Watcher(event=self.events.append)

    @property
    def around(self) -> Surroundings:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FUSION_")}
        # The pytest plugins that happen to be installed here are no part of the small suites, and
        # take longer to load than these take to run.
        ours = {
            "TRITON_REPO_DIR": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        return Surroundings({**kept, **ours}, self.root, self.root / ".env")

    def options(self, *operators: str, **settings: str) -> Options:
        places = {name: settings.pop(name) for name in ("pipeline", "targets") if name in settings}
        return Options(
            settings={"output_dir": str(self.output), **settings}, operators=operators, **places
        )

    def plan(self, *operators: str, **settings: str):
        return session.prepare(self.options(*operators, **settings), self.around)

    def run(self, *operators: str, **settings: str):
        planned = self.plan(*operators, **settings)
        return session.execute(planned, self.around.environ, self.watcher)


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory):
    """Keep the node locks of the tests apart from those of real runs, here and in children."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("locks")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(tmp_path, "current")


@pytest.fixture
def make_bench():
    """Make a bench of the current layout in any folder."""
    return lambda root: Bench(root, "current")


@pytest.fixture
def older_bench(tmp_path) -> Bench:
    return Bench(tmp_path, "older")


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """One run of every operator of the small suite, with a time limit that one of them meets."""
    bench = Bench(tmp_path_factory.mktemp("everything"), "current")
    return bench, bench.run(timeout="4")


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with recorded calls and logs is absent")
    return SHARED
