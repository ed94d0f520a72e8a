"""Attach to an unmodified benchmark suite inside its pytest child.

Before a case is timed, its formula is evaluated on the actual arguments; the value joins the
record that the suite writes, and every case is appended to ``cases.jsonl`` in the child's working
directory as it goes, so that a crash loses only the case that was running. Nothing here runs
between the start and the end of a measurement.

Imports the standard library, PyYAML and pytest alone, besides the modules of the formulas.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterator

import pytest

from fusion.contract import (
    CASE_FILE,
    CASE_FORMAT,
    CONFIG_VARIABLE,
    KEY_VARIABLE,
    METRICS,
    UNWRITABLE,
)
from fusion.formulas import tensors
from fusion.formulas.catalogue import Catalogue, Formula

# The suite's own names of what a case file keeps, and the names with units it keeps them under.
_MEASURES = {"latency": "latency_ms", "latency_base": "baseline_latency_ms", "speedup": "speedup"}


def pytest_configure(config: pytest.Config) -> None:
    """Register the attachment when the formula contract is given in the environment."""
    path, key = os.environ.get(CONFIG_VARIABLE), os.environ.get(KEY_VARIABLE)
    if not path and not key:
        return
    if not path or not key:
        raise pytest.UsageError(f"set both {CONFIG_VARIABLE} and {KEY_VARIABLE}, or neither")
    cases = CaseFile(Path(config.invocation_params.dir) / CASE_FILE)
    catalogue = Catalogue.load(Path(path))
    attachment = Attachment(Observer(catalogue, catalogue.resolve(key), cases), cases)
    config.pluginmanager.register(attachment, "fusion_metrics_attachment")


class CaseFile:
    """Append events as JSON lines, each handed to the kernel as soon as it is written."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, event: str, **facts: Any) -> None:
        """Append one event; numbers that JSON lacks (NaN, infinity) become strings."""
        line = json.dumps(_strict({"event": event, **facts}), allow_nan=False, default=str)
        data = line.encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            # To measure on would be to lose what is measured: the suite catches exceptions.
            os.write(2, f"{CASE_FILE} could not be written: {error}\n".encode())
            os._exit(UNWRITABLE)


class Attachment:
    """Hook the observer into pytest and into the suite's modules."""

    def __init__(self, observer: Observer, cases: CaseFile) -> None:
        self._observer = observer
        self._cases = cases

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Attach once the suite's classes exist and before the first benchmark runs."""
        modules = suite_modules()
        attach(modules, self._observer)
        complete_torch()
        self._cases.write(
            "session",
            format=CASE_FORMAT,
            python=platform.python_version(),
            pid=os.getpid(),
            attached=[module.__name__ for module in modules],
            tests=len(session.items),
            versions=loaded_versions(),
            pinning=pinning(),
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected."""
        if report.outcome != "passed":
            self._cases.write(
                "collect", node=report.nodeid, outcome=report.outcome, message=reason(report)
            )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Name the test that is about to run."""
        self._cases.write("test_started", node=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test's phase, unless it is an uneventful set-up or teardown."""
        if report.when == "call" or report.outcome != "passed":
            self._observer.settle()
            self._cases.write(
                "test",
                node=report.nodeid,
                phase=report.when,
                outcome=outcome(report),
                message=reason(report),
            )

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Mark that pytest came to its own end."""
        self._cases.write("end", exit=int(exitstatus), pinning=pinning())


class Observer:
    """Follow one benchmark object through its cases and write them down."""

    def __init__(self, catalogue: Catalogue, formula: Formula, cases: CaseFile) -> None:
        self._catalogue = catalogue
        self._default = formula
        self._cases = cases
        self._count = 0
        self._benchmark: Any = None
        self._dtype: str | None = None
        self._logical: dict[str, Any] = {}
        self._case: dict[str, Any] = {}
        self._unwritten = False

    def watches(self, benchmark: Any) -> bool:
        """Tell whether this benchmark is already being followed."""
        return self._benchmark is benchmark

    def enter(self, benchmark: Any) -> None:
        """Begin to follow a benchmark object."""
        self._benchmark, self._dtype = benchmark, None

    def leave(self) -> None:
        """Stop following; write what is left of the last case."""
        self.settle()
        self._benchmark = None

    def begin_dtype(self, dtype: Any) -> None:
        """Note the dtype whose cases come next."""
        self.settle()
        self._dtype = str(dtype).rpartition(".")[2]

    def arguments(self, args: Any, kwargs: Any) -> None:
        """Evaluate the formula on the arguments of the case that is about to be timed."""
        name = str(getattr(self._benchmark, "op_name", ""))
        formula = self._catalogue.find(name) or self._default
        self._logical = {"op_name": name, "operator": formula.operator}
        try:
            self._logical[formula.metric] = formula.value(args, kwargs)
        except Exception as error:  # a formula must never cost the measurement
            self._logical["formula_error"] = f"{type(error).__name__}: {error}"
        with suppress(Exception):  # a dtype of unknown size
            self._logical["tensor_bytes"] = tensors.total_bytes((args, kwargs))

    def saw(self, metrics: Any, name: str, value: Any) -> None:
        """Follow one assignment to the suite's metrics object."""
        if name == "shape_detail":
            self._start(metrics, value)
        elif name in _MEASURES:
            self._case[_MEASURES[name]] = value
            self._unwritten = True
            if name == "latency":
                self._write("measured")
        elif name in METRICS:
            self._case[name] = value
            self._unwritten = "state" in self._case
        elif name == "error_msg":
            self._case["error"] = str(value)
            self._write("failed")

    def settle(self) -> None:
        """Write what was learnt of the current case since its last line."""
        if self._unwritten:
            self._write(self._case["state"])

    def _start(self, metrics: Any, shape: Any) -> None:
        self.settle()
        logical, self._logical = self._logical, {}
        self._case = {"case": self._count, "dtype": self._dtype, "shape": shape, **logical}
        for metric in METRICS:
            if metric in logical and metrics._open_to_values:
                setattr(metrics, metric, logical[metric])
        self._count += 1
        self._write("started")

    def _write(self, state: str) -> None:
        self._case["state"] = state
        self._unwritten = False
        self._cases.write("case", **self._case)


def suite_modules() -> list[ModuleType]:
    """Return the imported modules through which a suite makes its metrics objects."""
    return [
        module
        for name, module in list(sys.modules.items())
        if module is not None
        and (name == "benchmark" or name.startswith("benchmark."))
        and isinstance(vars(module).get("BenchmarkMetrics"), type)
    ]


def attach(modules: list[ModuleType], observer: Observer) -> None:
    """Have the modules' metrics objects and benchmark classes report to the observer."""
    originals = {id(cls): cls for cls in (vars(module)["BenchmarkMetrics"] for module in modules)}
    observed = {key: observed_metrics(cls, observer) for key, cls in originals.items()}
    families = {id(cls): cls for module in modules for cls in _benchmark_classes(module)}
    for module in modules:
        setattr(module, "BenchmarkMetrics", observed[id(vars(module)["BenchmarkMetrics"])])
    for cls in families.values():
        if "run" in vars(cls):
            setattr(cls, "run", followed(vars(cls)["run"], observer))


def observed_metrics(original: type, observer: Observer) -> type:
    """Derive a metrics dataclass that carries the logical values and reports each assignment.

    A class that has the fields already belongs to a suite that evaluates the formulas itself:
    its values are read and never set.
    """
    known = {field.name for field in dataclasses.fields(original)}
    extra = [
        (name, "int | None", dataclasses.field(default=None))
        for name in METRICS
        if not known.intersection(METRICS)
    ]

    def __setattr__(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if value is not None:
            observer.saw(self, name, value)

    return dataclasses.make_dataclass(
        original.__name__,
        extra,
        bases=(original,),
        namespace={"__setattr__": __setattr__, "_open_to_values": bool(extra)},
    )


def followed(run: Callable[..., Any], observer: Observer) -> Callable[..., Any]:
    """Wrap a benchmark's ``run`` so that the observer sees its dtypes and arguments."""

    @functools.wraps(run)
    def wrapper(benchmark: Any, *args: Any, **kwargs: Any) -> Any:
        if observer.watches(benchmark):
            return run(benchmark, *args, **kwargs)
        observer.enter(benchmark)
        _precede(benchmark, "get_input_iter", lambda dtype, *a, **k: observer.begin_dtype(dtype))
        _precede(benchmark, "record_shapes", lambda *a, **k: observer.arguments(a, k))
        try:
            return run(benchmark, *args, **kwargs)
        finally:
            observer.leave()

    return wrapper


def _precede(benchmark: Any, name: str, note: Callable[..., None]) -> None:
    """Shadow one method of one object by a call of ``note`` and then the method itself."""
    method = getattr(benchmark, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return method(*args, **kwargs)

    setattr(benchmark, name, noted)


def _benchmark_classes(module: ModuleType) -> Iterator[type]:
    base = vars(module).get("Benchmark")
    if isinstance(base, type):
        yield from _family(base)


def _family(base: type) -> Iterator[type]:
    yield base
    derived: list[type] = base.__subclasses__()
    for child in derived:
        yield from _family(child)


def complete_torch() -> None:
    """Give ``torch.cpu`` the ``empty_cache`` that the suite's teardown calls on every device."""
    cpu = getattr(sys.modules.get("torch"), "cpu", None)
    if cpu is not None and not hasattr(cpu, "empty_cache"):
        cpu.empty_cache = lambda: None


def loaded_versions() -> dict[str, str]:
    """Return the versions of the packages that decide what a measurement means."""
    return {
        name: str(vars(sys.modules[name])["__version__"])
        for name in ("flag_gems", "triton", "torch", "numpy", "pytest")
        if "__version__" in vars(sys.modules.get(name, sys))
    }


def pinning() -> dict[str, str]:
    """Return what is in force in this process: CPUs, memory nodes, memory policy, threads."""
    status = _text("/proc/self/status")
    found = {
        name: line.partition(":")[2].strip()
        for name, key in (("cpus", "Cpus_allowed_list"), ("memory_nodes", "Mems_allowed_list"))
        for line in status.splitlines()
        if line.startswith(key)
    }
    # Each mapping has the policy that it was made under; the first is the program itself. The
    # kernel walks the pages of every mapping that is read, so no more than the first is.
    policy = _beginning("/proc/self/numa_maps").split(maxsplit=2)[1:2]
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return {**found, "memory_policy": "".join(policy), "omp_num_threads": threads}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _beginning(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123
            return stream.read(100).decode(errors="replace")
    except OSError:
        return ""


def outcome(report: pytest.TestReport) -> str:
    """Name an outcome, with ``xfailed`` and ``xpassed`` where an expected failure is declared."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the message behind an outcome, without the traceback."""
    told = report.longrepr
    if isinstance(told, tuple):
        return str(told[2])
    crash = getattr(told, "reprcrash", None)
    text = crash.message if crash is not None else str(told or "")
    expected = getattr(report, "wasxfail", "")
    return f"{expected}: {text}" if expected and text else expected or text


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value
