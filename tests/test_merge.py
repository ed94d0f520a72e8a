"""Runs fold into the published set: the newest passing result wins, and nothing else is lost."""

from __future__ import annotations

import csv
import io
import json

import pytest

from fusion import files, journal, merge, publish, report, results, session
from fusion.merge import MergeError


def read(bench, name):
    return (bench.output / name).read_text()


def rows(bench):
    text = read(bench, "fused_non_compute_bandwidth.csv")
    return list(csv.DictReader(io.StringIO(text)))


def test_first_merge_makes_the_set(bench):
    """With nothing published, merging a run publishes it."""
    finished = bench.run("good")
    changes = session.fold([finished.plan.run_id], bench.output, False)
    assert "first set" in changes[0]
    assert {row["run_id"] for row in rows(bench)} == {finished.plan.run_id}
    assert set(journal.REPORT_FILES) <= {path.name for path in bench.output.iterdir()}


def test_other_rows_stay(bench):
    """Merging one operator leaves the rows of all others as they are."""
    first = bench.run("good", "shouting")
    session.publish(first)
    second = bench.run("good")
    session.fold([second.plan.run_id], bench.output, False)
    sources = {(row["operator"], row["run_id"]) for row in rows(bench)}
    assert sources == {("good", second.plan.run_id), ("shouting", first.plan.run_id)}
    manifest = json.loads(read(bench, "run.json"))
    assert set(manifest["runs"]) == {first.plan.run_id, second.plan.run_id}
    assert {source["run_id"] for source in manifest["row_sources"]} == set(manifest["runs"])
    coverage = {
        line["operator"]: line for line in csv.DictReader(io.StringIO(read(bench, "coverage.csv")))
    }
    assert coverage["good"]["run_id"] == second.plan.run_id
    assert coverage["shouting"]["run_id"] == first.plan.run_id


def test_every_operator_keeps_the_state_it_was_measured_in(bench):
    """The manifest of a merged set has the outcomes of the runs that its operators come from."""
    first = bench.run("good", "shouting")
    session.publish(first)
    second = bench.run("good")
    session.fold([second.plan.run_id], bench.output, False)
    manifest = json.loads(read(bench, "run.json"))
    states = {ended["operator"]: ended["before"]["when"] for ended in manifest["operators"]}
    assert states["good"] == second.outcomes[0].before["when"]
    olds = {ended.operator: ended.before["when"] for ended in first.outcomes}
    assert states["shouting"] == olds["shouting"]
    assert set(manifest["pinning_in_force"]) == {"good", "shouting"}


def test_merging_twice_changes_nothing(bench):
    """A run that is in the set already is no change."""
    session.publish(bench.run("good"))
    second = bench.run("good").plan.run_id
    session.fold([second], bench.output, False)
    state = publish.current(bench.output)
    assert session.fold([second], bench.output, False) == []
    assert publish.current(bench.output) == state


def test_order_of_merging_does_not_matter(bench):
    """An older run does not replace a newer one, whenever it is merged."""
    older, newer = bench.run("good"), bench.run("good")
    sets = [results.parse(report.file_texts(run)) for run in (older, newer)]
    sets[0].manifest["runs"][older.plan.run_id]["created"] = "2000-01-01T00:00:00+00:00"
    forward = merge.fold(sets[0], sets[1]).merged
    backward = merge.fold(sets[1], sets[0]).merged
    assert [cells["run_id"] for cells in forward.rows.values()] == [newer.plan.run_id] * 2
    assert forward.rows == backward.rows


@pytest.mark.parametrize("worse", ["(2.0, fail)", "(2.0, crash)", '(2.0, float("nan"))'])
def test_worse_result_never_replaces_a_passing_one(bench, worse):
    """A partial, crashed or empty result leaves the passing row where it is."""
    source = bench.suite / "benchmark" / "test_bad.py"
    good = source.read_text()
    passing = good.replace("[(2.0, 1.0), (2.0, fail)]", "[(2.0, 1.0), (2.0, 1.0)]")
    source.write_text(passing)
    first = bench.run("failing_later")
    session.publish(first)
    source.write_text(good.replace("[(2.0, 1.0), (2.0, fail)]", f"[(2.0, 3.0), {worse}]"))
    second = bench.run("failing_later")
    assert second.coverage[0].status == "PARTIAL"
    assert session.fold([second.plan.run_id], bench.output, False) == []
    assert [row["run_id"] for row in rows(bench)] == [first.plan.run_id] * 2


def test_incomparable_run_is_refused_with_key_and_both_values(bench):
    """A run of other conditions is not mixed in; the refusal names what differs."""
    session.publish(bench.run("good"))
    second = bench.run("good", warmup="9", target_gbps="99")
    state = publish.current(bench.output)
    with pytest.raises(MergeError) as refusal:
        session.fold([second.plan.run_id], bench.output, False)
    assert "warmup: published 5, new 9" in str(refusal.value)
    assert "target_gbps: published None, new 99.0" in str(refusal.value)
    assert publish.current(bench.output) == state


def test_dry_run_shows_the_effect_and_writes_nothing(bench):
    """--dry-run tells what would change."""
    session.publish(bench.run("good"))
    second = bench.run("good")
    state = publish.current(bench.output)
    changes = session.fold([second.plan.run_id], bench.output, True)
    assert any(second.plan.run_id in change for change in changes)
    assert publish.current(bench.output) == state


def test_set_of_a_newer_version_is_refused(bench):
    """A published set of a newer format is not touched."""
    first = bench.run("good")
    texts = report.file_texts(first)
    newer = {**json.loads(texts["run.json"]), "format": report.MANIFEST_FORMAT + 1}
    with pytest.raises(files.FileError, match="newer version"):
        results.parse({**texts, "run.json": json.dumps(newer)})
