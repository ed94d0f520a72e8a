"""Targets: the scaled peaks, their file, and what a wrong file is told."""

from __future__ import annotations

from pathlib import Path

import pytest

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
