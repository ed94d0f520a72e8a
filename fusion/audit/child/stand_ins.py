"""Stand in for what a benchmark imports beside the operator: baselines' packages and a GPU.

The audit runs no baseline, so a missing vLLM or Transformer Engine need not keep a benchmark from
making its inputs. A stand-in answers imports and attribute look-ups; using its values raises.
Only modules below a ``benchmark`` folder meet stand-ins when they import.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

PACKAGES = frozenset(
    ("vllm", "transformer_engine", "flash_attn", "deep_gemm", "flash_mla", "tilelang")
)


# Benchmarks that ask for a range of versions get one within it.
_VERSIONS = {"vllm": "0.20.2"}


class MissingPackageError(RuntimeError):
    """Say that an input could not be made without a package that is not installed."""


class Absent(str):
    """Stand in for any object of a package that is not installed.

    It is a string because FlagGems drops from a call what is of no type that it knows.
    """

    __name__: str

    def __new__(cls, name: str) -> Absent:
        """Make a stand-in that knows its name."""
        made = super().__new__(cls, name)
        made.__name__ = name
        return made

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call, so that probing for a feature works."""
        if self.__name__ in _ANSWERS:
            return _ANSWERS[self.__name__](*args, **kwargs)
        return Absent(f"{self.__name__}()")

    def __bool__(self) -> bool:
        """Answer yes, so that a benchmark goes on to make its inputs."""
        return True

    def _refuse(self, *_: Any) -> Any:
        raise MissingPackageError(f"the inputs need {self.__name__}, which is not installed")

    __iter__ = __getitem__ = __len__ = __index__ = __int__ = __float__ = _refuse
    __add__ = __mul__ = __rmul__ = __lt__ = __gt__ = _refuse


def _cast_to_fp8(x: Any, dims: tuple[int, ...], _ue8m0: bool) -> tuple[Any, Any]:
    """Scale a tensor to float8 with one scale for each place along ``dims``."""
    others = tuple(dim for dim in range(x.dim()) if dim not in dims)
    scale = x.abs().float().amax(dim=others, keepdim=True).clamp(1e-4) / 448
    return (x / scale).to(torch.float8_e4m3fn), scale.squeeze()


# What some benchmarks need from vLLM to make their inputs.
_ANSWERS: dict[str, Callable[..., Any]] = {
    "vllm.platforms.current_platform.fp8_dtype": lambda: torch.float8_e4m3fn,
    "vllm.third_party.deep_gemm.utils.per_custom_dims_cast_to_fp8": _cast_to_fp8,
}


class _AbsentModule(types.ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    @property
    def __version__(self) -> str:
        return _VERSIONS.get(self.__name__, "999.0")

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in PACKAGES or not _asked_by_benchmark():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def _version_of(original: Callable[[str], str]) -> Callable[[str], str]:
    def version(name: str) -> str:
        absent = name in PACKAGES and isinstance(sys.modules.get(name), (_AbsentModule, type(None)))
        return _VERSIONS.get(name, "999.0") if absent else original(name)

    return version


def _asked_by_benchmark() -> bool:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename.replace("\\", "/")
        if "/benchmark/" in file:
            return True
        if "/flag_gems/" in file:
            return False
        frame = frame.f_back
    return False


class OnCpu(TorchFunctionMode):
    """Make on the CPU what a benchmark asks for on a GPU."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace every CUDA device among the arguments."""
        if function is torch.Tensor.cuda:
            return args[0]
        options = {key: _on_cpu(value) for key, value in (kwargs or {}).items()}
        return function(*(_on_cpu(value) for value in args), **options)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return value


_GENERATOR = torch.Generator


class _MakesGenerators(type):
    def __call__(cls, device: Any = "cpu") -> Any:
        return _GENERATOR(_on_cpu(device))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _GENERATOR)


class _Generator(metaclass=_MakesGenerators):
    """Make the generators that are asked for on a GPU on the CPU."""


def install() -> None:
    """Answer for missing packages and for a GPU of compute capability 9.0."""
    sys.meta_path.append(_Finder())
    metadata: Any = importlib.metadata
    metadata.version = _version_of(metadata.version)
    properties = types.SimpleNamespace(
        name="interpreter",
        multi_processor_count=2,
        L2_cache_size=1 << 20,
        major=9,
        minor=0,
        total_memory=1 << 34,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_properties": lambda *_: properties,
        "get_device_name": lambda *_: "interpreter",
        "device": lambda *_: contextlib.nullcontext(),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    torch.version.cuda = "12.8"
    torch.Generator = _Generator
    torch.Tensor.is_cuda = property(lambda _: True)
    for name in ("_C", "_C_cache_ops", "_moe_C"):
        setattr(torch.ops, name, Absent(f"torch.ops.{name}"))
    cpu: Any = torch.cpu
    for name in ("empty_cache", "get_device_capability", "get_device_properties"):
        setattr(cpu, name, answers[name])
    OnCpu().__enter__()
