"""Turn one benchmark object's measurements into observations, on small shapes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import yaml

from fusion.audit.child import recording
from fusion.audit.child.hooks import tensors_of
from fusion.audit.child.large import Large
from fusion.audit.child.observation import Named, OutOfTime, observe
from fusion.audit.plan import Plan, Target

# Two-byte floats tell a formula that counts the wrong tensor's element size from a right one.
_PREFERRED = (torch.float16, torch.float32, torch.bfloat16)


class LeftOutError(RuntimeError):
    """Say which inputs of a benchmark were not recorded, and why."""


class Audited:
    """Follow every benchmark object of one test."""

    def __init__(
        self, plan: Plan, target: Target, report: Callable[..., None], file: str = ""
    ) -> None:
        self._plan = plan
        self._target = target
        self._report = report
        self._file = file
        small = yaml.safe_load(plan.shapes.read_text()) if plan.shapes else {}
        self._shapes = small.get("shapes", {})
        self._parameters = small.get("parameters", {})
        self._limits = small.get("limits", {})
        self._formula = _formula(plan, target.operator)
        self._catalogue = _catalogue(plan)
        self._case = 0
        self._evaluated: dict[str, Any] = {}
        self._left_out: list[str] = []

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Have the suite's benchmark classes run under the audit for a while."""
        _seed()
        self._shrink_parameters()
        replaced = [(cls, vars(cls)["run"]) for cls in _families() if "run" in vars(cls)]
        for cls, run in replaced:
            cls.run = self._followed(run)
        try:
            with self._without_large_values():
                yield
        finally:
            for cls, run in replaced:
                cls.run = run

    @contextmanager
    def _without_large_values(self) -> Iterator[None]:
        """While recording, keep large tensors as shapes; at the end tell what is missing."""
        if self._plan.recording is None:
            yield
            return
        with Large(self._plan.bytes_):
            yield
        if self._left_out:
            raise LeftOutError("; ".join(dict.fromkeys(self._left_out)))

    def _shrink_parameters(self) -> None:
        """Have the modules' own parameter classes make small parameters."""
        for name, module in list(sys.modules.items()):
            for key, fields in self._parameters.get(name.rpartition(".")[2], {}).items():
                original = vars(module)[key]
                if not isinstance(original, functools.partial):
                    setattr(module, key, functools.partial(_smaller, original, fields))

    def _followed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def wrapper(benchmark: Any, *args: Any, **kwargs: Any) -> Any:
            _shadow(benchmark, "init_user_config", self._after_config(benchmark))
            _shadow(benchmark, "get_input_iter", self._few_inputs(benchmark))
            _shadow(benchmark, "record_shapes", self._evaluating(benchmark))
            benchmark.get_latency = functools.partial(self._observe, benchmark)
            return run(benchmark, *args, **kwargs)

        return wrapper

    def _after_config(self, benchmark: Any) -> Callable[..., Any]:
        def init_user_config(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            shapes = self._small_shapes(benchmark)
            if shapes:
                benchmark.shapes = [_as_shape(each) for each in shapes]
            if self._plan.recording is None:
                benchmark.to_bench_dtypes = [_choose(list(benchmark.to_bench_dtypes))]
            benchmark.to_bench_metrics = ["latency"]
            return result

        return init_user_config

    def _small_shapes(self, benchmark: Any) -> list[Any]:
        names = [benchmark.op_name, *(cls.__name__ for cls in type(benchmark).__mro__)]
        return next((self._shapes[name] for name in names if name in self._shapes), [])

    def _few_inputs(self, benchmark: Any) -> Callable[..., Any]:
        def get_input_iter(
            original: Callable[..., Any], *args: Any, **kwargs: Any
        ) -> Iterator[Any]:
            if self._plan.recording is not None:
                yield from self._all_inputs(benchmark, original(*args, **kwargs))
                return
            limit = self._limits.get(benchmark.op_name, self._plan.bytes_)
            fitting = (each for each in original(*args, **kwargs) if _size(each) <= limit)
            yield from itertools.islice(fitting, self._plan.cases)

        return get_input_iter

    def _all_inputs(self, benchmark: Any, inputs: Iterator[Any]) -> Iterator[Any]:
        """Give every input; one that cannot be made ends this dtype, and the others still come."""
        count = 0
        try:
            for each in inputs:
                yield each
                count += 1
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            self._left_out.append(f"{benchmark.op_name} after {count} inputs: {reason}")

    def _evaluating(self, benchmark: Any) -> Callable[..., Any]:
        """Evaluate the formula before FlagGems takes over PyTorch's operators."""

        def record_shapes(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            self._evaluated = self._expected(benchmark, args, kwargs)
            return original(*args, **kwargs)

        return record_shapes

    def _observe(
        self, benchmark: Any, operator: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> float:
        if self._plan.recording is not None:
            recording.append(self._plan.recording, benchmark, self._file, args, kwargs)
            return 1.0
        own = self._own(benchmark)
        operator = own or operator
        facts = {
            "operator": self._target.operator,
            "op_name": benchmark.op_name,
            "case": self._case,
            "substituted": own is not None,
            "arguments": [_told(each) for each in args],
            "options": {key: _told(value) for key, value in kwargs.items()},
            **self._evaluated,
        }
        self._case += 1
        self._report("case_started", operator=facts["operator"], case=facts["case"])
        try:
            call, arguments = self._call(benchmark, operator, args, kwargs)
            facts |= observe(call, arguments, _replaced(), self._plan.seconds)
        except (Exception, OutOfTime) as error:
            facts["error"] = f"{type(error).__name__}: {error}"
        self._report("case", **facts)
        return 1.0

    def _own(self, benchmark: Any) -> Any:
        """Return FlagGems' function of this name if the benchmark itself was handed none."""
        if benchmark.gems_op is not None or benchmark.is_backward:
            return None
        fused = getattr(sys.modules.get("flag_gems"), "fused", None)
        return getattr(fused, benchmark.op_name, None)

    def _expected(self, benchmark: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        """Evaluate the formula on the arguments as they are before the call."""
        formula = self._catalogue.find(benchmark.op_name) if self._catalogue else None
        formula = formula or self._formula
        if formula is None:
            return {"metric": None, "formula": None}
        facts: dict[str, Any] = {"metric": formula.metric, "formula_operator": formula.operator}
        try:
            facts["formula"] = formula.value(args, kwargs)
        except Exception as error:
            facts |= {"formula": None, "formula_error": f"{type(error).__name__}: {error}"}
        return facts

    def _call(
        self, benchmark: Any, operator: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[Callable[[], Any], Named]:
        args = args if _binds(operator, args, kwargs) else ()
        named = self._named(operator, args, kwargs)
        if not benchmark.is_backward:
            return functools.partial(operator, *args, **kwargs), named
        output = operator(*args, **kwargs)
        gradient = torch.randn_like(output)
        inputs = [each for each in args if torch.is_tensor(each) and each.requires_grad]
        call = functools.partial(torch.autograd.grad, (output,), inputs, grad_outputs=(gradient,))
        return call, [*named, ("grad_output", gradient)]

    def _named(self, operator: Callable[..., Any], args: Any, kwargs: Any) -> Named:
        names = _parameters(operator)
        if self._formula is not None:
            for each in self._formula.inputs:
                if each.position is not None:
                    names[each.position] = each.name
        named: Named = []
        for place, value in enumerate(args):
            named += _spell(names.get(place, f"args[{place}]"), value)
        for key, value in kwargs.items():
            named += _spell(key, value)
        return named


def _seed() -> None:
    """Make the inputs of a test the same in every audit."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _binds(operator: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Tell whether a call fits; False only if its keywords alone would.

    One of FlagGems' benchmarks hands the baseline's arguments on beside the operator's keywords.
    """
    try:
        signature = inspect.signature(operator)
    except (TypeError, ValueError):
        return True
    return _fits(signature, args, kwargs) or not _fits(signature, (), kwargs)


def _fits(signature: inspect.Signature, args: Any, kwargs: Any) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _size(inputs: Any) -> int:
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors_of(inputs))


def _families() -> list[Any]:
    bases = {
        id(vars(module)["Benchmark"]): vars(module)["Benchmark"]
        for name, module in list(sys.modules.items())
        if module is not None
        and name.partition(".")[0] == "benchmark"
        and isinstance(vars(module).get("Benchmark"), type)
    }
    return [cls for base in bases.values() for cls in _family(base)]


def _family(base: Any) -> Iterator[Any]:
    yield base
    for child in base.__subclasses__():
        yield from _family(child)


def _shadow(benchmark: Any, name: str, replacement: Callable[..., Any]) -> None:
    if not hasattr(getattr(benchmark, name), "_shadows"):
        shadow = functools.partial(replacement, getattr(benchmark, name))
        shadow._shadows = True  # type: ignore[attr-defined]
        setattr(benchmark, name, shadow)


def _smaller(parameter: Any, fields: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """Make a parameter and replace those of its fields that are set and larger."""
    made = parameter(*args, **kwargs)
    changes = {key: value for key, value in fields.items() if (getattr(made, key) or 0) > value}
    return dataclasses.replace(made, **changes)


def _as_shape(shape: Any) -> Any:
    return tuple(_as_shape(each) for each in shape) if isinstance(shape, list) else shape


def _choose(dtypes: list[Any]) -> Any:
    return next((each for each in _PREFERRED if each in dtypes), dtypes[0])


def _replaced() -> set[str]:
    """Name the PyTorch operators that FlagGems serves at the moment, if any."""
    registrar = getattr(sys.modules.get("flag_gems"), "current_work_registrar", None)
    return set(registrar.get_all_keys()) if registrar is not None else set()


def _parameters(operator: Callable[..., Any]) -> dict[int, str]:
    try:
        return dict(enumerate(inspect.signature(operator).parameters))
    except (TypeError, ValueError):
        return {}


def _spell(name: str, value: Any) -> Named:
    tensors = tensors_of(value)
    if torch.is_tensor(value):
        return [(name, value)]
    return [(f"{name}[{place}]", tensor) for place, tensor in enumerate(tensors)]


def _told(value: Any) -> Any:
    """Tell an argument as JSON holds it: a tensor by dtype and shape."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return [_told(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _told(each) for key, each in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else repr(value)


def _catalogue(plan: Plan) -> Any:
    if plan.formulas is None:
        return None
    from fusion.formulas.catalogue import Catalogue

    return Catalogue.load(plan.formulas)


def _formula(plan: Plan, operator: str) -> Any:
    catalogue = _catalogue(plan)
    return catalogue.find(operator) if catalogue is not None else None
