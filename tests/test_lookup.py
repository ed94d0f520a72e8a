"""Results are found by what people call them, and read as they were written."""

from __future__ import annotations

import csv
import json
import os
import re

import pytest

from fusion import journal, lookup, results, session
from fusion.errors import Refusal


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
    assert results.parse(results.file_texts(read)) == read


HEAD = "operator,dtype,shape,latency_ms\n"


@pytest.mark.parametrize(
    "data",
    [
        b'\xef\xbb\xbfoperator,dtype,shape,latency_ms\r\nx,bool,"[1,\r\n2]",3\r\n',
        b'"operator","dtype","shape","latency_ms"\n"x","bool","[1,\n2]","3"\n',
        b'latency_ms,shape,mine,dtype,operator\n3,"[1,\n2]",?,bool,x\n',
    ],
    ids=["spreadsheet", "quoted", "own order"],
)
def test_csv_of_other_programs_is_read(bench, data):
    """A byte order mark, CRLF, a quoted header, any order and line ends in cells do no harm."""
    path = bench.root / "other.csv"
    path.write_bytes(data)
    ((key, cells),) = lookup.find(str(path), bench.output).rows.items()
    assert key[1:] == ("x", "bool", "[1,\n2]", 0)
    assert cells["latency_ms"] == "3"


def test_cell_of_many_repeats_is_read(bench):
    """All samples of 9,999 repeats are more than Python's csv reads by default."""
    path = bench.root / "many.csv"
    samples = json.dumps([1 / 3 + index for index in range(9999)])
    path.write_text(f'{HEAD.strip()},latencies_ms\nx,bool,[],1,"{samples}"\n')
    (cells,) = lookup.find(str(path), bench.output).rows.values()
    assert len(cells["latencies_ms"]) > 2**17


def test_csv_that_cannot_be_parsed_is_refused(bench):
    """A cell without an end is refused with the file's name, not with a traceback."""
    path = bench.root / "endless.csv"
    path.write_text(HEAD + 'x,bool,"' + "1" * 2**24 + "\n")
    with pytest.raises(Refusal, match=r"endless\.csv: expected a CSV, found: field larger"):
        lookup.find(str(path), bench.output)


def test_rows_of_a_handmade_csv_stand_in_the_tables_of_the_other_side(ran):
    """Without a rate a CSV does not say which table it is: operator, dtype and shape match."""
    bench, found = ran
    whole = lookup.of_run(found.journal)
    path = bench.root / "mine.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(HEAD.strip().split(","))
        writer.writerows([*key[1:4], 1] for key in whole.rows)
    for names in ((str(path), "latest"), ("latest", str(path))):
        a, b = lookup.pair(names, bench.output)
        assert set(a.rows) == set(b.rows) == set(whole.rows)


def test_nothing_of_two_tables_is_left_out(ran):
    """A table that the other side lacks keeps its rows, for they are only in this side."""
    bench, found = ran
    tables = [str(found.journal.folder / name) for name in results.TABLES]
    a, b = lookup.pair(tables, bench.output)
    assert (names(a), names(b)) == ({"product"}, {"good"})
    a, b = lookup.pair((tables[0], "latest"), bench.output)
    assert (names(a), names(b)) == ({"product"}, {"good", "product"})


def test_row_is_moved_only_where_it_displaces_none():
    """An operator that stands in both tables keeps all its rows."""
    one, two = results.TABLES
    both = results.Results({(one, "x", "", "", 0): {}, (two, "x", "", "", 0): {}}, {}, {})
    single = results.Results({(one, "x", "", "", 0): {}}, {}, {})
    assert set(results.aligned(both, single).rows) == set(both.rows)
    other = results.Results({(two, "x", "", "", 0): {}}, {}, {})
    assert set(results.aligned(single, other).rows) == set(other.rows)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (journal.MANIFEST, "{", "JSONDecodeError"),
        (journal.MANIFEST, "[]", "expected an object, found list"),
        (journal.COVERAGE_TABLE, "a\n1\n", "KeyError: 'operator'"),
        (journal.COMPUTE_TABLE, "a\n1\n", "columns operator, dtype, shape, latency_ms"),
        (journal.MEMORY_TABLE, HEAD + "x,bool\n", "line 2: expected as many cells"),
    ],
)
def test_damaged_set_is_refused(ran, tmp_path, name, text, told):
    """A file that is cut off is refused by its folder; it does not end in a traceback."""
    for file in journal.REPORT_FILES:
        (tmp_path / file).write_text((ran[1].journal.folder / file).read_text())
    (tmp_path / name).write_text(text)
    with pytest.raises(Refusal, match=re.escape(told)) as error:
        lookup.find(str(tmp_path), ran[0].output)
    assert str(tmp_path) in str(error.value)


def test_run_with_a_damaged_manifest_is_read_from_its_records(ran):
    """The report files of a run can be made again, so they need not be believed."""
    (ran[1].journal.folder / journal.MANIFEST).write_text("{")
    assert names(lookup.find("latest", ran[0].output)) == {"good", "product"}
