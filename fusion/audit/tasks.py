"""Choose what an audit does from its options, and tell what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fusion import cli, files, session, suite, workspace
from fusion.audit import document, drift, proof, record, replay, report
from fusion.audit.verdict import Finding
from fusion.errors import Refusal
from fusion.formulas.catalogue import Catalogue
from fusion.session import Surroundings
from fusion.workspace import Workspace

DOCUMENTS = workspace.PACKAGE.parent / "docs"
Tell = Callable[[str], None]


class AuditOptionsError(Refusal):
    """Refuse a combination of options, or a proof without FlagGems."""


def run(given: Mapping[str, Any], around: Surroundings, tell: Tell) -> tuple[str, bool]:
    """Do what the options ask for; return what to print, and whether everything is right."""
    chosen = [name for name in ("cases", "record", "against") if given[name]]
    if len(chosen) > 1:
        raise AuditOptionsError(
            f"audit: expected one of --cases, --record, --against, found {chosen}"
        )
    if given["cases"]:
        return _replayed(_catalogue(around), around.folder / given["cases"], bool(given["detail"]))
    places, catalogue, _ = session.survey(cli.read({**given, "python": None}), around)
    if given["against"]:
        return _drifted(catalogue, places, around.folder / given["against"])
    if places.embedded:
        raise AuditOptionsError(
            f"audit: expected a FlagGems checkout, found none ({places.why}); name one with "
            "--flaggems, or use --cases"
        )
    python = given["python"] or places.python
    operators = cli.names(given["ops"])
    if given["record"]:
        path = around.folder / given["record"]
        count = record.record(places.suite, python, places.formulas, path, operators, tell)
        return f"Recorded {count} calls in {path}", True
    found = proof.prove(places.suite, python, places.formulas, operators, tell=tell)
    if given["document"]:
        tell(f"Wrote {_documented(catalogue, places, found)}")
    return _told(found, bool(given["detail"])), not any(each.unexplained for each in found)


def _catalogue(around: Surroundings) -> Catalogue:
    return Catalogue.load(workspace.formula_file(around.environ))


def _replayed(catalogue: Catalogue, path: Path, in_detail: bool) -> tuple[str, bool]:
    replayed = replay.replay(catalogue, path)
    is_right = not any(call.failure for call in replayed)
    parts = [replay.detail(replayed)] if in_detail else []
    parts += [replay.table(replayed), replay.summary(replayed)]
    return "\n\n".join(parts), is_right


def _drifted(catalogue: Catalogue, places: Workspace, other: Path) -> tuple[str, bool]:
    if not (other / "benchmark").is_dir():
        raise AuditOptionsError(
            f"--against {other}: expected a FlagGems checkout, found no benchmark/"
        )
    known = () if places.embedded else drift.drift(catalogue, places.suite)
    changes = drift.drift(catalogue, other, known)
    return drift.table(changes), True


def _told(found: Sequence[Finding], in_detail: bool) -> str:
    parts = [report.operators(found), report.summary(found)]
    if in_detail:
        tensors = [f"{each.operator}, case {each.case}\n{report.tensors(each)}" for each in found]
        parts = [report.cases(found), *tensors, *parts]
    return "\n\n".join(parts)


def _documented(catalogue: Catalogue, places: Workspace, found: Sequence[Finding]) -> Path:
    text = report.as_json(found, suite.revision(places.suite))
    files.write(DOCUMENTS / "verdicts.json", text)
    files.write(DOCUMENTS / "formulas.md", document.render(catalogue, json.loads(text)))
    return DOCUMENTS / "formulas.md"
