"""The published set changes as a whole."""

from __future__ import annotations

import threading

from fusion import publish


def test_names_at_the_top_lead_to_the_newest_state(tmp_path):
    """Each publication replaces the set and keeps the earlier state."""
    first = publish.publish(tmp_path, {"a.csv": "1", "b.csv": "1"})
    second = publish.publish(tmp_path, {"a.csv": "2", "b.csv": "2"})
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text() == "2"
    assert (first / "a.csv").read_text() == "1"
    assert publish.current(tmp_path) == second.resolve()


def test_file_of_an_earlier_tool_is_replaced(tmp_path):
    """A plain file in the place of a published name gives way."""
    (tmp_path / "a.csv").write_text("old")
    publish.publish(tmp_path, {"a.csv": "new"})
    assert (tmp_path / "a.csv").read_text() == "new"


def test_nothing_published_is_known(tmp_path):
    """Without a publication there is no current state."""
    assert publish.current(tmp_path) is None


def test_reader_never_sees_two_states(tmp_path):
    """A reader that follows the published link once gets the files of one state."""
    publish.publish(tmp_path, {"a.csv": "0", "b.csv": "0"})
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            publish.publish(tmp_path, {"a.csv": str(number), "b.csv": str(number)})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            state = publish.current(tmp_path)
            assert (state / "a.csv").read_text() == (state / "b.csv").read_text()
    finally:
        stop.set()
        writer.join()
