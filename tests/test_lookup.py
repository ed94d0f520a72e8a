"""Results are found by what people call them, and read as they were written."""

from __future__ import annotations

import os

import pytest

from fusion import Refusal, journal, lookup, results, session


@pytest.fixture
def ran(bench):
    found = bench.run("good", "product")
    return bench, found


def names(found):
    return {key[1] for key in found.rows}


def test_run_is_found_by_id_by_folder_and_as_the_latest(ran):
    """Three names lead to the same rows."""
    bench, found = ran
    for name in (found.plan.run_id, str(found.journal.folder), "latest"):
        assert names(lookup.find(name, bench.output)) == {"good", "product"}


def test_published_set_is_found_by_name_and_by_folder(ran):
    """`published` is the set at the top of the output folder."""
    bench, found = ran
    with pytest.raises(Refusal, match="inv merge"):
        lookup.find("published", bench.output)
    assert lookup.default(bench.output) == "latest"
    session.publish(found)
    assert lookup.default(bench.output) == "published"
    for name in ("published", str(bench.output)):
        assert names(lookup.find(name, bench.output)) == {"good", "product"}


def test_single_table_has_rows_alone(ran):
    """A CSV has no coverage and no manifest, and is recognised by its columns."""
    bench, found = ran
    path = bench.root / "mine.csv"
    path.write_text((found.journal.folder / journal.COMPUTE_TABLE).read_text())
    read = lookup.find(str(path), bench.output)
    assert {key[:2] for key in read.rows} == {(journal.COMPUTE_TABLE, "product")}
    assert (read.coverage, read.manifest) == ({}, {})


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "operator,dtype,shape,latency_ms\nx,y\n"])
def test_file_that_is_no_table_is_refused(bench, text):
    """The message names the file and what it lacks."""
    path = bench.root / "bad.csv"
    path.write_text(text)
    with pytest.raises(Refusal, match=r"bad\.csv"):
        lookup.find(str(path), bench.output)


def test_unknown_name_is_refused_with_the_nearest(ran):
    """A mistyped run gets a suggestion."""
    bench, found = ran
    with pytest.raises(Refusal, match=found.plan.run_id):
        lookup.find(found.plan.run_id[:-1], bench.output)


def test_report_files_older_than_an_outcome_are_not_trusted(ran):
    """What a killed run left behind is read from its records."""
    found = ran[1]
    table = found.journal.folder / journal.MEMORY_TABLE
    table.write_text(table.read_text().replace("good", "stale"))
    assert "stale" in names(lookup.of_run(found.journal))
    outcome = found.journal.outcome("good")
    later = (found.journal.folder / journal.MANIFEST).stat().st_mtime_ns + 10**9
    os.utime(outcome, ns=(later, later))
    assert names(lookup.of_run(found.journal)) == {"good", "product"}


def test_results_survive_being_written_and_read(ran):
    """Parsing what was written gives the same set."""
    _, found = ran
    read = lookup.of_run(found.journal)
    assert results.parse(results.files(read)) == read
