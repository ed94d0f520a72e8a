"""Let signals ask a run to stop, without interrupting what it is writing."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Say that a signal asked the run to stop."""


class Stop:
    """Remember the first signal that asks to stop; an ignored signal (nohup) stays ignored."""

    def __init__(self) -> None:
        self._asked: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Stop:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise Interrupted once a signal has asked to stop."""
        if self._asked is not None:
            raise Interrupted(signal.Signals(self._asked).name)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._asked = self._asked or number
