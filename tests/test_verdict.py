"""Rows of two sets get the verdict that their samples can carry, and nothing is dropped."""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, mannwhitneyu, rankdata

from fusion.comparison import differences, verdict
from fusion.comparison.verdict import CompareError
from fusion.results import Results
from fusion.stats import rank_test

TABLE = "fused_compute_tflops.csv"
OPPOSITE = {"slower": "faster", "faster": "slower", "only in A": "only in B"}
OPPOSITE |= {there: here for here, there in OPPOSITE.items()}


def cells(latencies, **others):
    """Make a row as it is written; one latency makes a row of an older file."""
    row = {"latency_ms": repr(statistics.median(latencies)), **others}
    if len(latencies) > 1:
        row["latencies_ms"] = json.dumps(list(latencies))
    return row


def made(rows, coverage=None, manifest=None):
    """Make results of rows by operator, or by (operator, dtype, shape, ordinal)."""
    keyed = {}
    for name, row in rows.items():
        operator, *rest = (name, "float32", "[[8]]", 0) if isinstance(name, str) else name
        keyed[(TABLE, operator, *rest)] = row if isinstance(row, dict) else cells(row)
    lines = {name: {"operator": name, **line} for name, line in (coverage or {}).items()}
    return Results(keyed, lines, manifest or {})


def only_row(a, b, **options):
    """Compare two sets of one row each."""
    (row,) = verdict.compare(made({"op": a}), made({"op": b}), **options).rows
    return row


def around(center, count=5, step=0.001):
    """Give distinct latencies with this median, for an odd count."""
    return [center * (1 + step * (index - count // 2)) for index in range(count)]


def brute_force(a, b):
    """Double the smaller tail of the rank sum over all ways to deal the pooled samples."""
    pooled = sorted([*a, *b])
    rank = {value: statistics.fmean(i for i, x in enumerate(pooled) if x == value) for value in a}
    rank |= {value: statistics.fmean(i for i, x in enumerate(pooled) if x == value) for value in b}
    sums = [
        round(2 * sum(rank[value] for value in chosen))
        for chosen in itertools.combinations(pooled, len(a))
    ]
    found = round(2 * sum(rank[value] for value in a))
    tails = sum(x <= found for x in sums), sum(x >= found for x in sums)
    return min(1.0, 2 * min(tails) / len(sums))


def test_separated_samples_beyond_the_threshold_are_slower_with_the_known_p():
    """Five against five that do not overlap have p = 2/252, and the larger latency is slower."""
    row = only_row(around(1.0), around(1.2))
    assert (row.verdict, row.note) == ("slower", "")
    assert row.p == pytest.approx(2 / 252)
    assert row.p_adjusted == pytest.approx(2 / 252)
    assert row.ratio == pytest.approx(1.2)


def test_the_smaller_latency_is_faster():
    """The ratio is B over A, so a B of half the latency is faster with 0.5."""
    row = only_row(around(2.0), around(1.0))
    assert (row.verdict, row.ratio) == ("faster", pytest.approx(0.5))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 9), (2, 4), (3, 3)])
def test_too_few_samples_tell_nothing(n, m):
    """Where even a perfect separation is above alpha the verdict is can't tell, with the counts."""
    row = only_row([1 + i / 1000 for i in range(n)], [9 + i / 1000 for i in range(m)])
    assert (row.verdict, row.note) == ("can't tell", f"{n} and {m} samples: too few")
    assert row.p is None and row.ratio > 8


@pytest.mark.parametrize(("n", "m"), [(4, 4), (3, 5), (1, 39), (2, 8)])
def test_just_enough_samples_tell(n, m):
    """The smallest counts whose reachable p is at most alpha give a verdict at that very p."""
    row = only_row([1 + i / 1000 for i in range(n)], [9 + i / 1000 for i in range(m)])
    assert (row.verdict, row.p) == ("slower", pytest.approx(2 / math.comb(n + m, n)))


def test_row_of_an_older_file_is_one_sample():
    """Without the columns of the repeats, a row counts as its one latency."""
    row = only_row({"latency_ms": "1.5", "count": "5"}, around(1.5))
    assert row.a.samples == (1.5,)
    assert row.note == "1 and 5 samples: too few"


def test_within_the_threshold_is_same_however_significant():
    """A certain difference of 4 % is the same under a threshold of 5 %, and slower under 3 %."""
    a, b = around(1.0), around(1.04)
    assert only_row(a, b, threshold=0.05).verdict == "same"
    assert only_row(a, b, threshold=0.03).verdict == "slower"


def test_faster_begins_at_the_inverse_of_where_slower_begins():
    """At 25 %, 1.25 is slower, its inverse is faster, and what lies between is the same."""
    verdicts = [
        only_row(around(1.0), around(ratio), threshold=0.25).verdict
        for ratio in (1.25, 1.24, 0.81, 0.8)
    ]
    assert verdicts == ["slower", "same", "same", "faster"]


def test_threshold_of_nothing_still_calls_equals_the_same():
    """At 0 % a ratio of exactly 1 is the same."""
    assert only_row(around(1.0), around(1.0), threshold=0.0).verdict == "same"


def test_large_but_overlapping_difference_may_be_noise():
    """Beyond the threshold, but with ranks that mix, is can't tell."""
    row = only_row([1.0, 1.1, 1.2, 5.0, 5.1], [0.9, 1.15, 1.6, 4.9, 5.2])
    assert (row.verdict, row.note) == ("can't tell", verdict.NOISE)
    assert row.p > 0.05


def test_what_is_significant_alone_may_be_noise_among_many():
    """A row below alpha that does not survive the correction names the number of rows."""
    a, b = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], [1.35, 1.6, 1.7, 1.8, 1.9, 2.0]
    others = {f"op{index}": around(1.0, 6) for index in range(30)}
    found = verdict.compare(made({**others, "x": a}), made({**others, "x": b}))
    (row,) = found.of("can't tell")
    assert row.p < 0.05 < row.p_adjusted
    assert row.note == "the difference may be noise: among 31 rows some look like this"


def test_medians_against_ranks_is_no_verdict():
    """Where the medians and the ranks point in opposite directions, neither is believed."""
    low, high = np.linspace(1, 1.01, 60), np.linspace(10, 10.1, 61)
    b_low, b_high = np.linspace(9, 9.1, 61), np.linspace(20, 20.1, 60)
    row = only_row([*low.tolist(), *high.tolist()], [*b_low.tolist(), *b_high.tolist()])
    assert row.p_adjusted < 0.05 and row.ratio < 0.95
    assert row.verdict == "can't tell" and "ranks" in row.note


@pytest.mark.parametrize(
    ("latency", "note"),
    [
        ("", "A: latency missing"),
        (None, "A: latency missing"),
        ("0", "A: latency 0"),
        ("0.0", "A: latency 0.0"),
        ("nan", "A: latency nan"),
        ("inf", "A: latency inf"),
        ("-1", "A: latency -1"),
        ("fast", "A: latency fast"),
    ],
)
def test_row_without_a_latency_tells_the_reason(latency, note):
    """A latency that is missing, zero or no number is can't tell, and has no ratio."""
    row = only_row({"latency_ms": latency}, around(1.0))
    assert (row.verdict, row.note, row.ratio) == ("can't tell", note, None)


@pytest.mark.parametrize(
    "text", ["[", "3", "[]", "[1, NaN]", '["1"]', "[0]", "[[1]]", "{}", "[1" + "0" * 400 + "]"]
)
def test_unreadable_repeats_tell_the_reason(text):
    """Repeats that are no list of latencies are can't tell, not a guess."""
    row = only_row(around(1.0), {"latency_ms": "1", "latencies_ms": text})
    assert row.verdict == "can't tell"
    assert row.note == "B: latencies_ms is no JSON list of latencies"


def test_what_is_in_one_side_only_is_listed():
    """A dtype, a shape and a further equal row that one side lacks are listed with its state."""
    key = ("op", "float32", "[[8]]", 0)
    a = made({key: [1.0], ("op", "float16", "[[8]]", 0): [2.0], (*key[:3], 1): [3.0]})
    b = made({key: [1.0], ("op", "float32", "[[9]]", 0): [4.0]})
    found = verdict.compare(a, b)
    assert [row.key[2:] for row in found.of("only in A")] == [
        ("float16", "[[8]]", 0),
        ("float32", "[[8]]", 1),
    ]
    assert [row.key[3] for row in found.of("only in B")] == ["[[9]]"]
    assert {row.note for row in found.of("only in A")} == {"B: 2 rows"}
    assert len(found.rows) == 4


def test_equal_rows_of_different_tables_do_not_match():
    """The table belongs to a row's identity."""
    a = made({"op": [1.0]})
    b = Results({("other.csv", *key[1:]): row for key, row in a.rows.items()}, {}, {})
    assert [row.verdict for row in verdict.compare(a, b).rows] == ["only in A", "only in B"]


def test_operators_without_rows_keep_their_status_and_reason():
    """An operator that crashed, was skipped or is unknown on one side is named with its state."""
    a = made({"op": [1.0]}, {"op": {"status": "PASSED"}, "old": {"status": "DISABLED"}})
    b = made(
        {}, {"empty": {"status": "PASSED"}, "op": {"status": "CRASHED", "reason": "signal 11"}}
    )
    found = verdict.compare(a, b)
    assert [(item.operator, item.a, item.b) for item in found.unmeasured] == [
        ("op", "1 row", "CRASHED: signal 11"),
        ("old", "DISABLED", "not in its results"),
        ("empty", "not in its results", "PASSED"),
    ]
    assert found.rows[0].note == "B: CRASHED: signal 11"


def test_partial_operator_says_so_beside_its_rows():
    """The state of an operator with rows names the status unless it passed."""
    a = made({"op": [1.0], ("op", "bool", "[]", 0): [1.0]})
    b = made({"op": [1.0]}, {"op": {"status": "PARTIAL", "reason": "case 1 failed"}})
    (row,) = verdict.compare(a, b).of("only in A")
    assert row.note == "B: 1 row, PARTIAL: case 1 failed"


def test_operator_that_ended_differently_is_named_although_it_has_rows():
    """A repeat that crashed in B leaves rows with fewer samples, and must not go unnoticed."""
    statuses = {name: {"status": "PASSED"} for name in ("worse", "equal", "unknown")}
    crashed = {"status": "PARTIAL", "reason": "repeat 3: CRASHED: signal 11"}
    rows = {name: [1.0] for name in statuses}
    a, b = made(rows, statuses), made(rows, {"worse": crashed, "equal": {"status": "PASSED"}})
    (ended,) = verdict.compare(a, b).ended
    assert (ended.operator, ended.a) == ("worse", "1 row")
    assert ended.b == "1 row, PARTIAL: repeat 3: CRASHED: signal 11"


def test_one_changed_row_among_many_needs_more_repeats():
    """Five repeats cannot tell one changed row among 100, as many as are advised can."""
    few = many_rows(100, 5)
    assert {row.verdict for row in few.rows} == {"same", "can't tell"}
    assert few.repeats == rank_test.enough_repeats(100) == 8
    (lonely,) = (row for row in few.rows if row.ratio > 1.4 or row.ratio < 0.7)
    assert lonely.note == "5 and 5 samples: too few for one changed row among 100"
    enough = many_rows(100, few.repeats)
    assert [row.key[1] for row in enough.of("slower")] == ["op0"]
    assert enough.repeats is None


def many_rows(rows, count):
    """Compare rows of which the first alone has changed."""
    chance = random.Random(rows)
    sides = [
        {
            f"op{index}": [
                (1.5 if index == side == 0 else 1) * chance.uniform(1, 1.001) for _ in range(count)
            ]
            for index in range(rows)
        }
        for side in (1, 0)
    ]
    return verdict.compare(*map(made, sides))


@pytest.mark.parametrize(("rows", "repeats"), [(1, 4), (2, 5), (1000, 9), (10_000, 11)])
def test_advised_repeats_are_the_fewest_that_reach_the_corrected_level(rows, repeats):
    """The advice is the smallest n with 2/C(2n,n) <= alpha / rows."""
    assert rank_test.enough_repeats(rows) == repeats
    assert 2 / math.comb(2 * repeats, repeats) <= 0.05 / rows
    assert 2 / math.comb(2 * repeats - 2, repeats - 1) > 0.05 / rows


def test_correction_is_that_of_benjamini_and_hochberg():
    """Adjusted p are p times the number of tested rows over its rank, made monotonous."""
    rows = {
        "certain": (around(1.0, 7), around(2.0, 7)),
        "likely": (around(1.0), around(2.0)),
        "none": (around(1.0), around(1.0)),
        "untested": ([1.0], [2.0]),
    }
    a, b = (made({name: pair[side] for name, pair in rows.items()}) for side in (0, 1))
    found = {row.key[1]: row for row in verdict.compare(a, b).rows}
    assert found["certain"].p_adjusted == pytest.approx(3 * 2 / math.comb(14, 7))
    assert found["likely"].p_adjusted == pytest.approx(3 * 2 / 252 / 2)
    assert found["untested"].p_adjusted is None


def test_few_samples_need_no_import_of_scipy():
    """Its import would take longer than the comparison of 10,000 rows."""
    code = (
        "import sys; from fusion.stats.rank_test import tested;"
        "tested([(0, [1, 2, 3, 4], [5, 6, 7, 8]), (1, [1, 1, 2, 3], [1, 5, 6, 7])]);"
        "sys.exit('scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_pure_noise_gives_no_verdict_of_change():
    """A thousand rows of nothing but noise are neither slower nor faster, though many look it."""
    chance = np.random.default_rng(5)
    sides = [
        {f"op{i}": list(map(float, chance.lognormal(0, 0.2, 9))) for i in range(1000)}
        for _ in range(2)
    ]
    found = verdict.compare(*map(made, sides))
    assert found.overall.counts["slower"] == found.overall.counts["faster"] == 0
    assert found.overall.counts["can't tell"] > 300
    assert sum(row.p < 0.05 for row in found.rows) > 10


small = st.lists(st.integers(1, 6).map(float), min_size=1, max_size=5)


@given(small, small)
def test_p_is_the_exact_one_with_and_without_ties(a, b):
    """For few samples p equals the count over all permutations, and never undercuts its minimum."""
    p, _ = rank_test.rank_test([a], [b])
    assert p[0] == pytest.approx(brute_force(a, b))
    assert p[0] >= rank_test.reachable(len(a), len(b))


@pytest.mark.parametrize(("n", "m"), [(4, 4), (7, 9), (2, 30), (50, 50)])
def test_p_without_ties_is_scipys_exact_one(n, m):
    """Rows of distinct samples, tested at once, get what SciPy counts for each."""
    chance = np.random.default_rng(n)
    a, b = chance.normal(0, 1, (40, n)), chance.normal(0.5, 1, (40, m))
    known = mannwhitneyu(a, b, axis=1, method="exact").pvalue
    p, lean = rank_test.rank_test(a, b)
    assert p == pytest.approx(known)
    assert (np.sign(lean) == np.sign(n * m / 2 - mannwhitneyu(a, b, axis=1).statistic)).all()


@given(st.lists(st.lists(st.integers(0, 5), min_size=7, max_size=7), min_size=1, max_size=5))
def test_equal_samples_share_the_mean_of_their_ranks(rows):
    """Ranks are SciPy's, doubled so that they are whole."""
    doubled, untied = rank_test._doubled_ranks(np.array(rows, dtype=float))
    assert (doubled == 2 * rankdata(rows, axis=1)).all()
    assert untied.tolist() == [2, 4, 6, 8, 10, 12, 14]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_is_scipys(p):
    """The correction of any list of p, in any order and with ties, is SciPy's."""
    assert rank_test._adjusted(np.array(p)) == pytest.approx(false_discovery_control(p))


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_p_never_undercuts_what_the_counts_can_reach(n, m, values, seed):
    """With many ties and any counts, p is a number between the reachable minimum and 1."""
    chance = np.random.default_rng(seed)
    a, b = chance.integers(1, 1 + values, (2, n)), chance.integers(values, 2 * values, (2, m))
    p, _ = rank_test.rank_test(a, b)
    assert (p >= rank_test.reachable(n, m)).all() and (p <= 1).all()


def test_normal_approximation_of_many_ties_is_not_believed_below_the_minimum():
    """Three against 101 equal ones approximate to 1e-23, which no dealing of 104 can reach."""
    p, _ = rank_test.rank_test([[2.0] * 3], [[1.0] * 101])
    assert p[0] == pytest.approx(2 / math.comb(104, 3))


def test_many_equal_samples_are_no_evidence():
    """Sixty against sixty of one value have p = 1."""
    assert rank_test.rank_test([[1.0] * 60], [[1.0] * 60])[0][0] == 1


def test_no_more_repeats_are_advised_where_every_row_was_told():
    """Rows that are the same need no further repeats, however many rows there are."""
    rows = {f"op{index}": around(1.0) for index in range(50)}
    assert verdict.compare(made(rows), made(rows)).repeats is None


latencies = st.lists(
    st.one_of(st.floats(0.9, 1.3), st.sampled_from([1.0, 1.05, 1.5])), min_size=1, max_size=7
)
sides = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), latencies)


@given(sides, sides)
def test_exchanging_the_sides_inverts_ratios_and_verdicts(a, b):
    """B against A has the inverse ratios, the same p and the opposite verdicts."""
    there, back = (verdict.compare(*map(made, pair)) for pair in ((a, b), (b, a)))
    other = {row.key: row for row in back.rows}
    assert {row.key for row in there.rows} == set(other)
    for row in there.rows:
        assert other[row.key].verdict == OPPOSITE.get(row.verdict, row.verdict)
        assert other[row.key].p == pytest.approx(row.p) if row.p else other[row.key].p is None
        assert row.ratio is None or row.ratio * other[row.key].ratio == pytest.approx(1)


def test_order_is_by_verdict_then_by_the_size_of_the_change():
    """Slower rows come first, the largest ratio first, then faster, can't tell, same."""
    ratios = {"s": 1.0, "f1": 0.8, "x1": 2.0, "f2": 0.5, "x2": 3.0}
    a = made({**{name: around(1.0, 9) for name in ratios}, "c": [1.0], "n": {"latency_ms": ""}})
    b = made({**{n: around(r, 9) for n, r in ratios.items()}, "c": [2.0], "n": [1.0]})
    found = verdict.compare(a, b)
    assert [row.key[1] for row in found.rows] == ["x2", "x1", "f2", "f1", "c", "n", "s"]


def test_operators_are_summed_up_by_geometric_mean_and_counts():
    """Means are geometric over the rows with both latencies; every verdict is counted."""
    keys = [("op", "float32", shape, 0) for shape in ("[1]", "[2]", "[3]", "[4]")]
    a = made(dict(zip(keys, ([1.0], [1.0], {"latency_ms": "nan"}, [1.0]))))
    b = made({**dict(zip(keys, ([2.0], [8.0], [1.0]))), "other": [1.0]})
    found = verdict.compare(a, b)
    means = {item.name: item.geometric_mean for item in found.operators}
    assert means == {"op": pytest.approx(4.0), "other": None}
    assert found.overall.geometric_mean == pytest.approx(4.0)
    assert found.operators[0].counts == {
        "slower": 0,
        "faster": 0,
        "can't tell": 3,
        "same": 0,
        "only in A": 1,
        "only in B": 0,
    }


def test_different_logical_work_is_noted():
    """A row whose work is counted differently says so, whatever its verdict."""
    a, b = (cells(around(1.0), logical_bytes=count) for count in ("100", "120"))
    row = only_row(a, b)
    assert (row.verdict, row.note) == ("same", "logical_bytes: A 100, B 120")
    assert only_row(a, around(1.0)).note == ""


def test_why_a_side_cannot_be_relied_on_is_noted():
    """A row that is slower because others used its CPUs says so beside the verdict."""
    busy = "embedded suite; unstable: 40 % of its CPUs' time went to others; no baseline latency"
    row = only_row(cells(around(1.0), note="no baseline"), cells(around(2.0), note=busy))
    assert row.verdict == "slower"
    assert row.note == "B unstable: 40 % of its CPUs' time went to others"


MANIFEST = {
    "machine": {"host": "one", "cpu_model": "x", "cpus": 8, "memory_bytes": 1, "kernel": "6.1"},
    "settings": {
        "warmup": {"value": 5, "source": "default"},
        "output_dir": {"value": "/a", "source": "default"},
    },
    "conditions": {"warmup": 5, "shapes": "abc", "formulas": "f1"},
    "suite": "FlagGems",
    "suite_revision": "r1",
    "formulas_sha256": "f1",
    "targets": {"sha256": "t1"},
    "versions": {"torch": "2.0", "triton": "3"},
    "pinned": True,
    "pinning": "numactl",
    "omp_threads": 8,
}


def named_differences(a, b):
    return {d.name: (d.a, d.b) for d in verdict.compare(a, b).differences}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"machine": {**MANIFEST["machine"], "host": "two"}}, {"machine host": ("one", "two")}),
        ({"machine": {**MANIFEST["machine"], "kernel": "6.2"}}, {"machine kernel": ("6.1", "6.2")}),
        ({"settings": {"warmup": {"value": 9, "source": "x"}}}, {"setting warmup": (5, 9)}),
        ({"conditions": {"shapes": "xyz"}}, {"condition shapes": ("abc", "xyz")}),
        ({"suite_revision": "r2"}, {"suite revision": ("r1", "r2")}),
        ({"formulas_sha256": "f2"}, {"formulas SHA-256": ("f1", "f2")}),
        ({"targets": {"sha256": "t2"}}, {"targets SHA-256": ("t1", "t2")}),
        (
            {"targets": {"sha256": "t1", "measured": {"when": "now", "host": "one"}}},
            {"measured ceilings": (None, "now on one")},
        ),
        ({"versions": {"torch": "2.0"}}, {"version of triton": ("3", None)}),
        ({"omp_threads": 4}, {"omp_threads": (8, 4)}),
        ({"pinned": False}, {"pinned": (True, False)}),
        ({"repeat": 5}, {"repeats per operator": (1, 5)}),
        ({"created": "later", "run_id": "2"}, {}),
        (
            {"settings": {**MANIFEST["settings"], "output_dir": {"value": "/b", "source": "x"}}},
            {},
        ),
    ],
)
def test_differences_of_two_manifests(change, expected):
    """What changes a measurement is a difference with both values; what does not is none."""
    a, b = made({}, manifest=MANIFEST), made({}, manifest={**MANIFEST, **change})
    assert named_differences(a, b) == expected


def test_without_a_manifest_the_rows_speak():
    """A side without a manifest is said to be unknown, and the rows' columns are compared."""
    a = made({"x": {"iter": "1", "mode": "kernel"}, "y": {"iter": "1"}, "z": {"iter": "3"}})
    b = made({"x": {"iter": "2", "mode": "kernel"}, "y": {"iter": "1"}}, manifest=MANIFEST)
    found = verdict.compare(a, b)
    assert found.unknown == ("A has no manifest: its machine and settings are unknown",)
    assert named_differences(a, b) == {"iter of 1 of 2 rows": ("1", "2")}


@pytest.mark.parametrize(
    ("revision", "told"),
    [
        ("unknown revision", "a suite of unknown revision: its code may differ"),
        ("ed2508bc-dirty", "a suite with local changes, ed2508bc-dirty: its code may differ"),
    ],
)
def test_equal_revisions_that_say_little_are_no_agreement(revision, told):
    """Two copies without git, or with changes, look the same and may be anything."""
    a, b = (made({}, manifest={**MANIFEST, "suite_revision": name}) for name in (revision, "r1"))
    assert verdict.compare(a, a).unknown == (f"A measured {told}", f"B measured {told}")
    assert verdict.compare(b, b).unknown == ()


def test_other_pipelines_are_a_difference_even_with_manifests():
    """A pipeline is chosen outside the settings, so the rows are asked."""
    a, b = (made({"x": {"pipeline": name}}, manifest=MANIFEST) for name in ("matrix", "vector"))
    assert named_differences(a, b) == {"pipeline of 1 of 1 rows": ("matrix", "vector")}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5%", 0.05),
        ("5 %", 0.05),
        ("0.05", 0.05),
        (" .5 ", 0.5),
        ("0", 0),
        ("0%", 0),
        ("99.9%", 0.999),
    ],
)
def test_threshold_is_a_share_or_a_percentage(text, value):
    """A share and a percentage mean the same."""
    assert verdict.threshold(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "%", "-5%", "-0.1", "nan", "inf", "100%", "1", "5", "five", "5%%", "1e-2", "0,05"]
)
def test_other_thresholds_are_refused(text):
    """What is no share below 1 is refused with the option, what is expected and what was found."""
    with pytest.raises(CompareError, match=r"--threshold: expected .* 5% or 0\.05, found") as error:
        verdict.threshold(text)
    assert repr(text) in str(error.value)


def test_nothing_against_nothing_is_a_comparison_without_rows():
    """Empty results compare, with no mean and no advice."""
    found = verdict.compare(made({}), made({}))
    assert (found.rows, found.overall.geometric_mean, found.repeats) == ((), None, None)


def test_changed_state_of_the_machine_is_a_difference():
    """A governor that was changed between two runs explains more than any row."""
    found = differences.differences(
        *(
            Results({}, {}, {"operators": [{"before": {"governor": governor, "turbo": None}}]})
            for governor in ("performance", "powersave")
        )
    )
    assert [(each.name, each.a, each.b) for each in found] == [
        ("machine governor", "performance", "powersave")
    ]
