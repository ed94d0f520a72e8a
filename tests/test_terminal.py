"""What people read: tables, a summary line, a dry run, the list of operators."""

from __future__ import annotations

import math
import os
import re
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import history, suite, terminal, text
from fusion.formulas.catalogue import Catalogue


def line_of(text, name):
    return next(line for line in text.splitlines() if line.startswith(f"{name} "))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "-"),
        (0, "0"),
        (0.5, "0.5000"),
        (1.23456, "1.235"),
        (12.3456, "12.35"),
        (1234.56, "1235"),
        (98765.4, "98765"),
        (0.00123456, "0.001235"),
        (0.000123456, "0.000123"),
        (-2.5, "-2.500"),
    ],
)
def test_numbers_have_four_significant_digits(value, written):
    """A number is as long as it is significant, and an unknown is a dash."""
    assert text.number(value) == written


@given(st.floats(1e-3, 9999))
def test_number_is_within_its_last_digit(value):
    """What is shown differs from the value by less than a thousandth of it."""
    assert float(text.number(value)) == pytest.approx(value, rel=1e-3)


def test_number_carries_its_unit():
    """A unit follows a number and an unknown has none."""
    assert text.number(30.72, "GB/s") == "30.72 GB/s"
    assert text.number(None, "GB/s") == "-"


@given(st.text(), st.integers(2, 30))
def test_shortened_text_is_one_line_of_that_width(words, width):
    """A reason never breaks a table, and is cut visibly."""
    short = text.shortened(words, width)
    assert len(short) <= width
    assert len(short.splitlines()) <= 1
    flat = " ".join(words.split())
    assert short == flat or (short.endswith("…") and flat.startswith(short[:-1]))


def test_rows_come_worst_attainment_first_and_unknown_last(everything):
    """The operator that is furthest from its target is what one reads first."""
    found = everything[1]
    text = terminal.rows_table(found.rows)
    head, _, *lines = text.splitlines()
    end = head.index("attained %") + len("attained %")  # a column of marks may follow
    cells = [line[:end].split()[-1] for line in lines]
    known = [float(cell) for cell in cells if cell != "-"]
    assert len(lines) == len(found.rows)
    assert known == sorted(known)
    assert "uncountable" in lines[-1]
    assert cells[-1] == "-"


def test_table_without_rows_is_nothing():
    """A run without a measurement has no empty table."""
    assert terminal.rows_table([]) == ""


def test_what_did_not_pass_is_told_with_the_output_to_open(everything):
    """Each operator that did not pass has its status, reason and, where it ran, its output."""
    found = everything[1]
    text = terminal.problems_table(found.coverage)
    assert line_of(text, "crashing_at_once").split()[1] == "CRASHED"
    assert "its count depends on data" in line_of(text, "turned_off")
    assert str(found.journal.attempt("crashing", 0).output) in text
    assert str(found.journal.attempt("skipping", 0).output) not in text
    assert "\ngood " not in text
    assert terminal.problems_table([c for c in found.coverage if c.status == "PASSED"]) == ""


def test_summary_is_one_line_with_the_mean_and_the_worst(everything):
    """One line tells the suite, the counts of each status, the cases, the mean and the worst."""
    found = everything[1]
    text = terminal.summary(found)
    assert "\n" not in text
    assert text.startswith("FlagGems ")
    assert "3 PASSED" in text
    assert f"{len(found.rows)} cases" in text
    known = [row for row in found.rows if row.attainment_pct is not None]
    worst = min(known, key=lambda row: row.attainment_pct)
    assert f"worst {worst.operator} {worst.attainment_pct:.3g} %" in text
    assert f"geometric mean {terminal.geometric_mean(known):.3g} %" in text


def test_operators_without_a_benchmark_share_a_paragraph(everything):
    """Seventy of them must not push what failed out of sight; each is still named."""
    line = everything[1].coverage[0]
    absent = [replace(line, operator=f"absent_{n}", status="MISSING") for n in range(70)]
    failed = replace(line, operator="bad", status="FAILED", reason="broke", output="/out.txt")
    skipped = replace(line, operator="off", status="SKIPPED", reason="no vllm")
    text = terminal.problems_table([*absent, skipped, failed])
    lines = text.splitlines()
    assert lines[2].split() == ["bad", "FAILED", "broke"]
    assert lines[3].split() == ["off", "SKIPPED", "no", "vllm"]
    assert lines[4:6] == ["Outputs to open:", "  /out.txt"]
    assert lines[6].startswith(
        f"MISSING: 70 operators have no benchmark in {line.suite}: absent_0,"
    )
    assert len(lines) < 20
    assert all(len(each) <= 140 for each in lines)
    named = " ".join(lines[6:]).replace(",", "").split()
    assert {each.operator for each in absent} <= set(named)


def test_summary_without_rows_makes_up_no_mean(everything):
    """Nothing measured is no percentage."""
    text = terminal.summary(replace(everything[1], rows=()))
    assert text.endswith("; 0 cases")


def test_geometric_mean(everything):
    """The mean of ratios is geometric: half and double cancel out."""
    row = everything[1].rows[0]
    pair = [replace(row, attainment_pct=50.0), replace(row, attainment_pct=200.0)]
    assert terminal.geometric_mean(pair) == pytest.approx(100)
    assert terminal.geometric_mean([]) == 0.0
    assert math.isfinite(terminal.geometric_mean([*pair, replace(row, attainment_pct=0.0)]))


def test_first_line_names_the_suite(bench):
    """Which suite runs, and why when it is the embedded one, is said first."""
    planned = bench.plan("good")
    assert terminal.first_line(planned).startswith("Suite: FlagGems ")
    assert str(bench.suite) in terminal.first_line(planned)
    embedded = replace(planned, embedded=True, suite="embedded suite", why="no FlagGems")
    assert terminal.first_line(embedded) == "Suite: embedded suite; no FlagGems"


def test_dry_run_tells_everything_a_run_would_do(bench):
    """Suite, digests, settings with sources, jobs, what is left out, bindings and commands."""
    (bench.root / ".env").write_text("FUSION_ITER=7\n")
    planned = bench.plan(warmup="3")
    environ = {"FOREIGN": "1", "TRITON_SHARED_FORCE_SME_PIPELINE": "1"}
    text = terminal.dry_run(planned, environ)
    assert text.splitlines()[0] == terminal.first_line(planned)
    assert planned.formulas in text
    assert f"SHA-256 {planned.formulas_sha256}" in text
    assert f"SHA-256 {planned.targets.sha256}" in text
    assert line_of(text, "warmup").split() == ["warmup", "3", "milliseconds", "command", "line"]
    assert line_of(text, "iter").split() == ["iter", "7", "milliseconds", ".env"]
    assert line_of(text, "timeout").split() == ["timeout", "18000", "s", "default"]
    assert line_of(text, "target_gbps").split()[1:3] == ["30.72", "GB/s"]
    assert set(planned.settings) <= {line.split(" ")[0] for line in text.splitlines() if line}
    assert line_of(text, "good").split()[:4] == ["good", "memory", "SVE", "float32"]
    assert line_of(text, "turned_off").split()[1] == "DISABLED"
    assert line_of(text, "absent").split()[1] == "MISSING"
    assert f"Bindings, {planned.omp_threads} threads each" in text
    for job in planned.jobs:
        assert planned.first_command(job, environ).shell() in text
    assert text.endswith("nothing was started and nothing was written.")


@pytest.mark.parametrize(
    ("repeat", "told"),
    [
        (1, "1 child per operator"),
        (2, "2 independent children per operator, interleaved: .* again, in repeat-1 of each"),
        (5, "5 independent children .* in repeat-1 to repeat-4 of each"),
    ],
)
def test_dry_run_tells_the_repeats_and_their_folders(bench, repeat, told):
    """The commands are those of the first time, so the others' folders are named."""
    planned = replace(bench.plan("good"), repeat=repeat)
    line = line_of(terminal.dry_run(planned, {}), "Repeats:")
    assert re.search(f"^Repeats: {told}", line)
    assert planned.journal.operator("good", repeat).name == f"repeat-{repeat}"


def test_dry_run_tells_the_fallbacks_of_an_explicit_dtype(bench):
    """Every dtype that may be tried is announced in its order."""
    text = terminal.dry_run(bench.plan("good", dtypes="float32"), {})
    assert "float32 then bfloat16 then the benchmark's own" in line_of(text, "good")


def test_dry_run_tells_nodes_and_cpus(bench):
    """Pinned bindings are told with node and CPU list, unpinned ones with the reason."""
    planned = bench.plan("good")
    binding = replace(planned.bindings[0], node=1, cpus=(4, 5, 6, 7))
    text = terminal.dry_run(replace(planned, pinned=True, bindings=(binding,)), {})
    assert "by numactl:\n  0: NUMA node 1, CPUs 4-7\n" in text
    free = replace(planned, pinned=False, pinning="numactl is not installed")
    assert "not pinned: numactl is not installed" in terminal.dry_run(free, {})


def test_commands_of_a_dry_run_can_be_split_by_a_shell(bench):
    """Each command is text that a shell splits back into the exact arguments."""
    planned = bench.plan("good")
    command = planned.first_command(planned.jobs[0], os.environ)
    words = shlex.split(command.shell().replace("\\\n", " "))
    assert words[:2] == ["mkdir", "-p"]
    assert words[-len(command.argv) :] == list(command.argv)


def test_list_tells_category_state_dtype_and_benchmark(bench):
    """Each operator has a line, with the reason of a disabled one and 'not found' without one."""
    catalogue = Catalogue.load(bench.suite / "benchmark" / "fusion_metrics_formulas.yaml")
    text = terminal.operators(catalogue, suite.scan(bench.suite, False, ""))
    assert len(text.splitlines()) == 2 + len(catalogue.formulas)
    assert line_of(text, "good").split() == [
        "good",
        "memory",
        "enabled",
        "float32",
        "benchmark/test_good.py",
    ]
    assert line_of(text, "absent").endswith("not found")
    assert "disabled: its count depends on data" in line_of(text, "turned_off")


def test_runs_are_told_in_lines():
    """Runs are listed under headings; without any, the way to start one is told."""
    entry = history.Entry("id", "when", "suite", 1, 2, 3, "interrupted")
    assert terminal.runs([entry]).splitlines()[-1].split() == [
        "id",
        "when",
        "suite",
        "1",
        "2",
        "3",
        "interrupted",
    ]
    assert "inv run" in terminal.runs([])


def test_heading_tells_what_every_run_begins_with(bench):
    """Suite, formulas with digest, pinning, threads and the folder come first."""
    planned = replace(bench.plan("good"), pinned=False, pinning="numactl is not installed")
    lines = terminal.heading(planned, planned.journal).splitlines()
    assert lines[0] == terminal.first_line(planned)
    assert planned.formulas_sha256[:16] in lines[1]
    assert lines[2].startswith("Pinning: none (numactl is not installed); ")
    assert lines[3] == f"Run: {planned.journal.folder}"
