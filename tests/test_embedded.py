"""Test the embedded suite as the runner meets it: by its command line and its record."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fusion
from fusion import suite

PACKAGE = Path(fusion.__file__).resolve().parent
EMBEDDED = PACKAGE / "embedded"
FORMULAS = PACKAGE.parent / "formulas" / "fusion_metrics_formulas.yaml"
SHAPES = """
GenericBenchmark: {shapes: [[6, 8], [70, 1002], [3, 5, 16]]}
RopeBenchmark: {shapes: [[7], [300]]}
flash_attention_forward:
  shapes:
    - [2, 4, 2, 5, 9, 8, true]
    - [1, 2, 1, 9, 5, 8, true]
    - [1, 2, 2, 70, 90, 8, false, 0.0, false, 20, 10, false]
"""
# What the arguments of the first case look like: the positions that the formulas count on.
FIRST_CASE = {
    "silu_and_mul": [[6, 8], [6, 8]],
    "silu_and_mul_out": [[6, 8], [6, 8]],
    "gelu_and_mul": [[6, 8], [6, 8]],
    "geglu": [[6, 8], None],
    "reglu": [[6, 8], None],
    "dgeglu": [[6, 4], [6, 8], None],
    "dreglu": [[6, 4], [6, 8], None],
    "weight_norm": [[6, 8], [6, 1], 0],
    "fused_add_rms_norm": [[6, 8], [6, 8], [8], [8], 1e-5],
    "skip_layer_norm": [[6, 8], [6, 8], [8], [8], [8]],
    "apply_rotary_pos_emb": [[4, 7, 8, 64], [4, 7, 1, 64], [7, 32], [7, 32]],
    "cross_entropy_loss": [[6, 8], [6]],
    "flash_attention_forward": [
        [2, 5, 4, 8],
        [2, 9, 2, 8],
        [2, 9, 2, 8],
        1 / math.sqrt(8),
        True,
        0.0,
        False,
    ],
    "moe_sum": [[6, 1, 8], [6, 8]],
}
OPERATORS = sorted(FIRST_CASE)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child, free of what steers this pytest."""
    left_out = ("PYTEST_", "PYTHONPATH", "PYTHONWARNINGS", "OMP_", "OPENBLAS_", "FLAGGEMS_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    fixed = {
        "OMP_NUM_THREADS": "3",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**kept, **fixed, **more}


def run(
    folder: Path, *options: str, root: Path = EMBEDDED, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the suite's pytest in a folder that holds the tiny shapes."""
    (folder / "shapes.yaml").write_text(SHAPES)
    command = [sys.executable, "-m", "pytest", "-s", "--strict-markers"]
    fixed = ["--warmup", "1", "--iter", "1", "--shape_file", "shapes.yaml", "--record", "log"]
    chosen = [*command, str(root / "benchmark"), *fixed, *options]
    return subprocess.run(
        chosen, cwd=folder, env=env or environment(), capture_output=True, text=True, check=False
    )


def script(text: str, **more: str) -> Any:
    """Run a script that can import the suite, and return what it prints as JSON."""
    env = environment(PYTHONPATH=str(EMBEDDED), **more)
    command = [sys.executable, "-W", "error", "-c", text]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def not_json(text: str) -> Any:
    """Refuse a constant that strict JSON lacks."""
    raise ValueError(text)


def records(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Read the one record log of a folder: (operator, dtype) -> record, with all its cases."""
    (log,) = folder.glob("result*.log")
    first, *lines = log.read_text().splitlines()
    assert first == "[INFO] Benchmark record logger enabled"
    parsed = [json.loads(line[len("[INFO] ") :], parse_constant=not_json) for line in lines]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in parsed:
        known = found.setdefault((record["op_name"], record["dtype"]), {**record, "result": []})
        known["result"] += record["result"]
    return found


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run every operator once, at the comprehensive level, and return the folder."""
    folder = tmp_path_factory.mktemp("everything")
    done = run(folder, "--level", "comprehensive")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_measured_in_both_dtypes(
    everything: Path, operator: str, dtype: str
) -> None:
    """Every case that equals its baseline has two positive latencies and their ratio."""
    record = records(everything)[operator, dtype]
    assert (record["mode"], record["level"]) == ("kernel", "comprehensive")
    assert record["result"]
    for case in record["result"]:
        assert case["error_msg"] is None
        assert case["latency_base"] > 0 and case["latency"] > 0
        assert case["speedup"] == pytest.approx(case["latency_base"] / case["latency"])


@pytest.mark.parametrize("operator", OPERATORS)
def test_arguments_stand_where_formulas_expect_them(everything: Path, operator: str) -> None:
    """The record shows the arguments in the positions of FlagGems' benchmark."""
    case = records(everything)[operator, "float32"]["result"][0]
    assert case["shape_detail"] == FIRST_CASE[operator]


def test_record_has_the_fields_of_flaggems(everything: Path) -> None:
    """A record and its cases have exactly FlagGems' fields."""
    record = records(everything)["geglu", "float32"]
    assert list(record) == ["op_name", "dtype", "mode", "level", "result"]
    expected = (
        "legacy_shape shape_detail latency_base latency gbps_base gbps speedup accuracy tflops "
        "utilization compared_speedup error_msg"
    )
    assert list(record["result"][0]) == expected.split()


def test_keyword_arguments_are_recorded_apart(everything: Path) -> None:
    """A case with keyword arguments is a list of its positional and its named ones."""
    _, named = records(everything)["flash_attention_forward", "float32"]["result"][2][
        "shape_detail"
    ]
    assert named == {"window_size_left": 20, "window_size_right": 10}


def test_record_is_named_after_the_command_line(tmp_path: Path) -> None:
    """The record's name is made of the arguments, cut to what a file system takes."""
    done = run(tmp_path, "-m", "reglu", "--dtypes", "float32", "-k", "reglu" + " or reglu" * 40)
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = tmp_path.glob("*.log")
    assert log.name.startswith("result-s--strict-markers_")
    assert len(log.name.encode()) == 255


def test_no_record_unless_asked(tmp_path: Path) -> None:
    """Without a record nothing is written, neither here nor beside the suite."""
    done = run(tmp_path, "-m", "reglu", "--record", "none")
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["shapes.yaml"]
    assert not (EMBEDDED / ".pytest_cache").exists()


def test_bfloat16_fails_like_a_dtype_that_a_device_lacks(tmp_path: Path) -> None:
    """bfloat16 is taken as an option and fails the test with the operator's name."""
    done = run(tmp_path, "-m", "silu_and_mul", "--dtypes", "bfloat16")
    assert done.returncode == 1
    message = "ValueError: Given dtype(s) 'bfloat16' can't be supported by this op 'silu_and_mul'"
    assert message in done.stdout
    assert records(tmp_path) == {}


def test_operator_may_be_measured_by_several_tests(everything: Path) -> None:
    """weight_norm has a test for each axis, with a record of its own."""
    cases = records(everything)["weight_norm", "float32"]["result"]
    firsts = [case["shape_detail"] for case in cases if case["shape_detail"][0] == [3, 5, 16]]
    assert firsts == [[[3, 5, 16], [3, 1, 1], 0], [[3, 5, 16], [1, 1, 16], 2]]


def test_one_dtype_gives_one_record(tmp_path: Path) -> None:
    """--dtypes leaves out the other dtypes, and -m the other operators."""
    run(tmp_path, "-m", "silu_and_mul_out", "--dtypes", "float16", "--mode", "wrapper")
    assert list(records(tmp_path)) == [("silu_and_mul_out", "float16")]
    assert records(tmp_path)["silu_and_mul_out", "float16"]["mode"] == "wrapper"


@pytest.mark.parametrize(
    "options",
    [
        ("--mode", "cudagraph"),
        ("--dtypes", "float8"),
        ("--warmup", "-1"),
        ("--iter", "many"),
        ("--unheard-of",),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A wrong option is pytest's usage error, and names itself."""
    done = run(tmp_path, *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert options[0] in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "does not exist"),
        ("a: [", "is not YAML"),
        ("- 1", "must hold NAME"),
        ("skip_layer_norm: {shapes: [8, 8]}", "a list of lists"),
        ("skip_layer_norm: {shapes: [[8]]}", "holds no shape that suits 'skip_layer_norm'"),
    ],
)
def test_bad_shape_files_fail_with_their_reason(
    tmp_path: Path, text: str | None, message: str
) -> None:
    """A shape file that cannot be used fails the test and says why."""
    if text is not None:
        (tmp_path / "bad.yaml").write_text(text)
    done = run(tmp_path, "-m", "skip_layer_norm", "--shape_file", "bad.yaml")
    assert done.returncode == 1
    assert message in done.stdout


FAULTY = """
import numpy as np
import pytest
from . import gated

def wrong_on_wide_rows(x, y):
    return gated.SILU.whole(x, y) + (np.float32(0.25) if x.shape[-1] > 1000 else 0)

def scribbling(x, y):
    x += 1
    return x

def exploding(x, y):
    raise OverflowError("no such size") if x.ndim == 3 else None

@pytest.mark.silu_and_mul
def test_faulty():
    for name, candidate in [("wrong", wrong_on_wide_rows), ("scribbling", scribbling)]:
        try:
            gated.PairBenchmark(name, gated.SILU.whole, candidate, ["float32"]).run()
        except pytest.fail.Exception as failure:
            print(failure)
    bench = gated.PairBenchmark("inputs", gated.SILU.whole, gated.SILU.blocked, ["float32"])
    good = bench.input_fn
    bench.input_fn = lambda shape, dtype: good(1 / 0 if len(shape) == 3 else shape, dtype)
    bench.shapes_for = lambda dtype: [(2, 2), (2, 2, 2), (3, 3)]
    bench.run()
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Run a copy of the suite with faulty operators; return the folder and the exit code."""
    folder = tmp_path_factory.mktemp("faulty")
    root = folder / "suite"
    shutil.copytree(EMBEDDED, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "benchmark" / "test_faulty.py").write_text(FAULTY)
    return folder, run(folder, "-k", "faulty", root=root).returncode


def test_wrong_result_fails_its_case_and_spares_its_neighbours(faulty: tuple[Path, int]) -> None:
    """A candidate unlike its baseline is an error with the largest error, beside good cases."""
    first, second, third = records(faulty[0])["wrong", "float32"]["result"]
    assert "differs from the baseline by up to 0.25" in second["error_msg"]
    assert second["shape_detail"] == [[70, 1002], [70, 1002]]
    assert second["latency"] is None
    assert first["latency"] > 0 and third["latency"] > 0


def test_candidate_cannot_overwrite_its_inputs(faulty: tuple[Path, int]) -> None:
    """An operator that is not in place gets arguments that it cannot write to."""
    cases = records(faulty[0])["scribbling", "float32"]["result"]
    assert all("read-only" in case["error_msg"] for case in cases)


def test_inputs_that_cannot_be_made_spare_later_shapes(faulty: tuple[Path, int]) -> None:
    """A shape whose arguments cannot be made is an error between two good cases."""
    folder, code = faulty
    first, second, third = records(folder)["inputs", "float32"]["result"]
    assert second["error_msg"] == "ZeroDivisionError: division by zero"
    assert first["latency"] > 0 and third["latency"] > 0
    assert code == 1


def test_unavailable_attention_features_fail_one_case(tmp_path: Path) -> None:
    """Dropout is refused by name, and the next shape is measured."""
    shapes = "flash_attention_forward: {shapes: [[1,1,1,4,4,8,true,0.2], [1,1,1,4,4,8,true]]}"
    (tmp_path / "dropout.yaml").write_text(shapes)
    options = ("-m", "flash_attention_forward", "--dtypes", "float32")
    done = run(tmp_path, *options, "--shape_file", "dropout.yaml")
    first, second = records(tmp_path)["flash_attention_forward", "float32"]["result"]
    assert "dropout, debug mask and alibi are not available" in first["error_msg"]
    assert second["latency"] > 0 and done.returncode == 1


TEXTBOOK = """
import json, math
import numpy as np
from benchmark import base, gated, gradients, norms, test_apply_rotary_pos_emb as rope
from benchmark import test_cross_entropy_loss as entropy, test_flash_attention_forward as attention
from benchmark import test_moe_sum as moe, test_weight_norm as weight
draw = lambda *shape, seed=0: base.normal(shape, "float32", seed)
errors = {}
def compare(name, found, wanted):
    errors[name] = float(np.max(np.abs(np.asarray(found, np.float64) - wanted)))
x, y = draw(300, 258, seed=1), draw(300, 258, seed=2)
erf, d = np.vectorize(math.erf), np.float64
compare("silu_and_mul", gated.SILU.blocked(x, y), d(x) / (1 + np.exp(-d(x))) * y)
compare("gelu_and_mul", gated.GELU.blocked(x, y), d(x) * (1 + erf(d(x) / 2**0.5)) / 2 * y)
a, b = d(x)[:, :129], d(x)[:, 129:]
compare("reglu", gated.RELU.blocked_halves(x, None), np.where(a > 0, a, 0) * b)
tanh = np.tanh((2 / math.pi) ** 0.5 * (a + 0.044715 * a**3))
compare("geglu", gated.GELU_TANH.blocked_halves(x, None), a * (1 + tanh) / 2 * b)
def halves(slope, active):
    return np.concatenate([d(x)[:, :129] * z[:, 129:] * slope, d(x)[:, :129] * active], 1)
z = d(y)
u = z[:, :129]
relu = halves(u > 0, np.where(u > 0, u, 0))
compare("dreglu", gradients.RELU.blocked(x[:, :129], y, None), relu)
gelu = lambda v: v * (1 + np.tanh((2 / math.pi) ** 0.5 * (v + 0.044715 * v**3))) / 2
slope = (gelu(u + 1e-5) - gelu(u - 1e-5)) / 2e-5
dgeglu = gradients.GELU_TANH.blocked(x[:, :129], y, None)
compare("dgeglu", dgeglu, halves(slope, gelu(u)))
w, c, s = draw(258, seed=3), draw(258, seed=4), d(x) + y
mean, spread = s.mean(1)[:, None], s.std(1)[:, None]
layer = norms.skip_layer_norm_blocked(x, y, (258,), w, c)
compare("skip_layer_norm", layer, (s - mean) / np.sqrt(spread**2 + 1e-5) * w + c)
x2, y2 = x.copy(), y.copy()
norms.fused_add_rms_norm_blocked(x2, y2, (258,), w, 1e-5)
compare("fused_add_rms_norm", x2, s / np.sqrt((s * s).mean(1)[:, None] + 1e-5) * w)
compare("fused_add_rms_norm residual", y2, s)
q, k = draw(4, 9, 8, 64, seed=5), draw(4, 9, 1, 64, seed=6)
turns = rope.blocked(q, k, *rope.angles(9, "float32"))
angle = np.arange(9)[:, None, None] * 10000.0 ** -(np.arange(32) / 32)
for name, v, turned in zip(("q", "k"), (q, k), turns):
    z = (d(v[..., :32]) + 1j * v[..., 32:]) * np.exp(1j * angle)
    compare("rotary " + name, turned, np.concatenate([z.real, z.imag], -1))
t = np.arange(300) % 258
def loss(w, smooth):
    p = d(x) - np.log(np.exp(d(x)).sum(1))[:, None]
    return -(1 - smooth) * w[t] * p[np.arange(300), t] - smooth * (w * p).mean(1)
ones, kept, e = np.ones(258), t != 1, np.abs(w)
compare("entropy mean", entropy.blocked(x, t), loss(ones, 0).mean())
none = entropy.blocked(x, t, weight=e, ignore_index=1, reduction="none")
compare("entropy none", none, loss(e, 0) * kept)
weighted = (loss(e, 0) * kept).sum() / e[t][kept].sum()
compare("entropy weighted", entropy.blocked(x, t, weight=e, ignore_index=1), weighted)
smooth = entropy.blocked(x, t, weight=e, reduction="sum", label_smoothing=0.1)
compare("entropy smooth", smooth / 300, loss(e, 0.1).sum() / 300)
def attend(q, k, v, causal, left, right):
    out = np.zeros(q.shape)
    for b, i, h in np.ndindex(q.shape[:3]):
        at, g = i + k.shape[1] - q.shape[1], h // (q.shape[2] // k.shape[2])
        low = 0 if left is None else max(0, at - left)
        right = 0 if causal else 1000 if right is None else right
        high = min(k.shape[1], at + right + 1)
        if low < high:
            p = np.exp(d(k[b, low:high, g]) @ q[b, i, h] * 0.3)
            out[b, i, h] = p @ v[b, low:high, g] / p.sum()
    return out
attention.SCORES = 16 * 20
for n, (queries, keys) in enumerate([(50, 20), (20, 50), (1, 33)]):
    q, (k, v) = draw(2, queries, 4, 8, seed=7), draw(2, 2, keys, 2, 8, seed=8)
    masks = [(True, None, None), (False, None, None), (False, 5, 3), (True, 9, -1)]
    for causal, left, right in masks:
        windows = {"window_size_left": left, "window_size_right": right}
        found = attention.blocked(q, k, v, 0.3, causal, **windows)
        right = None if right == -1 else right
        compare(f"attention {n} {causal} {left}", found, attend(q, k, v, causal, left, right))
m, out = draw(40, 3, 258), np.zeros((40, 258), np.float32)
moe.blocked(m, out)
compare("moe_sum", out, d(m).sum(1))
for axis, g in ((0, draw(40, 1, 1)), (2, draw(1, 1, 258))):
    lengths = np.sqrt((d(m) ** 2).sum(tuple({0, 1, 2} - {axis}), keepdims=True))
    compare(f"weight_norm {axis}", weight.blocked(m, g, axis), m / lengths * g)
print(json.dumps(errors))
"""


def test_operators_compute_what_their_names_promise() -> None:
    """Every operator agrees with its textbook definition in double precision."""
    errors = script(TEXTBOOK)
    assert len(errors) == 30
    assert {name: error for name, error in errors.items() if not error < 2e-5} == {}


def test_in_place_operators_start_every_call_from_the_same_arguments() -> None:
    """Every timed call of an in-place operator sees the arguments as they were made."""
    text = """
import json, types
import numpy as np
from benchmark import conftest, consts, norms
conftest.Config = types.SimpleNamespace(mode=consts.BenchMode.OPERATOR, warm_up=1, repetition=30)
seen = []
def operator(x, y):
    seen.append((float(x[0]), float(y[0])))
    x += y
    y *= 2
bench = norms.FusedAddRmsNormBenchmark("x", operator, operator, is_inplace=True)
bench.get_latency(operator, np.full(3, 2.0, np.float16), np.full(3, 5.0, np.float16))
print(json.dumps([len(seen), sorted(set(seen))]))
"""
    calls, starts = script(text)
    assert calls > 100
    assert starts == [[2.0, 5.0]]


DEFAULTS = """
import importlib, json, pathlib, types
import numpy as np
from benchmark import base, conftest, consts, sizes
conftest.Config = types.SimpleNamespace(bench_level=consts.BenchLevel.CORE)
base.normal = lambda shape, dtype, seed=0: np.empty(tuple(shape), dtype)
found = {}
def note(bench):
    for dtype in bench.dtypes:
        cases = bench.get_input_iter(dtype)
        sizes = [[a.nbytes for a in case if isinstance(a, np.ndarray)] for case in cases]
        found[bench.op_name + " " + dtype] = [sum(case) for case in sizes]
base.Benchmark.run = note
for path in sorted(pathlib.Path(base.__file__).parent.glob("test_*.py")):
    module = importlib.import_module("benchmark." + path.stem)
    for name, test in vars(module).items():
        if name.startswith("test_"):
            test()
print(json.dumps([sizes.last_level_caches(sizes.SYSFS), sizes.beyond_cache(), found]))
"""


def test_default_sizes_reach_beyond_the_last_level_cache() -> None:
    """Each operator has two or three core cases, one far larger than the last-level cache."""
    cache, large, found = script(DEFAULTS)
    assert len(found) == 2 * len(OPERATORS)
    for name, cases in found.items():
        # The result is part of the large case as well, at most half of it.
        assert 2 <= len(cases) <= 3 and max(cases) >= large / 2, name
        assert min(cases) < large / 8, name
    if large >= 4 * cache:
        assert all(max(cases) > cache for cases in found.values())


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Lay out a machine of 16 CPUs on two nodes; four CPUs share a cache of 96 MiB.

    The last four have caches of that size to themselves, and do not say so.
    """
    for number in range(16):
        cpu = tmp_path / f"sys/devices/system/cpu/cpu{number}"
        first = number - number % 4
        levels = [
            ("1", "Data", "48K", f"{number}"),
            ("1", "Instruction", "900M", f"{number}"),
            ("2", "Unified", "1024K", f"{number}"),
            ("3", "Unified", "96M") + (() if first == 12 else (f"{first}-{first + 3}",)),
        ]
        for index, texts in enumerate(levels):
            names = ("level", "type", "size", "shared_cpu_list")[: len(texts)]
            write(cpu / f"cache/index{index}", names, texts)
        (cpu / f"node{number // 8}").mkdir()
    return tmp_path


def write(folder: Path, names: tuple[str, ...], texts: tuple[str, ...]) -> None:
    """Write small files as the kernel shows them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text + "\n")


def large_case(root: Path, cpus: list[int], threads: int) -> int:
    """Return the MiB of the large case of a process on some CPUs of a machine."""
    text = f"""
import json, pathlib
from benchmark import sizes, threads
threads.own_cpus = lambda: {cpus}
sizes.SYSFS, sizes.PROCFS = (pathlib.Path({str(root)!r}) / name for name in ("sys", "proc"))
print(json.dumps(sizes.beyond_cache() / sizes.MIB))
"""
    return int(script(text, OMP_NUM_THREADS=str(threads)))


@pytest.mark.parametrize(
    ("cpus", "threads", "expected"),
    [
        ([2, 3], 2, 4 * 96),
        ([1, 5], 2, 8 * 96),
        ([1, 5], 1, 4 * 96),
        ([14, 15], 2, 8 * 96),
        (list(range(16)), 32, 1024),
        ([99], 1, 128),
    ],
)
def test_large_case_is_four_times_the_caches_of_its_threads(
    server: Path, cpus: list[int], threads: int, expected: int
) -> None:
    """Each cache that a thread can fill counts once, up to 1 GiB; unknown ones give 128 MiB."""
    assert large_case(server, cpus, threads) == expected


def test_large_case_is_halved_until_it_fits_the_memory(server: Path) -> None:
    """A sixteenth of what the system, the CPUs' node or the control group leaves is the limit."""
    near = [2, 3]
    available = f"MemTotal: 99999999 kB\nMemAvailable: {16 * 200 << 10} kB"
    write(server / "proc", ("meminfo",), (available,))
    assert large_case(server, near, 2) == 192
    lines = [
        f"MemFree: {16 * 40 << 10}",
        f"Inactive(file): {16 * 10 << 10}",
        "Active(anon): 9999999",
    ]
    node = server / "sys/devices/system/cpu/cpu2/node0"
    write(node, ("meminfo",), ("\n".join(f"Node 0 {line} kB" for line in lines),))
    assert large_case(server, near, 2) == 48
    write(server / "proc/self", ("cgroup",), ("4:pids:/\n0::/slurm/job_7/step_0",))
    groups = server / "sys/fs/cgroup/slurm"
    write(groups / "job_7/step_0", ("memory.max",), ("max",))
    write(groups, ("memory.max",), (str(16 * 30 << 20),))
    assert large_case(server, near, 2) == 24
    write(server / "proc/self", ("cgroup",), ("4:cpu,memory:/slurm/job_7",))
    older = server / "sys/fs/cgroup/memory/slurm"
    write(older, ("memory.limit_in_bytes",), (str(16 * 13 << 20),))
    assert large_case(server, near, 2) == 12


def test_threads_follow_the_environment_and_blas_keeps_to_one() -> None:
    """OMP_NUM_THREADS counts the threads; BLAS gets one unless the user says otherwise."""
    text = """
import json, os, threading
from benchmark import conftest, blocks, threads
met, barrier = set(), threading.Barrier(threads.count())
def work(span):
    met.add(threading.current_thread().name)
    barrier.wait(10)
blocks.ranges(work, threads.count(), 1)
print(json.dumps([len(met), os.environ["OPENBLAS_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]]))
"""
    assert script(text, OMP_NUM_THREADS="3,2", MKL_NUM_THREADS="7") == [3, "1", "7"]
    assert script(text, OMP_NUM_THREADS="1") == [1, "1", "1"]


def test_suite_is_read_without_importing_it() -> None:
    """The runner finds every operator, the modes, the dtypes and the unit of time in the text."""
    found = suite.scan(EMBEDDED, True, "1")
    assert found.modes == ("kernel", "operator", "wrapper")
    assert set(found.dtypes) == {"float16", "float32"}
    assert found.time_unit == "milliseconds"
    for operator in OPERATORS:
        benchmark = found.find([operator])
        assert benchmark is not None and benchmark.marker == operator


def test_plugin_adds_logical_values_to_every_case(tmp_path: Path) -> None:
    """The project's formulas bind the arguments of every operator, and reach the record."""
    env = environment(
        PYTHONPATH=str(PACKAGE / "child"),
        FLAGGEMS_FUSION_METRICS_CONFIG=str(FORMULAS),
        FLAGGEMS_FUSION_METRICS_KEY="geglu",
    )
    done = run(tmp_path, "-p", "fusion_metrics_plugin", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    assert [event["formula_error"] for event in events if "formula_error" in event] == []
    for record in records(tmp_path).values():
        for case in record["result"]:
            assert case["logical_bytes"] or case["logical_flops"], record["op_name"]
    (first, *_) = records(tmp_path)["geglu", "float32"]["result"]
    assert first["logical_bytes"] == 6 * 8 * 4 + 6 * 4 * 4
    (first, *_) = records(tmp_path)["flash_attention_forward", "float32"]["result"]
    assert first["logical_flops"] == 4 * 2 * 4 * 8 * (5 + 6 + 7 + 8 + 9)
