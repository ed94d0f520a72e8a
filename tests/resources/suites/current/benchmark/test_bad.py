import os
import signal
import sys
import time

import pytest

from . import base


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def fail():
    raise RuntimeError("out of registers")


def hang():
    time.sleep(60)


def shout():
    sys.stdout.buffer.write(b"\xff\xfe not UTF-8\n")
    sys.stdout.flush()
    return 1.0


@pytest.mark.crashing
def test_crashing():
    base.Benchmark("crashing", [(4, 4)] * 3, [(2.0, 1.0), (2.0, 1.0), (2.0, crash)]).run()


@pytest.mark.crashing_at_once
def test_crashing_at_once():
    base.Benchmark("crashing_at_once", [(4, 4)], [(2.0, crash)]).run()


@pytest.mark.failing
def test_failing():
    base.Benchmark("failing", [(4, 4)], [(2.0, fail)]).run()


@pytest.mark.failing_later
def test_failing_later():
    base.Benchmark("failing_later", [(4, 4)] * 2, [(2.0, 1.0), (2.0, fail)]).run()


@pytest.mark.hanging
def test_hanging():
    base.Benchmark("hanging", [(4, 4)] * 2, [(2.0, 1.0), (2.0, hang)]).run()


@pytest.mark.not_a_number
def test_not_a_number():
    latencies = [(2.0, float("nan")), (2.0, float("inf")), (2.0, 1.0)]
    base.Benchmark("not_a_number", [(4, 4)] * 3, latencies).run()


@pytest.mark.zero
def test_zero():
    base.Benchmark("zero", [(4, 4)] * 2, [(2.0, 1.0), (2.0, 0.0)]).run()


@pytest.mark.shouting
def test_shouting():
    base.Benchmark("shouting", [(4, 4)], [(2.0, shout)]).run()


@pytest.mark.skipping
def test_skipping():
    pytest.skip("needs a package that is absent")


@pytest.mark.expected_failure
@pytest.mark.xfail(reason="known upstream")
def test_expected_failure():
    base.Benchmark("expected_failure", [(4, 4)], [(2.0, fail)]).run()


@pytest.mark.nothing
def test_nothing():
    pass


@pytest.mark.lacking
def test_lacking():
    import a_package_that_nobody_has  # noqa: F401


@pytest.mark.uncountable
def test_uncountable():
    base.Benchmark("uncountable", [(4, 4)], [(2.0, 1.0)]).run()
