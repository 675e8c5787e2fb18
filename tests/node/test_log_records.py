"""What a process says on standard error."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from node.log_records import set_up_logging


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_text_names_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(node="n7", level="info", log_format="text")
    logging.getLogger("a.b").info("hello %s", "you")
    logging.getLogger("a.b").debug("not this")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO    n7 a.b: hello you")


def test_json_is_one_object_a_line_with_the_exception_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(node="n7", level="warning", log_format="json")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("a").exception("two\nlines")
    (line,) = capsys.readouterr().err.splitlines()
    record = json.loads(line)
    assert (record["node"], record["level"], record["message"]) == ("n7", "error", "two\nlines")
    assert "ValueError: why" in record["exception"]
