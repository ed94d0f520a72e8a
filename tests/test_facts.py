"""What results rest on is said in words."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from fusion import ceilings, lookup
from fusion.ceilings import KERNELS, Ceiling, Measured
from fusion.page import facts
from fusion.results import Results


@pytest.fixture(scope="module")
def read(everything):
    return lookup.of_run(everything[1].journal)


def with_targets(read, **changed):
    targets = {**read.manifest["targets"], **changed}
    return Results(read.rows, read.coverage, {**read.manifest, "targets": targets})


def measured(read, threads, host=None, nodes=None, **facts):
    machine = read.manifest["machine"]
    rates = dict.fromkeys(KERNELS, 40.0), {"float32": 0.1}
    found = tuple(
        Ceiling(node, "0", threads, 8, *rates, **facts)
        for node in nodes or ceilings.nodes(read.manifest)
    )
    host = host or machine["host"]
    return asdict(Measured("w", host, machine["cpu_model"], "k", "p", "torch 2", found))


def test_percentages_say_what_they_refer_to(read):
    """Data sheet, override, measured ceiling, or a ceiling of other threads."""
    threads = read.manifest["omp_threads"]
    assert "data sheet" in facts.percentages(read)
    assert "inv calibrate" in facts.percentages(read)
    assert "command line" in facts.percentages(with_targets(read, override_gbps=1.0))
    fitting = with_targets(read, measured=measured(read, threads))
    assert "torch 2 reached" in facts.percentages(fitting)
    other = with_targets(read, measured=measured(read, threads + 1))
    assert f"{threads + 1} threads, this run has {threads}" in facts.percentages(other)


def test_what_speaks_against_the_ceilings_is_told(read):
    """Another host, a node that was not measured, and the doubts of the calibration."""
    threads, nodes = read.manifest["omp_threads"], ceilings.nodes(read.manifest)
    assert "Beware" not in facts.percentages(with_targets(read, measured=measured(read, threads)))
    told = facts.percentages(
        with_targets(read, measured=measured(read, threads, "elsewhere", doubts=("a crowd",)))
    )
    assert "Beware: measured on host elsewhere, this is " in told
    assert "a crowd" in told
    if nodes != (None,):
        absent = with_targets(read, measured=measured(read, threads, nodes=(77,)))
        assert "not shown: measured on node 77" in facts.percentages(absent)


def test_coverage_begins_with_what_needs_attention(read):
    """Passed and skipped operators come last."""
    states = [line["status"] for line in facts.coverage(read)]
    fine = ("PASSED", "SKIPPED", "DISABLED", "MISSING")
    ranks = [state in fine for state in states]
    assert ranks == sorted(ranks)
    assert len(states) == len(read.coverage)


def test_machine_and_settings_are_told(read):
    """Digest, settings with their sources, versions, and the state around every operator."""
    machine, settings = facts.sections(read.manifest)
    cells = [
        cell
        for section in (machine, settings)
        for t in section.tables
        for x in t.lines
        for cell in x
    ]
    assert read.manifest["formulas_sha256"] in cells
    assert read.manifest["machine"]["kernel"] in cells
    states = next(table for table in machine.tables if "State" in table.title)
    moments = [(line[0], line[2]) for line in states.lines]
    assert ("good", "start") in moments
    assert ("good", "end") in moments
    assert len(moments) == 2 * len(read.manifest["operators"])
    assert all(len(line) == len(states.heads) for line in states.lines)


def test_state_of_an_operator_is_told_with_what_was_in_force(read):
    """Each moment has the number of CPUs, the range of frequencies, and the child's own pinning."""
    moment = {"when": "2026-05-06T07:08:09.123+02:00", "cpus": 32, "frequency_mhz": {}}
    fast = {**moment, "frequency_mhz": {"min": 2400.0, "median": 2500.0, "max": 2600.0}}
    ended = {"operator": "good", "before": moment, "after": fast}
    pinning = {"cpus": "0-31", "memory_policy": "bind:0", "cpus_at_end": "0"}
    manifest = {**read.manifest, "operators": [ended], "pinning_in_force": {"good": pinning}}
    tables = facts.sections(manifest)[0].tables
    states = next(table for table in tables if "State" in table.title)
    first, last = (dict(zip(states.heads, line, strict=True)) for line in states.lines)
    assert (first["CPUs"], first["MHz"], last["MHz"]) == ("32", "-", "2400-2600")
    assert first["in force in the child"] == "CPUs 0-31, memory bind:0"
    assert last["in force in the child"] == "CPUs 0, memory bind:0"


def test_results_without_a_manifest_are_told_as_such():
    """A CSV says nothing of machine or settings, and the page still has its sections."""
    sections = facts.sections({})
    assert [section.id for section in sections] == ["machine", "settings"]
    assert "unknown" in sections[0].tables[0].lines[0][1]
    assert facts.percentages(Results({}, {}, {}))
    assert facts.summary(Results({}, {}, {})) == "0 cases"
