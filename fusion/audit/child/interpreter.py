"""Let the unmodified FlagGems run on a CPU, its kernels in Triton's interpreter.

Needs TRITON_INTERPRET=1 in the environment before Triton is imported. :func:`install` comes before
FlagGems is imported: it activates a driver for the CPU, gives interpreted kernels what FlagGems
reads from compiled ones, takes an autotuner's first configuration in place of timing all of them,
and replaces the slow paths of the interpreter.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.abc
import importlib.util
import inspect
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from scipy import special
from triton.backends.compiler import GPUTarget
from triton.language.extra import libdevice as declared
from triton.runtime import autotuner, interpreter, jit
from triton.runtime.driver import driver

_ATTRIBUTES_OF_A_DEVICE = {
    "multiprocessor_count": 2,
    "max_shared_mem": 1 << 20,
    "max_num_regs": 65536,
    "warpSize": 32,
    "sm_clock_rate": 1,
    "mem_clock_rate": 1,
    "mem_bus_width": 1,
}
_NUMPY_NAMES: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "div_rn": np.divide,
    "div_rz": np.divide,
    "erf": special.erf,
    "erfinv": special.erfinv,
    "fabs": np.abs,
    "fast_dividef": np.divide,
    "fast_erf": special.erf,
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_tanh": np.tanh,
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "lgamma": special.gammaln,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}

_TILE = 32


def install() -> None:
    """Prepare Triton for FlagGems. Idempotent within a process."""
    driver.set_active(_Driver())
    triton.knobs.compilation.front_end_debugging = True  # raise errors as they are, unwrapped
    _dress_kernels()
    _quicken()
    _install_libdevice()
    autotuner.Autotuner.run = _run_first_configuration
    sys.meta_path.insert(0, _AfterImport("flag_gems.utils.libentry", _plain_library))
    sys.meta_path.insert(0, _AfterImport("flag_gems", _plain_factories))


class _Utils:
    @staticmethod
    def get_device_properties(_device: int = 0) -> dict[str, int]:
        return dict(_ATTRIBUTES_OF_A_DEVICE)


class _DeviceInterface:
    """What Triton asks of ``torch.cuda``: a CPU has nothing to wait for."""

    @staticmethod
    def synchronize(*_device: Any) -> None:
        return None

    @staticmethod
    def current_device() -> int:
        return 0


class _Driver:
    utils = _Utils()

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int = 0) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", 0, 1)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> type:
        return _DeviceInterface

    def get_benchmarker(self) -> Callable[..., Any]:
        return lambda call, **_options: (call(), [1.0, 1.0, 1.0])[1]


class _Parameter:
    def __init__(self, number: int, parameter: inspect.Parameter) -> None:
        self.num = number
        self.name = parameter.name
        self.default = parameter.default
        self.annotation = str(parameter.annotation)
        self.is_constexpr = "constexpr" in self.annotation
        self.do_not_specialize = False


class Kernel(interpreter.InterpretedFunction):  # type: ignore[misc]
    """An interpreted kernel with the attributes of a compiled one."""

    @property
    def params(self) -> list[_Parameter]:
        """The parameters, in order."""
        parameters = inspect.signature(self.fn).parameters.values()
        return [_Parameter(number, each) for number, each in enumerate(parameters)]

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the kernel's Python function."""
        return inspect.signature(self.fn)

    @property
    def src(self) -> str:
        """The source from ``def`` on."""
        text = textwrap.dedent(inspect.getsource(self.fn))
        return text[text.index("def ") :]

    @property
    def cache_key(self) -> str:
        """A digest of the source."""
        return hashlib.sha256(inspect.getsource(self.fn).encode()).hexdigest()

    def __getattr__(self, name: str) -> Any:
        if name == "fn" or (name.startswith("_") and name != "__globals__"):
            raise AttributeError(name)
        return getattr(self.fn, name)


def _dress_kernels() -> None:
    base = interpreter.InterpretedFunction
    interpreter.InterpretedFunction = Kernel
    for module in (triton, triton.runtime, jit):
        module.JITFunction = base
    interpreter.FunctionRewriter._get_jit_fn_file_line = _file_and_line


def _file_and_line(rewriter: Any) -> tuple[str, int]:
    lines, first = inspect.getsourcelines(rewriter.fn)
    offset = next(i for i, line in enumerate(lines) if line.strip().startswith("def "))
    return str(inspect.getsourcefile(rewriter.fn)), first + offset


def _run_first_configuration(tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """Launch an autotuned kernel once. Timing in an interpreter would choose nothing."""
    tuner.nargs = dict(zip(tuner.arg_names, args))
    config = tuner.prune_configs(kwargs)[0]
    chosen = {**_missing_tiles(tuner, kwargs), **config.all_kwargs()}
    full = {**tuner.nargs, **kwargs, **chosen}
    if config.pre_hook is not None:
        config.pre_hook(full)
    tuner.pre_hook(full, reset_only=True)
    tuner.best_config = config
    return tuner.fn.run(*args, **{**kwargs, **chosen})


def _missing_tiles(tuner: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Choose what a backend without a tuning table of this kernel leaves open."""
    given = {**tuner.nargs, **kwargs}
    known = {
        **{name: _TILE for name in tuner.arg_names if name.startswith("BLOCK")},
        **{name: False for name in tuner.arg_names if name == "PRE_LOAD_V"},
    }
    computed = set(getattr(tuner.fn, "values", ()))
    defaults = inspect.signature(tuner.base_fn).parameters
    return {
        name: value
        for name, value in known.items()
        if name not in given
        and name not in computed
        and defaults[name].default is inspect.Parameter.empty
    }


def _plain_factories(module: Any) -> None:
    """Leave tensors' creation to PyTorch: the CPU backend's own refuses an infinite value."""
    original = module.use_gems.__init__

    def initialise(self: Any, exclude: Any = None, *args: Any, **kwargs: Any) -> None:
        original(self, [*(exclude or []), "full", "full_like"], *args, **kwargs)

    module.use_gems.__init__ = initialise


def _plain_library(module: Any) -> None:
    """Have FlagGems' own cache of compiled kernels and its tuner call the kernel directly."""
    module.LibTuner.run = _run_first_configuration
    module.LibEntry.run = _run_entry


def _run_entry(entry: Any, *args: Any, **kwargs: Any) -> Any:
    return entry.fn.run(*args, **{"warmup": False, **kwargs}), {}


class _AfterImport(importlib.abc.MetaPathFinder):
    """Run an action once on a module, right after the module itself has run."""

    def __init__(self, name: str, action: Callable[[types.ModuleType], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find the module by the other finders and append the action to its execution."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            self._action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _NothingToRestore:
    def restore(self) -> None:
        return None


def _quicken() -> None:
    _patch_language_once()
    interpreter.FunctionRewriter.ast_transformer = _Rewriter()
    for function in (_audit_and, _audit_or, _audit_not):
        setattr(interpreter, function.__name__, function)
    interpreter.GridExecutor._init_args_hst = lambda _, args, kwargs: (args, kwargs)
    interpreter.GridExecutor._restore_args_dev = lambda *_: None
    interpreter._convert_float = _quick_conversion(interpreter._convert_float)
    interpreter.InterpreterBuilder.create_dot = _create_dot
    interpreter.ReduceOps.generic_reduce = _generic_reduce
    interpreter.ScanOps.generic_scan = _generic_scan
    interpreter._implicit_cvt = _with_booleans(interpreter._implicit_cvt)
    interpreter.InterpretedFunction.__call__ = _call_device_function
    builder = interpreter.InterpreterBuilder
    builder.get_all_ones_value = _all_ones
    builder.create_atomic_rmw = _with_short_floats(builder.create_atomic_rmw)
    for name in ("uint8", "uint16", "uint32", "uint64"):
        setattr(interpreter.InterpreterBuilder, f"get_{name}", _wrapping_constant(name))
    interpreter.np_erf_fp32 = special.erf
    interpreter.np_erf_fp64 = special.erf


class _Rewriter(interpreter.ASTTransformer):  # type: ignore[misc]
    """Give ``and``, ``or`` and ``not`` between blocks the meaning that a compiled kernel has.

    The interpreter leaves them to Python, which keeps one of two blocks whole, so that a
    mask loses a bound.
    """

    def visit_Assign(self, node: ast.Assign) -> Any:  # noqa: N802
        """Rewrite the value before the interpreter wraps it."""
        node.value = self.visit(node.value)
        return super().visit_Assign(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:  # noqa: N802
        """Rewrite ``a and b`` as a call that takes b unevaluated."""
        first, *rest = [self.visit(each) for each in node.values]
        function = _audit_and if isinstance(node.op, ast.And) else _audit_or
        for each in rest:
            first = _called(function, first, ast.Lambda(args=_NO_ARGUMENTS, body=each))
        return first

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:  # noqa: N802
        """Rewrite ``not a``."""
        self.generic_visit(node)
        return _called(_audit_not, node.operand) if isinstance(node.op, ast.Not) else node


_NO_ARGUMENTS = ast.arguments(
    posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
)


def _called(function: Callable[..., Any], *arguments: ast.expr) -> ast.Call:
    name = ast.Name(id=function.__name__, ctx=ast.Load())
    return ast.Call(func=name, args=list(arguments), keywords=[])


def _is_block(value: Any) -> bool:
    return isinstance(value, tl.tensor) and value.handle.data.size > 1


def _audit_and(left: Any, right: Callable[[], Any]) -> Any:
    if _is_block(left):
        return left.logical_and(right())
    return right() if left else left


def _audit_or(left: Any, right: Callable[[], Any]) -> Any:
    if _is_block(left):
        return left.logical_or(right())
    return left if left else right()


def _audit_not(value: Any) -> Any:
    return value.logical_not() if _is_block(value) else not value


def _patch_language_once() -> None:
    """Interpret the language for good, in place of once a launch and once a device function."""
    patch = interpreter._patch_lang
    done: set[int] = set()

    def patch_once(function: Any) -> _NothingToRestore:
        languages = {id(m) for m in function.__globals__.values() if m is tl or m is tl.core}
        if not languages or not languages <= done:
            patch(function)
            done.update(languages)
        if id(function.__globals__) not in done:
            done.add(id(function.__globals__))
            _interpret_captured(function.__globals__)
        return _NothingToRestore()

    interpreter._patch_lang = patch_once


def _call_device_function(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call one kernel function from another; errors come through as they are."""
    interpreter._patch_lang(function.fn)
    return function.rewrite()(*args, **kwargs)


def _with_booleans(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        if isinstance(value, bool):
            return tl.tensor(interpreter.TensorHandle(np.array([value]), tl.int1), tl.int1)
        return convert(value)

    return converted


def _all_ones(_: Any, kind: Any) -> Any:
    dtype = interpreter._get_np_dtype(kind)
    ones = np.ones(1, bool) if dtype == np.bool_ else np.array([-1]).astype(dtype)
    return interpreter.TensorHandle(ones, kind.scalar)


def _with_short_floats(change: Callable[..., Any]) -> Callable[..., Any]:
    """Add atomic addition in bfloat16 and float16, which the interpreter lacks."""

    def create_atomic_rmw(
        builder: Any, kind: Any, pointers: Any, value: Any, mask: Any, *r: Any
    ) -> Any:
        element = value.dtype.scalar
        if element not in (tl.float16, tl.bfloat16):
            return change(builder, kind, pointers, value, mask, *r)
        before = builder.create_masked_load(pointers, mask, None, None, None, False)
        total = as_numbers(before).astype(np.float32)
        lanes = np.flatnonzero(mask.data)
        _, place = np.unique(pointers.data.ravel()[lanes], return_inverse=True)
        sums = np.bincount(place, as_numbers(value).ravel()[lanes].astype(np.float64))
        total.ravel()[lanes] += sums[place]
        after = builder.cast_impl(interpreter.TensorHandle(total, tl.float32), element)
        builder.create_masked_store(pointers, after, mask, None, None)
        return before

    return create_atomic_rmw


def _wrapping_constant(name: str) -> Callable[..., Any]:
    """Make unsigned constants as C does: a negative value wraps around."""
    bits, kind = int(name[4:]), getattr(tl, name)

    def constant(_: Any, value: int) -> Any:
        return interpreter.TensorHandle(np.array([value % (1 << bits)], dtype=name), kind)

    return constant


def _interpret_captured(names: dict[str, Any]) -> None:
    """Interpret the functions of the language that a module holds under names of its own."""
    for name, value in list(names.items()):
        if callable(value) and tl.core.is_builtin(value):
            names[name] = functools.partial(value, _semantic=interpreter.interpreter_semantic)


def _quick_conversion(convert: Callable[..., Any]) -> Callable[..., Any]:
    def quick(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == target:
            return data
        if source == tl.bfloat16 and target == tl.float32:
            return data.view(np.uint16).astype(np.uint32) << 16
        if source == tl.float32 and target == tl.bfloat16:
            return (data.view(np.uint32) >> 16).astype(np.uint16)
        if source == tl.float16 and target == tl.float32:
            return data.view(np.float16).astype(np.float32).view(np.uint32)
        if source == tl.float32 and target == tl.float16:
            with np.errstate(over="ignore"):
                return data.view(np.float32).astype(np.float16).view(np.uint16)
        return convert(data, source, target, rounding)

    return quick


def as_numbers(handle: Any) -> Any:
    """Return a handle's values in a NumPy type that can be multiplied. bfloat16 becomes float32."""
    kind = handle.dtype.scalar
    if kind == tl.bfloat16:
        return interpreter._convert_float(handle.data, kind, tl.float32, None).view(np.float32)
    if kind.is_floating() and kind.primitive_bitwidth == 8:
        return interpreter._convert_float(handle.data, kind, tl.float16, None).view(np.float16)
    return handle.data


def _create_dot(builder: Any, a: Any, b: Any, d: Any, *_options: Any) -> Any:
    product = np.matmul(as_numbers(a), as_numbers(b), dtype=d.data.dtype)
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


def _combined(combine: Any, left: list[Any], right: list[Any]) -> list[Any]:
    result = combine.fn(*left, *right)
    return list(result) if isinstance(result, tuple) else [result]


def _blocks(operation: Any, inputs: Any, axis: int) -> list[list[Any]]:
    """Cut each input into blocks of extent 1 along the axis: one list of inputs per position."""
    extent = inputs[0].handle.data.shape[axis]
    return [
        [
            operation.to_tensor(np.take(each.handle.data, [place], axis=axis), each.dtype)
            for each in inputs
        ]
        for place in range(extent)
    ]


def _generic_reduce(operation: Any, inputs: Any) -> list[Any]:
    """Reduce by whole blocks; the interpreter's own way visits every element in Python."""
    whole = operation.axis is None
    inputs, axis = operation.unravel(inputs, operation.axis)
    first, *rest = _blocks(operation, inputs, axis)
    for block in rest:
        first = _combined(operation.combine_fn, first, block)
    return [_shaped(operation, each, kind, axis, whole) for each, kind in zip(first, inputs)]


def _shaped(operation: Any, block: Any, kind: Any, axis: int, whole: bool) -> Any:
    data = block.handle.data
    if not operation.keep_dims:
        data = data.item() if whole else np.squeeze(data, axis=axis)
    return operation.to_tensor(data, kind.dtype)


def _generic_scan(operation: Any, inputs: Any) -> list[Any]:
    """Scan by whole blocks; the interpreter's own way visits every element in Python."""
    first, *rest = _blocks(operation, inputs, operation.axis)
    places = [first]
    for block in rest:
        places.append(_combined(operation.combine_fn, places[-1], block))
    return [
        operation.to_tensor(
            np.concatenate([place[i].handle.data for place in places], axis=operation.axis),
            each.dtype,
        )
        for i, each in enumerate(inputs)
    ]


class _Libdevice(types.ModuleType):
    """Serve the device's mathematical functions by NumPy's and SciPy's."""

    def __getattr__(self, name: str) -> Any:
        function = _NUMPY_NAMES.get(name) or getattr(np, name, None)
        if name.startswith("__") or function is None:
            raise AttributeError(name)
        return _elementwise(function, name)


def _elementwise(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*operands: Any) -> Any:
        first = next(each for each in operands if isinstance(each, tl.tensor))
        values = [each.handle.data if isinstance(each, tl.tensor) else each for each in operands]
        result = np.asarray(function(*values))
        kind = tl.int1 if result.dtype == np.bool_ else first.dtype.scalar
        if kind is not tl.int1:
            result = result.astype(first.handle.data.dtype)
        shape = list(first.shape)
        handle = interpreter.TensorHandle(result, kind)
        return tl.tensor(handle, tl.block_type(kind, shape) if shape else kind)

    call.__name__ = name
    return call


def _install_libdevice() -> None:
    package: Any = types.ModuleType("triton.language.extra.cpu")
    package.__path__ = []
    package.libdevice = _Libdevice("triton.language.extra.cpu.libdevice")
    sys.modules[package.__name__] = package
    sys.modules[package.libdevice.__name__] = package.libdevice
    for name in vars(declared):
        function = getattr(package.libdevice, name, None)
        if not name.startswith("_") and function is not None:
            setattr(declared, name, function)
