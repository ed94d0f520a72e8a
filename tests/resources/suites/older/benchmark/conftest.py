"""Options of the older layout, whose record goes through the root logger."""

import logging


class BenchConfig:
    dtypes = None


Config = BenchConfig()


def pytest_addoption(parser):
    for name in ("--mode", "--level", "--warmup", "--iter", "--shape_file", "--record"):
        parser.addoption(name)
    parser.addoption("--dtypes", action="append")


def pytest_configure(config):
    Config.dtypes = config.getoption("--dtypes")
    words = [word.replace("/", "_") for word in config.invocation_params.args]
    logging.basicConfig(
        filename=f"result_{'_'.join(words)}.log",
        filemode="w",
        level=logging.INFO,
        format="[%(levelname)s] %(message)s",
    )
