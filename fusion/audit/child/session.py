"""Drive FlagGems' benchmarks as the audit's pytest plugin: each case is run once and observed."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fusion.audit.child import hooks, interpreter, stand_ins
from fusion.audit.child.benchmark import Audited
from fusion.audit.plan import VARIABLE, Plan, Target

PLAN = Plan.read(Path(os.environ[VARIABLE]))
interpreter.install()
hooks.install()
stand_ins.install()


class Log:
    """Append events as JSON lines, each on disk before the next begins."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, event: str, **facts: Any) -> None:
        """Append one event."""
        os.write(
            self._descriptor, json.dumps({"event": event, **facts}, default=str).encode() + b"\n"
        )


_log = Log(PLAN.observations)
_targets: dict[str, Target] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the wanted operators, in their order, and let no mark skip them."""
    owners = {
        item: target
        for target in reversed(PLAN.targets)
        for item in items
        if _belongs(item, target)
    }
    items[:] = sorted(owners, key=lambda item: PLAN.targets.index(owners[item]))
    for item in items:
        _targets[item.nodeid] = owners[item]
        for node in item.listchain():
            node.own_markers = [m for m in node.own_markers if m.name not in ("skip", "skipif")]


def _belongs(item: pytest.Item, target: Target) -> bool:
    if str(item.path) not in target.files:
        return False
    if target.tests and getattr(item, "originalname", item.name) not in target.tests:
        return False
    return target.marker is None or item.get_closest_marker(target.marker) is not None


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Observe the benchmarks of one test."""
    target = _targets[pyfuncitem.nodeid]
    _log.write("test_started", operator=target.operator, node=pyfuncitem.nodeid)
    report = functools.partial(_log.write, node=pyfuncitem.nodeid)
    audited = Audited(PLAN, target, report, str(pyfuncitem.path))
    with audited.attached():
        yield


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how a test ended."""
    target = _targets.get(report.nodeid)
    if target is not None and (report.when == "call" or report.failed or report.skipped):
        _log.write(
            "test",
            operator=target.operator,
            node=report.nodeid,
            phase=report.when,
            outcome=report.outcome,
            message=_reason(report),
        )


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Keep why a file could not be collected."""
    if report.failed:
        _log.write("collect", file=report.nodeid, message=_reason(report))


def _reason(report: Any) -> str:
    told = report.longrepr
    if isinstance(told, tuple):
        return str(told[2])
    crash = getattr(told, "reprcrash", None)
    return str(crash.message if crash is not None else told or "")
