"""Calibration: the real child with tiny sizes, the file that it leads to, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import stat
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from fusion import calibration, locks, machine, numa, session, targets
from fusion.calibration import CalibrationError, Effort
from fusion.ceilings import KERNELS, Ceiling, Measured
from fusion.errors import Refusal
from fusion.numa import Binding, Placement
from fusion.session import Watcher

OWN = Path(__file__).parent.parent / "formulas" / "targets.yaml"
TINY = Effort(
    array_bytes=800_008,
    repetitions=2,
    matrix_seconds=1e-9,
    matrix_repetitions=1,
    library="numpy",
)
MEASURED = Measured(
    when="2026-05-06T07:08:09.123+02:00",
    host="h",
    cpu_model="a: CPU #1",
    kernel="6.1",
    python="3.12",
    library="numpy 2",
    ceilings=(
        Ceiling(
            0,
            "0",
            1,
            8,
            dict.fromkeys(KERNELS, 1e-05),
            {"float32": 0.5},
            {"float16": "no: x"},
            dict.fromkeys(KERNELS, 1e-06),
            {"float32": 0.25},
            ("others took 25% of the CPUs' time",),
        ),
        Ceiling(1, "8-15", 1, 8, dict.fromkeys(KERNELS, 2.5), {}, {}),
    ),
)
BASES = {
    "own": OWN.read_text(),
    "braces": "{version: 1, pipelines: {A: {gbps: 3}}}\n",
    "no newline at the end": "version: 1\npipelines: {A: {gbps: 3}}  # the last",
    "marked end": "---\nversion: 1\npipelines: {A: {gbps: 3}}\n...\n",
}


def script():
    spec = importlib.util.spec_from_file_location("ceilings_script", calibration.SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = script()


def unpinned(threads: int = 1) -> Placement:
    cpus = tuple(sorted(numa.topology().cpus))
    return Placement((Binding(None, cpus),), threads, False, "not asked", ())


def a_python(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture(scope="module")
def measured():
    return calibration.measure(unpinned(2), sys.executable, os.environ, TINY)


def test_bytes_are_counted_as_stream_counts_them():
    """Copy and scale move two arrays, add and triad three, in units of 10^9 bytes a second."""
    rates = {kernel: SCRIPT.gbps(kernel, 10**9, 0.5) for kernel in KERNELS}
    assert rates == {"copy": 4.0, "scale": 4.0, "add": 6.0, "triad": 6.0}


def test_multiply_add_counts_as_two():
    """A product of n x n matrices is 2 n^3 FLOP."""
    assert SCRIPT.tflops(10_000, 2.0) == 1.0


@pytest.mark.parametrize(
    ("caches", "free", "size"),
    [
        (32 << 20, None, 128 << 20),
        (1 << 20, None, 64 << 20),
        (0, None, 512 << 20),
        (1 << 30, 12 << 30, 1 << 30),
        (32 << 20, 1200, 96),
    ],
)
def test_arrays_lie_beyond_the_caches_and_within_the_memory(caches, free, size):
    """Four times the caches, at least 64 MiB, and all three within a quarter of free memory."""
    assert SCRIPT.array_bytes(caches, free) == size


@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_do_what_stream_does(threads):
    """Each element of every thread's part goes through the four kernels, in uneven blocks too."""
    library = SCRIPT.Numpy(threads)
    count = 2 * SCRIPT.BLOCK * threads + 7
    start = [np.arange(count, dtype=float) + number for number in range(3)]
    a, b, c = (array.copy() for array in start)
    times = [kernel() for kernel in library.kernels(a, b, c).values()]
    scaled = start[0] * SCRIPT.SCALAR
    total = start[0] + scaled
    assert np.array_equal(c, total)
    assert np.array_equal(b, scaled)
    assert np.allclose(a, scaled + SCRIPT.SCALAR * total, rtol=1e-15)
    assert all(taken >= 0 for taken in times)


@pytest.mark.parametrize("missing", KERNELS)
def test_a_kernel_that_does_nothing_is_found_out(missing):
    """STREAM's check refuses results that a kernel did not compute."""
    library = SCRIPT.Numpy(1)
    make = library.kernels
    library.kernels = lambda *arrays: {**make(*arrays), missing: lambda: 1.0}
    with pytest.raises(SCRIPT.CeilingError, match="STREAM array"):
        SCRIPT.stream(library, 8000, 2)


def test_one_wrong_element_is_found_out():
    """STREAM's check looks at every element, and a NaN is no right one."""
    assert SCRIPT.is_close((1.0, 1.0 + 1e-15), 1.0)
    assert not SCRIPT.is_close((1.0, 1.0 + 1e-9), 1.0)
    assert not SCRIPT.is_close((math.nan, math.nan), 1.0)
    assert math.isnan(SCRIPT.Numpy(1).extremes(np.array([1.0, math.nan, 2.0]))[0])


def test_wrong_product_is_no_rate():
    """A dtype whose product is not that of float64 has a reason in place of a rate."""
    library = SCRIPT.Numpy(1)
    library.product = lambda a, b, out: out.fill(0)
    found = SCRIPT.products(library, 1e-9, 1, None)
    assert found["tflops"] == {}
    assert "is wrong" in found["unsupported"]["float32"]


def test_dtype_that_raises_has_its_reason():
    """What the library says to a dtype becomes the reason, in one line."""
    library = SCRIPT.Numpy(1)

    def refuse(a, b, out):
        raise RuntimeError("addmm\nnot implemented")

    library.product = refuse
    found = SCRIPT.products(library, 1e-9, 1, None)
    assert found["unsupported"]["float64"] == "addmm not implemented"


def test_slow_dtype_is_given_up_after_its_trial(monkeypatch):
    """A dtype that would take longer than the limit is not measured."""
    monkeypatch.setattr(SCRIPT, "trial", lambda library, dtype, size: 2.0)
    with pytest.raises(SCRIPT.CeilingError, match="too slow"):
        SCRIPT.fitting_size(SCRIPT.Numpy(1), "float32", 0.2, 5, None)


def test_matrices_stay_within_the_memory():
    """Matrices double only while three of them fit into a quarter of the free memory."""
    size = SCRIPT.fitting_size(SCRIPT.Numpy(1), "float32", 1e9, 1, 4 * 3 * 4 * 128**2)
    assert size == 128


@pytest.mark.parametrize(("slow", "chosen"), [(128, 128 + 16), (128 + 16, 128)])
def test_the_faster_of_two_sizes_is_measured(monkeypatch, slow, chosen):
    """Rows a power of two apart may share few sets of a cache; rows a line wider do not."""
    monkeypatch.setattr(
        SCRIPT, "trial", lambda library, dtype, size: size**3 * (2 if size == slow else 1)
    )
    assert SCRIPT.faster_size(SCRIPT.Numpy(1), "float32", 128) == chosen


def test_integers_are_multiplied_exactly():
    """int8 adds up in 32 bits, and a single wrong element is found out."""
    pytest.importorskip("torch")
    library = SCRIPT.Torch(1)
    a, b, c = SCRIPT.matrices(library, "int8", 32)
    library.product(a, b, c)
    assert library.relative_error(a, b, c) == 0.0 == SCRIPT.tolerance(library.epsilon("int8"), 32)
    c[0, 0] += 1
    assert library.relative_error(a, b, c) > 0


def test_crew_works_on_every_part_and_side_by_side():
    """Every thread gets its own index, and none starts before all are there."""
    together = threading.Barrier(3)
    seen = {}
    SCRIPT.Crew(3).run(lambda index: seen.update({index: together.wait(60)}))
    assert set(seen) == {0, 1, 2}


def test_child_measures_with_the_threads_of_a_run(measured):
    """The real child leaves a rate for each kernel and dtype, and a reason for the others."""
    (found,) = measured.ceilings
    assert (found.numa_node, found.threads, found.array_bytes) == (None, 2, 800_008)
    assert set(found.gbps) == set(KERNELS)
    assert set(found.tflops) == {"float32", "float64"}
    assert set(found.unsupported) == {"float16", "bfloat16", "int8"}
    for best, median in ((found.gbps, found.median_gbps), (found.tflops, found.median_tflops)):
        assert set(best) == set(median)
        assert all(best[name] >= median[name] for name in best)
    assert measured.library == f"numpy {np.__version__}"
    assert measured.cpu_model == machine.cpu_model()


def test_child_with_torch(tmp_path):
    """torch measures the same kernels, with the dtypes that NumPy has no BLAS for."""
    pytest.importorskip("torch")
    found = calibration.measure(
        unpinned(), sys.executable, os.environ, replace(TINY, library="torch")
    )
    (ceiling,) = found.ceilings
    assert found.library.startswith("torch ")
    assert {*ceiling.tflops, *ceiling.unsupported} == set(SCRIPT.DTYPES)
    assert "float32" in ceiling.tflops


def test_pinned_child_runs_on_its_cpus():
    """With numactl the child has the CPUs and the node of its binding, as a run's has."""
    try:
        placement = numa.place(numa.topology(), None, 1, 1)
    except Refusal as refusal:
        pytest.skip(str(refusal))
    if not placement.pinned:
        pytest.skip(f"children cannot be pinned here: {placement.reason}")
    told = []
    found = calibration.measure(placement, sys.executable, os.environ, TINY, told.append)
    (ceiling,) = found.ceilings
    (binding,) = placement.bindings
    assert (ceiling.numa_node, ceiling.cpus) == (binding.node, str(binding.cpus[0]))
    assert told[0] == f"Measuring node {binding.node}, CPUs {binding.cpus[0]}, 1 threads"


def test_command_is_placed_as_a_run_is(tmp_path):
    """The child is numactl, Python, script, with the threads in its environment."""
    placement = Placement((Binding(1, (8, 9)),), 2, True, None, ())
    made = calibration.command(
        placement, placement.bindings[0], "py", tmp_path, Effort(array_bytes=5, library="torch")
    )
    assert made.argv == (
        "numactl",
        "--physcpubind=8-9",
        "--membind=1",
        "py",
        str(calibration.SCRIPT),
        "--array-bytes=5",
        "--library=torch",
    )
    assert made.environment == {"OMP_NUM_THREADS": "2"}


def test_doubts_are_told():
    """Small arrays, unsteady rates and foreign load are named, and nothing else."""
    steady, unsteady = {"best": 10.0, "median": 9.5}, {"best": 10.0, "median": 8.0}
    good = {
        "array_bytes": 400,
        "cache_bytes": 100,
        "gbps": {"copy": steady},
        "tflops": {"float32": steady},
    }
    assert calibration.doubts(good, 0.05) == calibration.doubts(good, None) == []
    (small,) = calibration.doubts({**good, "cache_bytes": 101}, None)
    assert "less than 4 times the last-level caches" in small
    (moving,) = calibration.doubts({**good, "tflops": {"float32": unsteady}}, None)
    assert moving.endswith("more than 10%: float32")
    (foreign,) = calibration.doubts(good, 0.25)
    assert foreign.startswith("others took 25%")


def test_doubts_of_a_real_child_are_told():
    """Arrays that the caches could hold are measured, with a word of doubt."""
    if not machine.last_level_cache():
        pytest.skip("the kernel hides the caches")
    told = []
    found = calibration.measure(unpinned(), sys.executable, os.environ, TINY, told.append)
    assert any("less than 4 times the last-level caches" in text for text in told)
    assert told[1:] == [f"  Doubt: {doubt}" for doubt in found.ceilings[0].doubts]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("echo no library >&2; exit 3", "exit code 3: no library"),
        ("echo '{}'", "exit code 0: {}"),
        ('echo \'{"gbps": {"copy": NaN}, "tflops": {}}\'', "exit code 0"),
        ("kill -9 $$", "signal 9"),
    ],
)
def test_failing_child_is_refused_with_its_output(tmp_path, text, complaint):
    """A child that leaves no result is told with how it ended and where its output is."""
    with pytest.raises(CalibrationError) as refusal:
        calibration.measure(unpinned(), a_python(tmp_path, text), os.environ)
    message = str(refusal.value)
    assert complaint in message
    output = Path(message.rpartition("its output is ")[2])
    assert output.is_file()
    output.unlink()
    output.parent.rmdir()


def test_child_without_end_is_refused(tmp_path):
    """The time limit holds."""
    with pytest.raises(CalibrationError, match=r"no end within 0\.2 s"):
        calibration.measure(
            unpinned(), a_python(tmp_path, "exec sleep 60"), os.environ, timeout=0.2
        )


def test_python_that_is_none_is_refused(tmp_path):
    """A Python that cannot be started is told as such."""
    with pytest.raises(CalibrationError, match="--python"):
        calibration.measure(unpinned(), str(tmp_path / "absent"), os.environ)


def test_stop_leaves_no_child_behind(tmp_path):
    """When the tick raises, the child is gone."""
    mark = tmp_path / "pid"

    def stop():
        if mark.exists() and mark.read_text().strip():
            raise KeyboardInterrupt

    python = a_python(tmp_path, f"echo $$ > {mark}; exec sleep 60")
    with pytest.raises(KeyboardInterrupt):
        calibration.measure(unpinned(), python, os.environ, tick=stop)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_result_is_the_last_line_that_is_one():
    """What a library prints before or after the result does not matter."""
    line = json.dumps({"gbps": {}, "tflops": {}})
    assert calibration.parsed(f"warning\n{line}\n[1]\nbye\n") == {"gbps": {}, "tflops": {}}
    assert calibration.parsed("") is None


def test_real_ceilings_survive_their_file(tmp_path, measured):
    """What was measured is read back exactly, beside the targets of the base."""
    path = tmp_path / "new" / "targets.yaml"
    calibration.write(path, OWN, measured)
    read, own = targets.load(path), targets.load(OWN)
    assert read.measured == measured
    assert (read.pipelines, read.defaults) == (own.pipelines, own.defaults)
    assert read.ceiling("memory", None, None, 2) == max(measured.ceilings[0].gbps.values())


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_any_base_keeps_its_targets(tmp_path, base):
    """However the base is written, the file has its targets and the ceilings."""
    source, path = tmp_path / "base.yaml", tmp_path / "out.yaml"
    source.write_text(base)
    calibration.write(path, source, MEASURED)
    assert targets.load(path).measured == MEASURED
    assert targets.load(path).pipelines == targets.load(source).pipelines


def test_base_keeps_its_comments():
    """The text of a base in lines stays, and the ceilings follow it."""
    text = calibration.merged(OWN.read_text(), MEASURED)
    assert text.startswith(OWN.read_text().rstrip() + "\nmeasured:\n  # ")


def test_new_ceilings_replace_the_old():
    """Calibrating from a calibrated file gives what calibrating from its base gave."""
    old = replace(MEASURED, host="another", ceilings=MEASURED.ceilings[:1])
    once = calibration.merged(OWN.read_text(), old)
    assert calibration.merged(once, MEASURED) == calibration.merged(OWN.read_text(), MEASURED)


def test_ceilings_before_other_keys_are_replaced(tmp_path):
    """What follows the old ceilings in the file stays."""
    base = "version: 1\nmeasured: {ceilings: []}\npipelines: {A: {gbps: 3}}  # kept\n"
    text = calibration.merged(base, MEASURED)
    assert "# kept" in text
    assert list(yaml.safe_load(text)) == ["version", "pipelines", "measured"]


def test_existing_file_is_kept(tmp_path):
    """A file is overwritten by force alone, and the refusal comes before anything is measured."""
    path = tmp_path / "out.yaml"
    path.write_text("mine")
    for refuse in (
        lambda: calibration.check(path, OWN),
        lambda: calibration.write(path, OWN, MEASURED),
    ):
        with pytest.raises(CalibrationError, match="expected a new file, found one"):
            refuse()
    assert path.read_text() == "mine"
    calibration.write(path, OWN, MEASURED, force=True)
    assert targets.load(path).measured == MEASURED


def test_what_cannot_be_written_is_told(tmp_path):
    """Ceilings cost minutes: where their file cannot be written, the message has all of them."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "out.yaml"):
        with pytest.raises(CalibrationError) as refusal:
            calibration.write(path, OWN, MEASURED)
        told = yaml.safe_load(str(refusal.value).partition("\n\n")[2])
        base = tmp_path / "pasted.yaml"
        base.write_text(OWN.read_text() + yaml.safe_dump(told))
        assert targets.load(base).measured == MEASURED


def test_folder_in_place_of_a_file_is_refused(tmp_path):
    """A folder is no file to write, by force neither."""
    with pytest.raises(CalibrationError, match="found a folder"):
        calibration.check(tmp_path, OWN, force=True)


def test_wrong_base_is_refused_before_anything_is_measured(tmp_path):
    """A base that is no targets file is told by name."""
    base = tmp_path / "base.yaml"
    base.write_text("version: 1\n")
    with pytest.raises(targets.TargetsError, match="pipelines"):
        calibration.check(tmp_path / "out.yaml", base)


def test_default_file_is_named_after_the_host(tmp_path):
    """The host's name is made fit for a file name."""
    assert calibration.default_file(tmp_path, "a/b c.d") == tmp_path / "targets-a-b-c.d.yaml"


def test_description_has_each_rate_and_each_reason():
    """People see node, CPUs, threads, rates, and why a dtype has none."""
    text = calibration.describe(MEASURED)
    for part in ("a: CPU #1", "8-15", "triad GB/s", "float32 TFLOPS", "0.5", "float16: no: x"):
        assert part in text


def test_file_that_appears_while_waiting_is_kept(bench):
    """A calibration that waited for another looks again before it measures."""
    file, told = bench.root / "twice.yaml", []
    nodes = [node.id or 0 for node in numa.topology().nodes]
    with ExitStack() as other:
        other.enter_context(locks.nodes(nodes, "other", True, told.append, lambda: None))

        def tell(text):
            told.append(text)
            if not file.exists():
                file.write_text("of the other")
                other.close()

        with pytest.raises(CalibrationError, match="expected a new file"):
            session.calibrate(
                bench.options(), bench.around, str(file), watcher=Watcher(tell=tell), effort=TINY
            )
    assert file.read_text() == "of the other"
    assert not any(text.startswith("Measuring") for text in told)


def test_targets_with_ceilings_are_used_by_a_run(bench):
    """What was calibrated here stands beside the target in every row that it fits."""
    file, found = session.calibrate(
        bench.options(omp_threads="1"), bench.around, "here.yaml", effort=TINY
    )
    assert file == bench.root / "here.yaml"
    measured = bench.run("good", targets=str(file), omp_threads="1")
    assert measured.plan.targets.measured == found
    rates = {row.ceiling for row in measured.rows}
    assert rates == {max(found.ceilings[0].gbps.values())}
    assert all(row.ceiling_pct > 0 for row in measured.rows)
    with pytest.raises(CalibrationError, match="expected a new file"):
        session.calibrate(bench.options(), bench.around, "here.yaml", effort=TINY)


def test_ceilings_of_another_cpu_are_refused(bench):
    """A ceiling of somebody else's machine is no ceiling."""
    file = bench.root / "other.yaml"
    calibration.write(file, OWN, MEASURED)
    with pytest.raises(Refusal, match=r"a: CPU #1.*inv calibrate"):
        bench.plan("good", targets=str(file))


def test_comments_behind_old_ceilings_stay():
    """What stands below the block that is replaced is not part of it."""
    old = calibration.merged(BASES["own"], MEASURED) + "# kept\ndefaults2: 1\n# kept too\n"
    text = calibration.merged(old.replace("defaults2: 1\n", ""), MEASURED)
    assert "# kept\n" in text
    assert "# kept too" in text
    assert yaml.safe_load(text)["measured"]["host"] == "h"
