"""Measure this machine's own ceilings, placed as a run is, and keep them in a targets file."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml
from tabulate import tabulate

from fusion import ceilings, cpulist, files, machine, plan, state, targets
from fusion.binding import Binding
from fusion.ceilings import Ceiling, Measured
from fusion.command import Command
from fusion.errors import Refusal
from fusion.numa import Placement
from fusion.outcome import Ending
from fusion.process import Child
from fusion.stability import LARGEST_FOREIGN_SHARE

SCRIPT = Path(__file__).resolve().parent / "embedded" / "ceilings.py"
TIME_LIMIT_SECONDS = 1800.0
TICK_SECONDS = 0.05
BEYOND_CACHE = 4
UNSTEADY = 0.1
LAST_LINES = 3
_KEY = "measured"
_COMMENT = (
    "  # By 'inv calibrate', with the pinning and the threads of a run: STREAM's kernels in GB/s\n"
    "  # (10^9 byte/s), a matrix product per dtype in TFLOPS (10^12 FLOP/s); the best of each.\n"
    "  # The medians say how steady they were.\n"
)


class CalibrationError(Refusal):
    """Refuse a file that cannot be written, or a child that measured nothing."""


@dataclass(frozen=True)
class Effort:
    """Say how much to measure; None leaves it to the child, which looks at caches and memory.

    ``array_bytes`` is the size of each of STREAM's three arrays, ``repetitions`` its timed rounds;
    ``matrix_seconds`` the least time of a product, ``matrix_repetitions`` how many are timed;
    ``library`` is torch or numpy.
    """

    array_bytes: int | None = None
    repetitions: int | None = None
    matrix_seconds: float | None = None
    matrix_repetitions: int | None = None
    library: str | None = None

    def arguments(self) -> tuple[str, ...]:
        """Return the options of the child."""
        given = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        return tuple(
            f"--{name.replace('_', '-')}={value}"
            for name, value in given.items()
            if value is not None
        )


DEFAULT_EFFORT = Effort()


def default_file(output: Path, host: str) -> Path:
    """Return where a host's targets go: into the output folder, named after the host."""
    return output / f"targets-{re.sub('[^A-Za-z0-9._-]+', '-', host) or 'host'}.yaml"


def check(file: Path, base: Path, force: bool = False) -> None:
    """Refuse, before anything is measured, what would refuse the result afterwards.

    Raise CalibrationError for a file that exists (unless ``force``),
    TargetsError or DocumentError for a base that is no targets file, FileError for a folder
    that cannot be written.
    """
    if file.exists() and not force:
        raise CalibrationError(
            f"--output {file}: expected a new file, found one; name another or give --force"
        )
    if file.is_dir():
        raise CalibrationError(f"--output {file}: expected a file to write, found a folder")
    targets.load(base)
    files.check_writable(file.parent)


def command(
    placement: Placement, binding: Binding, python: str, folder: Path, effort: Effort
) -> Command:
    """Return the command that measures one binding, placed as a run places its children."""
    return Command(
        argv=(*placement.prefix(binding), python, str(SCRIPT), *effort.arguments()),
        folder=str(folder),
        environment={"OMP_NUM_THREADS": str(placement.omp_threads)},
    )


def measure(
    placement: Placement,
    python: str,
    environ: Mapping[str, str],
    effort: Effort = DEFAULT_EFFORT,
    tell: Callable[[str], None] = lambda text: None,
    tick: Callable[[], None] = lambda: None,
    timeout: float = TIME_LIMIT_SECONDS,
) -> Measured:
    """Measure each binding in turn; raise CalibrationError naming the output of one that failed.

    ``tell`` is told what is measured and what to doubt; ``tick`` is called many times a second and
    may raise to stop, which leaves no child behind.
    """
    results = []
    for binding in placement.bindings:
        tell(f"Measuring {_subject(placement, binding)}")
        before = state.snapshot(binding.cpus)
        found, ending = _result(placement, binding, python, environ, effort, tick, timeout)
        share = state.foreign_share(
            before,
            state.snapshot(binding.cpus),
            ending.cpu_seconds,
            ending.seconds,
            len(binding.cpus),
        )
        doubted = doubts(found, share)
        results.append(_ceiling(placement, binding, found, doubted))
        for doubt in doubted:
            tell(f"  Doubt: {doubt}")
    return _measured(found, results)


def doubts(found: Mapping[str, Any], foreign_share: float | None) -> list[str]:
    """Say what speaks against a child's result: small arrays, unsteady rates, foreign load.

    ``foreign_share`` is the share of the CPUs' time, 0 to 1, that others had meanwhile.
    """
    size, caches = found["array_bytes"], found["cache_bytes"]
    rates = {**found["gbps"], **found["tflops"]}
    unsteady = [
        name for name, rate in rates.items() if rate["best"] > (1 + UNSTEADY) * rate["median"]
    ]
    said = []
    if size < BEYOND_CACHE * caches:
        said.append(
            f"STREAM's arrays have {size} bytes each, less than {BEYOND_CACHE} times the "
            f"last-level caches ({caches} bytes), which may hold a part of them"
        )
    if unsteady:
        said.append(f"best and median differ by more than {UNSTEADY:.0%}: {', '.join(unsteady)}")
    if foreign_share is not None and foreign_share >= LARGEST_FOREIGN_SHARE:
        said.append(
            f"others took {foreign_share:.0%} of the CPUs' time; measure again without them"
        )
    return said


def write(file: Path, base: Path, measured: Measured, force: bool = False) -> None:
    """Write the base targets with the ceilings, as a whole, once they are seen to load.

    Raise CalibrationError where that cannot be done, with the ceilings: they cost minutes.
    """
    try:
        check(file, base, force)
        text = merged(base.read_text(encoding="utf-8-sig"), measured)
        _check_loads(text, base, measured)
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write(file, text)
    except (OSError, Refusal) as error:
        why = str(error)
        if isinstance(error, OSError):
            why = f"--output {file}: expected a file that can be written, found: {error}"
        raise CalibrationError(
            f"{why}\nWhat was measured can be put at the end of a targets file:\n\n"
            + _block(measured)
        ) from error


def merged(base: str, measured: Measured) -> str:
    """Put ceilings into the text of a targets file, in place of those that it has.

    The rest of the text stays as it is, its comments too, where lines can be added to it; a base
    that is written in one pair of braces is written anew.
    """
    data = {**yaml.safe_load(base), _KEY: _plain(measured)}
    text = f"{_without(base).rstrip()}\n{_block(measured)}"
    return text if _is(text, data) else yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def describe(measured: Measured) -> str:
    """Write the ceilings as a table, and below it why a dtype has none."""
    headers, lines = ceilings.table(measured)
    places = ["right" if header not in ("node", "CPUs") else "left" for header in headers]
    table = tabulate(lines, headers=headers, colalign=places, disable_numparse=True)
    reasons = dict.fromkeys(
        f"{dtype}: {reason}"
        for each in measured.ceilings
        for dtype, reason in each.unsupported.items()
    )
    heading = f"{measured.cpu_model}, {measured.library}, Python {measured.python}"
    return "\n".join([heading, table, *reasons])


def _subject(placement: Placement, binding: Binding) -> str:
    node = "" if binding.node is None else f"node {binding.node}, "
    pinning = "" if placement.pinned else f", not pinned ({placement.reason})"
    cpus = cpulist.render(binding.cpus)
    return f"{node}CPUs {cpus}, {placement.omp_threads} threads{pinning}"


def _result(
    placement: Placement,
    binding: Binding,
    python: str,
    environ: Mapping[str, str],
    effort: Effort,
    tick: Callable[[], None],
    timeout: float,
) -> tuple[dict[str, Any], Ending]:
    """Run one child; its folder is kept only when a message sends somebody to its output."""
    folder = Path(tempfile.mkdtemp(prefix="fusion-calibrate-"))
    output = folder / "output.txt"
    is_kept = False
    try:
        child = command(placement, binding, python, folder, effort)
        ending = _ended(Child(child, environ, output, timeout), tick)
        found = parsed(output.read_text(encoding="utf-8", errors="replace"))
        if ending.returncode == 0 and not ending.timed_out and found is not None:
            return found, ending
        is_kept = True
        subject = _subject(placement, binding)
        raise CalibrationError(_complaint(subject, child, ending, output, timeout))
    except OSError as error:
        raise CalibrationError(
            f"{python}: expected a Python that measures, found: {error}; name another with --python"
        ) from error
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _ended(child: Child, tick: Callable[[], None]) -> Ending:
    try:
        while (ending := child.poll()) is None:
            tick()
            time.sleep(TICK_SECONDS)
        return ending
    except BaseException:
        child.kill()
        raise


def parsed(output: str) -> dict[str, Any] | None:
    """Return the result that a child printed last, None where it printed none."""
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line, parse_constant=_refuse_constant)
        except ValueError:
            continue
        if isinstance(found, dict) and {"gbps", "tflops"} <= set(found):
            return found
    return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _complaint(subject: str, child: Command, ending: Ending, output: Path, timeout: float) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    how = f"exit code {ending.returncode}"
    if ending.returncode < 0:
        how = f"signal {-ending.returncode}"
    if ending.timed_out:
        how = f"no end within {timeout:g} s"
    last = f": {' | '.join(line.strip() for line in lines[-LAST_LINES:])}" if lines else ""
    shell = child.shell().replace(" \\\n    ", " ")
    return (
        f"{subject}: expected ceilings, found {how}{last}; try its command, {shell}, or "
        f"name another Python with --python; its output is {output}"
    )


def _measured(found: Mapping[str, Any], results: list[Ceiling]) -> Measured:
    here = machine.describe()
    return Measured(
        when=plan.now(),
        host=str(here["host"]),
        cpu_model=str(here["cpu_model"]),
        kernel=str(here["kernel"]),
        python=found["python"],
        library=found["library"],
        ceilings=tuple(results),
    )


def _ceiling(
    placement: Placement, binding: Binding, found: Mapping[str, Any], doubted: list[str]
) -> Ceiling:
    return Ceiling(
        numa_node=binding.node if placement.pinned else None,
        cpus=cpulist.render(found["cpus"]),
        threads=found["threads"],
        array_bytes=found["array_bytes"],
        gbps=_kept(found["gbps"], "best"),
        tflops=_kept(found["tflops"], "best"),
        unsupported=found["unsupported"],
        median_gbps=_kept(found["gbps"], "median"),
        median_tflops=_kept(found["tflops"], "median"),
        doubts=tuple(doubted),
    )


def _kept(rates: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    """Keep the best or the median of each rate, to a precision beyond any measurement's."""
    return {rate: float(f"{found[name]:.5g}") for rate, found in rates.items()}


def _plain(measured: Measured) -> dict[str, Any]:
    each = [{**asdict(found), "doubts": list(found.doubts)} for found in measured.ceilings]
    return {**asdict(measured), "ceilings": each}


def _block(measured: Measured) -> str:
    text = yaml.safe_dump(
        {_KEY: _plain(measured)},
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=100,
    )
    key, _, entries = text.partition("\n")
    return f"{key}\n{_COMMENT}{entries}"


def _without(base: str) -> str:
    """Cut the ceilings that the text has; its marks count characters."""
    root = yaml.compose(base, yaml.SafeLoader)
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == _KEY:
            return base[: key.start_mark.index] + base[_end(value) :]
    return base


def _end(node: yaml.Node) -> int:
    """Return where a value's own text ends; YAML ends a block only behind the comments after it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return int(node.end_mark.index)


def _is(text: str, data: Mapping[str, Any]) -> bool:
    try:
        return bool(yaml.safe_load(text) == data)
    except yaml.YAMLError:
        return False


def _check_loads(text: str, base: Path, measured: Measured) -> None:
    with tempfile.TemporaryDirectory(prefix="fusion-calibrate-") as folder:
        trial = Path(folder) / "targets.yaml"
        trial.write_text(text, encoding="utf-8")
        found, before = targets.load(trial), targets.load(base)
    kept = found.pipelines == before.pipelines and found.defaults == before.defaults
    if found.measured != measured or not kept:
        raise CalibrationError(
            f"{base}: expected its targets and the ceilings to be read back as they are, found "
            "others; give a plainer file with --targets"
        )
