"""Compare a formula with an observation. Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations

from fusion.audit.observation import Observation, Touched

WITHIN_PERCENT = 5.0


class Kind(str, Enum):
    """How a formula stands after a case, the best first."""

    EXACT = "exact"
    WITHIN = "within"
    DIFFERS = "differs"
    NO_FORMULA = "no formula"
    COULD_NOT_RUN = "could not run"


@dataclass(frozen=True)
class Finding:
    """The verdict on one case.

    ``formula`` and ``observed`` are bytes or FLOP; ``ratio`` is formula over observed. ``culprits``
    name the arguments whose observed bytes explain a difference, ``notes`` what else must be known,
    ``explanation`` is the formula's own, for a case that is not exact.
    """

    operator: str
    case: int
    arguments: str
    kind: Kind
    metric: str | None = None
    formula: int | None = None
    observed: int | None = None
    reason: str = ""
    culprits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    explanation: str = ""
    observation: Observation | None = field(default=None, repr=False)

    @property
    def ratio(self) -> float | None:
        """Formula over observed; None when either is unknown or nothing was observed."""
        return self.formula / self.observed if self.formula is not None and self.observed else None

    @property
    def percent(self) -> float | None:
        """The distance of the formula from what was observed, in percent."""
        return abs(self.ratio - 1) * 100 if self.ratio is not None else None

    @property
    def inexact(self) -> bool:
        """Tell whether formula and observation differ."""
        return self.kind in (Kind.WITHIN, Kind.DIFFERS)

    @property
    def unexplained(self) -> bool:
        """Tell whether formula and observation differ and the formula does not say why."""
        return self.inexact and not self.explanation

    @property
    def because(self) -> str:
        """What is to be known of the verdict: the formula's explanation, arguments, notes."""
        told = (self.explanation, *self.culprits, *self.notes)
        return "; ".join(each for each in told if each)

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.kind is Kind.WITHIN:
            return f"within {self.percent:.2g} %"
        if self.kind in (Kind.COULD_NOT_RUN, Kind.NO_FORMULA) and self.reason:
            return f"{self.kind.value}: {self.reason}"
        return str(self.kind.value)


def judge(observation: Observation) -> Finding:
    """Compare one case with its formula."""
    if observation.error:
        return could_not_run(observation.operator, observation.error, observation)
    observed = _observed(observation)
    kind = _kind(observation, observed)
    differs = kind in (Kind.WITHIN, Kind.DIFFERS)
    return Finding(
        operator=observation.operator,
        case=observation.case,
        arguments=observation.arguments,
        kind=kind,
        metric=observation.metric,
        formula=observation.formula,
        observed=observed,
        reason=observation.formula_error,
        culprits=_culprits(observation, observed) if differs else (),
        notes=_notes(observation),
        observation=observation,
    )


def could_not_run(operator: str, reason: str, observation: Observation | None = None) -> Finding:
    """Say that a case, or a whole operator, was not observed."""
    return Finding(
        operator=operator,
        case=observation.case if observation else 0,
        arguments=observation.arguments if observation else "",
        kind=Kind.COULD_NOT_RUN,
        metric=observation.metric if observation else None,
        formula=observation.formula if observation else None,
        reason=reason.strip().partition("\n")[0],
        observation=observation,
    )


def _observed(observation: Observation) -> int:
    if observation.metric == "logical_flops":
        return 2 * observation.multiply_adds
    return observation.read + observation.written


def _kind(observation: Observation, observed: int) -> Kind:
    formula = observation.formula
    if formula is None:
        return Kind.NO_FORMULA
    if formula == observed:
        return Kind.EXACT
    return (
        Kind.WITHIN if abs(formula - observed) <= observed * WITHIN_PERCENT / 100 else Kind.DIFFERS
    )


def _notes(observation: Observation) -> tuple[str, ...]:
    notes = []
    if observation.substituted:
        notes.append(
            f"its benchmark never calls flag_gems.fused.{observation.op_name}; the audit did"
        )
    if observation.metric == "logical_flops" and observation.executed > observation.dots > 0:
        share = observation.dots / observation.executed
        notes.append(f"{share:.0%} of the multiply-adds in the kernel's tiles are not masked")
    if observation.metric == "logical_flops" and observation.dots and observation.sums:
        notes.append(f"{observation.sums} multiply-adds of sums beside the dots are left out")
    if observation.unobserved:
        notes.append(f"unobserved: {', '.join(observation.unobserved)}")
    if observation.captured:
        notes.append(f"{observation.captured} bytes of tensors outside the call are not counted")
    if observation.beyond:
        notes.append(f"{observation.beyond} bytes around the views of arguments are not counted")
    if observation.stray:
        notes.append(f"the kernel reaches {observation.stray} bytes outside every tensor")
    return tuple(notes)


def _culprits(observation: Observation, observed: int) -> tuple[str, ...]:
    """Name the tensors that account for a difference: one, or two together, else the largest."""
    assert observation.formula is not None
    if observation.metric == "logical_flops":
        return ()
    difference = observation.formula - observed
    accounts = [each for tensor in observation.tensors for each in _accounts(tensor)]
    for count in (1, 2):
        for chosen in combinations(accounts, count):
            if sum(amount for amount, _ in chosen) == difference:
                return tuple(text for _, text in chosen)
    partial = [each for each in observation.tensors if _is_partial(each)]
    return tuple(
        f"{each.name}: {each.read} bytes read and {each.written} written of {each.size}"
        for each in sorted(partial, key=lambda each: -each.size)[:3]
    )


def _accounts(tensor: Touched) -> Iterable[tuple[int, str]]:
    """List what a formula may have counted otherwise than the kernel: bytes too many, and why."""
    name, size = tensor.name, tensor.size
    options = (
        (size - tensor.read, f"{name}: {tensor.read} of {size} bytes are read"),
        (size - tensor.written, f"{name}: {tensor.written} of {size} bytes are written"),
        (-tensor.read, f"{name}: its {tensor.read} bytes read are left out"),
        (-tensor.written, f"{name}: its {tensor.written} bytes written are left out"),
        (
            -tensor.read - tensor.written,
            f"{name}: its {tensor.read} bytes read and {tensor.written} written are left out",
        ),
    )
    return (option for option in options if option[0])


def _is_partial(tensor: Touched) -> bool:
    return not (tensor.read in (0, tensor.size) and tensor.written in (0, tensor.size))


@dataclass(frozen=True)
class Summary:
    """The verdict on an operator: the worst of its cases."""

    operator: str
    cases: int
    exact: int
    worst: Finding

    @property
    def verdict(self) -> str:
        """The operator's verdict in words."""
        return self.worst.verdict


def summarise(findings: Iterable[Finding]) -> list[Summary]:
    """Sum up by operator, in order. A case that could not run counts only if no case ran."""
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(finding.operator, []).append(finding)
    return [_summary(operator, cases) for operator, cases in grouped.items()]


def _summary(operator: str, cases: list[Finding]) -> Summary:
    ran = [each for each in cases if each.kind is not Kind.COULD_NOT_RUN]
    order = list(Kind)
    worst = max(ran or cases, key=lambda each: (order.index(each.kind), each.percent or 0))
    exact = sum(each.kind is Kind.EXACT for each in ran)
    return Summary(operator, len(ran), exact, worst)
