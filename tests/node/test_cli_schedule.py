"""`horae schedule preview`, which needs no server."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from node.cli_schedule import LINE_BYTES_MAX, TICKS_MAX, schedule

DATA = Path(__file__).resolve().parent.parent / "data" / "cron"


def run(*arguments: str, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(schedule, ["preview", *arguments], input=stdin)


def batch(*lines: object) -> list[Any]:
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    result = run("--batch", "-", stdin=text)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def request(expression: object = "0 2 * * *", **more: object) -> dict[str, object]:
    return {"schedule": expression, "tz": "Europe/Berlin", "from": "2026-03-28T00:00:00Z", "n": 2, **more}


def test_ticks_words_and_changes_as_json_in_a_pipe() -> None:
    result = run("--tz", "Europe/Berlin", "--from", "2026-03-28T12:00:00", "-n", "2", "30 2 * * *")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["ticks"] == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert answer["description"] == "at 02:30 every day, Europe/Berlin"
    assert [words[:10] for words in answer["special"]] == ["2026-03-29", "2026-10-25", "2027-03-28"]
    assert answer["tzdata"][:4].isdigit()


def test_a_table_for_people() -> None:
    result = run("--tz", "Europe/Berlin", "--from", "2026-03-28T12:00:00", "-n", "2", "-o", "table", "30 2 * * *")
    assert result.exit_code == 0
    assert "at 02:30 every day, Europe/Berlin" in result.stdout
    assert "Sun 2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00Z" in result.stdout
    assert "comes twice: 02:30; runs the first time only" in result.stdout


def test_a_table_of_nothing() -> None:
    result = run("--tz", "America/New_York", "--from", "2026-01-01T00:00:00", "-o", "table", "*/30 2 * 3 0#2")
    assert "Nothing is to come." in result.stdout


def test_several_expressions_are_a_union() -> None:
    result = run("--tz", "UTC", "--from", "2026-01-01T00:00:00", "-n", "3", "@every 8h", "0 12 * * *")
    assert [tick[11:16] for tick in json.loads(result.stdout)["ticks"]] == ["08:00", "12:00", "16:00"]


def test_without_from_the_ticks_are_to_come() -> None:
    first = json.loads(run("--tz", "UTC", "-n", "1", "@every 1s").stdout)["ticks"][0]
    assert first > "2026-01-01"


def test_h_is_the_jobs_own() -> None:
    common = ("--tz", "UTC", "--from", "2026-01-01T00:00:00", "-n", "1", "H H * * *")
    assert len({run("--job-id", job_id, *common).stdout for job_id in ("a", "b", "c")}) == 3


def test_the_choices_for_clock_changes() -> None:
    common = ("--tz", "Europe/Berlin", "--from", "2026-10-25T00:00:00Z", "-n", "1", "30 2 * * *")
    assert json.loads(run("--dst-fold", "last", *common).stdout)["ticks"] == ["2026-10-25T01:30:00Z"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--tz", "UTC", "0 22-2 * * *"), 1, 'write "0 22-23,0-2 * * *" instead'),
        (("--tz", "Europe/Berln", "@daily"), 1, 'write "Europe/Berlin" instead'),
        (("--tz", "UTC", "--from", "today", "@daily"), 1, "from: "),
        (("@daily",), 2, "--tz"),
        (("--tz", "UTC"), 2, "expression"),
        (("--tz", "UTC", "-n", "0", "@daily"), 2, "-n"),
        (("--batch", "-", "@daily"), 2, "--batch"),
        (("--batch", "-", "-n", "10"), 2, "--batch"),
        (("--batch", "-", "--job-id", "j"), 2, "--batch"),
        (("--batch", "-", "--dst-fold", "both"), 2, "--batch"),
    ],
)
def test_what_is_refused_and_what_is_wrong_usage(arguments: tuple[str, ...], code: int, words: str) -> None:
    result = run(*arguments, stdin="")
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stdout == ""


def test_a_batch_answers_each_line_in_order() -> None:
    assert batch(
        request(),
        request("0 22-2 * * *"),
        request(["0 3 * * *", "@every 12h"], n=3),
        request(tz="Mars"),
        request(n=0),
    ) == [
        {"ticks": ["2026-03-28T01:00:00Z", "2026-03-29T01:00:00Z"]},
        {
            "error": 'schedule: hour: the range "22-2" runs backwards; write "0 22-23,0-2 * * *" instead',
        },
        {"ticks": ["2026-03-28T02:00:00Z", "2026-03-28T12:00:00Z", "2026-03-29T00:00:00Z"]},
        {"error": 'tz: "Mars" is not a time zone of the IANA database; write "UTC" instead'},
        {"ticks": []},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "\n",
        "{\n",
        "[]\n",
        "null\n",
        '{"schedule": "@daily"}\n',
        json.dumps(request(extra=1)) + "\n",
        json.dumps(request(n=-1)) + "\n",
        json.dumps(request(n=TICKS_MAX + 1)) + "\n",
        json.dumps(request(n=True)) + "\n",
        json.dumps(request(n="2")) + "\n",
        json.dumps(request(5)) + "\n",
        json.dumps(request([])) + "\n",
        json.dumps(request(None)) + "\n",
        json.dumps(request("\ud800")) + "\n",
        json.dumps(request(**{"from": "yesterday"})) + "\n",
        json.dumps(request(dst_gap="before")) + "\n",
        "[" * 50_000 + "\n",
        '{"schedule": ' + "[" * 20_000 + "\n",
        " " * (LINE_BYTES_MAX * 3) + "\n",
        '"' + "x" * LINE_BYTES_MAX + "\n",
    ],
    ids=lambda line: line[:20].strip() + f" of {len(line)}",
)
def test_a_line_that_is_no_request_is_an_error_and_the_next_is_answered(line: str) -> None:
    first, second = batch(line, request())
    assert set(first) == {"error"}
    assert len(first["error"]) < 1000
    assert len(second["ticks"]) == 2


@pytest.mark.parametrize("more", [{"tz": None}, {"tz": ""}, {}])
def test_a_line_without_a_zone_is_told_what_to_write(more: dict[str, object]) -> None:
    line = {name: value for name, value in request().items() if name != "tz"} | more
    assert batch(line) == [{"error": 'tz: a time zone is needed; write "UTC" instead'}]


@pytest.mark.slow
def test_a_line_is_answered_before_the_next_one_is_written() -> None:
    program = "from node.cli_schedule import schedule; schedule(['preview', '--batch', '-'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        try:
            for _ in range(2):
                asked.stdin.write(json.dumps(request()).encode() + b"\n")
                asked.stdin.flush()
                assert select.select([asked.stdout], [], [], 30)[0], "no answer"
                assert len(json.loads(asked.stdout.readline())["ticks"]) == 2
        finally:
            asked.kill()


def test_bytes_that_are_no_text_are_an_error() -> None:
    result = run("--batch", "-", stdin=b"\xff\xfe{}\n" + json.dumps(request()).encode())
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [sorted(answer) for answer in answers] == [["error"], ["ticks"]]


def test_an_empty_batch_and_one_without_a_last_newline() -> None:
    assert run("--batch", "-", stdin="").stdout == ""
    assert len(batch(json.dumps(request()))) == 1


@pytest.mark.slow
def test_a_batch_of_ten_thousand_lines_takes_seconds() -> None:
    """The promise is 10 s on one core with start-up; a machine in use gets the same here as processor time."""
    rows = [json.loads(line) for line in (DATA / "vectors.jsonl").read_text().splitlines()]
    lines = [json.dumps({"schedule": e, "tz": tz, "from": start, "n": 8}) for e, tz, start, _ in rows]
    stdin = "".join(line + "\n" for line in (lines * 4)[:10_000])
    program = (
        "import resource, sys; from node.cli_schedule import schedule\n"
        "try: schedule(['preview', '--batch', '-'])\n"
        "finally: used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=stdin, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["ticks"] for answer in answers[: len(rows)]] == [expected for *_, expected in rows]
    assert len(answers) == 10_000
    assert float(done.stderr) < 10
