"""Targets: the scaled peaks, their file, and what a wrong file is told."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from fusion import targets
from fusion.targets import TargetsError

OWN = Path(__file__).parent.parent / "formulas" / "targets.yaml"


def test_scaled_targets_of_the_project():
    """The share of 32 of 304 cores at an efficiency of 0.2 gives the published targets."""
    own = targets.load(OWN)
    assert own.tflops("SME", "float32") == pytest.approx(2.52631579, abs=5e-9)
    assert own.tflops("SME", "bfloat16") == pytest.approx(5.05263158, abs=5e-9)
    assert own.tflops("SVE", "float32") == pytest.approx(0.71578947, abs=5e-9)
    assert own.tflops("SVE", "bfloat16") is None
    assert own.gbps("SVE") == own.gbps("SME") == 30.72


def test_categories_have_their_pipelines():
    """Compute takes SME and memory SVE, unless asked otherwise."""
    own = targets.load(OWN)
    assert (own.pipeline("compute"), own.pipeline("memory")) == ("SME", "SVE")
    assert own.pipeline("memory", "SME") == "SME"


def test_overrides_apply_uniformly():
    """An override replaces the target of every pipeline and dtype."""
    own = targets.load(OWN).overridden(7.0, 100.0)
    assert own.tflops("SVE", "bool") == own.tflops("SME", "float32") == 7.0
    assert own.gbps("SME") == 100.0


def test_missing_pair_is_refused_with_what_exists():
    """The refusal names operator, pair, existing pairs and both ways out."""
    with pytest.raises(TargetsError) as refusal:
        targets.load(OWN).require("compute", "SVE", "bfloat16", "flash_mla")
    message = str(refusal.value)
    for part in ("flash_mla", "SVE and dtype bfloat16", "SME bfloat16", "--target-tflops"):
        assert part in message


def test_memory_needs_no_pair():
    """A memory target holds for every dtype."""
    assert targets.load(OWN).require("memory", "SVE", "bfloat16", "x") == 30.72


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version: 2\npipelines: {A: {}}", "version: expected 1, found 2"),
        ("version: 1", "pipelines: expected a mapping"),
        ("version: 1\npipelines: {}", "at least one pipeline"),
        ("version: 1\npipelines: {A: {speed: 1}}", "pipelines.A: expected only"),
        ("version: 1\npipelines: {A: {gbps: -1}}", "pipelines.A.gbps: expected a positive number"),
        ("version: 1\npipelines: {A: {gbps: .nan}}", "a positive number"),
        ("version: 1\npipelines: {A: {peak_tflops: {float32: x}}}", "peak_tflops.float32"),
        ("version: 1\npipelines: {A: {}}\ndefaults: {memory: B}", "defaults.memory"),
        ("version: 1\nscale: {cores: 1}\npipelines: {A: {}}", "scale.efficiency"),
        ("version: 1\npipelines: {A: {}, A: {}}", "duplicate key 'A'"),
        ("[", "2:1"),
    ],
)
def test_wrong_file_is_refused_with_its_entry(tmp_path, text, complaint):
    """Each error of a targets file names the file and what is wrong in it."""
    path = tmp_path / "targets.yaml"
    path.write_text(text + "\n")
    with pytest.raises(targets.Refusal, match=None) as refusal:
        targets.load(path)
    assert str(refusal.value).startswith(str(path))
    assert complaint in str(refusal.value)


def test_file_without_scale_means_what_it_says(tmp_path):
    """A peak without a scale is the target itself."""
    path = tmp_path / "targets.yaml"
    path.write_text("version: 1\npipelines: {GPU: {peak_tflops: {float16: 900}, gbps: 4800}}\n")
    read = targets.load(path)
    assert (read.tflops("GPU", "float16"), read.gbps("GPU")) == (900, 4800)
    assert read.pipeline("compute") == read.pipeline("memory") == "GPU"


RATES = {"copy": 10, "scale": 11.5, "add": 12, "triad": 9}
CEILING = {
    "numa_node": 0,
    "cpus": "0-3",
    "threads": 4,
    "array_bytes": 80,
    "gbps": RATES,
    "tflops": {"float32": 2.5},
    "unsupported": {"float16": "no BLAS"},
}
OTHER = {**CEILING, "numa_node": 1, "cpus": "4-7", "gbps": {**RATES, "triad": 8, "add": 7}}
MEASURED = {
    "when": "2026-05-06T07:08:09+02:00",
    "host": "h",
    "cpu_model": "cpu",
    "kernel": "6.1",
    "python": "3.12.1",
    "library": "numpy 2.2.1",
    "ceilings": [CEILING, OTHER],
}


def calibrated(folder: Path, **changed: object) -> targets.Targets:
    path = folder / "targets.yaml"
    measured = {**MEASURED, **changed}
    kept = {key: value for key, value in measured.items() if value != "left out"}
    path.write_text(yaml.safe_dump({"version": 1, "pipelines": {"A": {}}, "measured": kept}))
    return targets.load(path)


def test_ceiling_is_that_of_node_and_threads(tmp_path):
    """Memory meets the best of STREAM's kernels, compute its dtype's product."""
    read = calibrated(tmp_path)
    assert read.ceiling("memory", "float32", 0, 4) == 12
    assert read.ceiling("memory", None, 1, 4) == 11.5
    assert read.ceiling("compute", "float32", 1, 4) == 2.5


def test_ceiling_that_was_not_measured_is_none(tmp_path):
    """Another node, other threads, another dtype, and a file without ceilings have none."""
    read = calibrated(tmp_path)
    assert read.ceiling("memory", None, 2, 4) is None
    assert read.ceiling("memory", None, 0, 8) is None
    assert read.ceiling("compute", "float16", 0, 4) is None
    assert read.ceiling("compute", None, 0, 4) is None
    assert targets.load(OWN).ceiling("memory", None, 0, 32) is None


def test_child_that_is_not_pinned_meets_the_lowest_ceiling(tmp_path):
    """Without a node the ceilings with as many threads count, whichever node they are of."""
    assert calibrated(tmp_path).ceiling("memory", None, None, 4) == 11.5
    assert calibrated(tmp_path).ceiling("memory", None, None, 8) is None


def test_ceilings_of_another_machine_are_told(tmp_path):
    """The obstacle names both CPUs, or both numbers of threads."""
    measured = calibrated(tmp_path).measured
    assert measured.obstacle("cpu", 4, (0,)) is None
    assert "measured on cpu, this machine is other" in measured.obstacle("other", 4, (0,))
    assert "4 threads, this run has 8" in measured.obstacle("cpu", 8, (0,))


def test_targets_survive_a_saved_plan(tmp_path):
    """What a plan keeps as JSON is read back equal, with ceilings and without."""
    for read in (calibrated(tmp_path), targets.load(OWN).overridden(1.0, None)):
        assert targets.from_json(json.loads(json.dumps(asdict(read)))) == read


def test_plan_from_before_ceilings_is_read():
    """A plan that knows nothing of ceilings has none."""
    saved = asdict(targets.load(OWN))
    del saved["measured"]
    assert targets.from_json(saved) == targets.load(OWN)


def test_time_without_quotes_is_told_to_need_them(tmp_path):
    """YAML would read the time as something else than a text."""
    path = tmp_path / "targets.yaml"
    path.write_text("version: 1\npipelines: {A: {}}\nmeasured: {when: 2026-05-06T07:08:09+02:00}\n")
    with pytest.raises(TargetsError, match=r"measured\.when: expected a text \(in quotes"):
        targets.load(path)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"host": "left out"}, "measured.host: expected a text"),
        ({"python": 3.12}, "measured.python: expected a text (in quotes"),
        ({"whose": "mine"}, "measured: expected only"),
        ({"ceilings": []}, "measured.ceilings: expected a list of at least one binding"),
        ({"ceilings": {}}, "measured.ceilings: expected a list"),
        ({"ceilings": [CEILING, 3]}, "measured.ceilings[1]: expected a mapping, found 3"),
        ({"ceilings": [CEILING, CEILING]}, "found 'node 0 with 4 threads twice'"),
    ],
)
def test_wrong_calibration_is_refused_with_its_entry(tmp_path, changed, complaint):
    """Each error of a calibration names the file and what is wrong in it."""
    with pytest.raises(TargetsError) as refusal:
        calibrated(tmp_path, **changed)
    assert complaint in str(refusal.value)
    assert str(refusal.value).startswith(str(tmp_path / "targets.yaml"))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"threads": 0}, "threads: expected a whole number of at least 1, found 0"),
        ({"threads": 2.0}, "threads: expected a whole number"),
        ({"array_bytes": True}, "array_bytes: expected a whole number"),
        ({"numa_node": -1}, "numa_node: expected a whole number of at least 0"),
        ({"cpus": 3}, "cpus: expected a text (in quotes"),
        ({"cpus": "3-1"}, "cpus: expected a list of CPUs such as '0-31', found '3-1'"),
        ({"cpus": " "}, "cpus: expected a list of CPUs"),
        ({"gbps": {"copy": 1}}, "gbps: expected exactly copy, scale, add, triad"),
        ({"gbps": {**RATES, "dot": 1}}, "gbps: expected exactly"),
        ({"gbps": {**RATES, "add": 0}}, "gbps.add: expected a positive number, found 0"),
        ({"tflops": {"float32": "2"}}, "tflops.float32: expected a positive number"),
        ({"tflops": {"float32": float("inf")}}, "tflops.float32: expected a positive number"),
        ({"unsupported": []}, "unsupported: expected a mapping"),
        ({"speed": 1}, "expected only"),
    ],
)
def test_wrong_ceiling_is_refused_with_its_entry(tmp_path, changed, complaint):
    """Each error of a ceiling names its place in the list."""
    with pytest.raises(TargetsError) as refusal:
        calibrated(tmp_path, ceilings=[OTHER, {**CEILING, **changed}])
    assert f"measured.ceilings[1]{'.' if ':' in complaint else ': '}{complaint}" in str(
        refusal.value
    )
