"""Show how a run goes: a live line per binding on a terminal, plain lines with times elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from fusion import terminal
from fusion.plan import Plan
from fusion.session import Watcher


@contextmanager
def shown(
    planned: Plan, left: Mapping[str, int], seconds: Mapping[str, float]
) -> Iterator[Watcher]:
    """Show a run's progress on standard output; ``left`` counts measurements by operator."""
    if sys.stdout.isatty():
        from fusion.live import Live  # rich takes longer to import than a short run has to spare

        with Live(planned, left, seconds) as live:
            yield Watcher(live.event, live.look, live.tell)
    else:
        yield Watcher(lambda event: _stamped(terminal.event_line(event)), tell=_stamped)


def _stamped(text: str) -> None:
    sys.stdout.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}\n")
    sys.stdout.flush()
