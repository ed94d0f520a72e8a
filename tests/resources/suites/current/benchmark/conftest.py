"""Options and record log of the current layout."""

import logging

import pytest

record_logger = logging.getLogger("flag_gems_benchmark")
record_logger.propagate = False
Config = None


class BenchConfig:
    pass


def emit_record_logger(message):
    record_logger.info(message)


def pytest_addoption(parser):
    for name in ("--mode", "--level", "--warmup", "--iter", "--shape_file", "--record"):
        parser.addoption(name)
    parser.addoption("--dtypes", action="append")


def pytest_configure(config):
    global Config
    Config = BenchConfig()
    Config.dtypes = config.getoption("--dtypes")
    Config.level = config.getoption("--level")
    Config.mode = config.getoption("--mode")
    words = [word.replace("/", "_") for word in config.invocation_params.args]
    handler = logging.FileHandler(f"result_{'_'.join(words)}.log", mode="w")
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
    record_logger.addHandler(handler)
    record_logger.setLevel(logging.INFO)
    emit_record_logger("Benchmark record logger enabled")


@pytest.fixture(autouse=True)
def clear_function_cache():
    yield
    raise AttributeError("module 'torch.cpu' has no attribute 'empty_cache'")
