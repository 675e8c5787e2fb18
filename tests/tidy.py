"""The rules of style that a machine can judge, as functions over the ast of one file: a violation is a line of text.

Each message names the replacement. tests/test_tidy.py runs them over the tree, and proves each with a planted
violation.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "statemachine": (),
    "raftlog": (),
    "executor": (),
    "httpapi": ("node.interface",),
    "chaos": ("node.interface", "node.clock", "bench"),
    "bench": ("node.clock",),
    "node": ("statemachine", "raftlog", "executor"),
}
"""Who may import whom (besides itself). The whole picture: statemachine <- node -> raftlog, executor; httpapi ->
node.interface."""
COMPOSITION_ROOT = re.compile(r"node/(cli\w*|serve)\.py")
COMPOSITION_ROOT_ALSO = ("httpapi", "bench", "chaos")
SIMULATOR = re.compile(r"chaos/(simulated|replica)_\w+\.py")
SIMULATOR_ALSO = ("node", "raftlog", "statemachine", "executor")
"""The simulator is a composition root, as node/serve.py is: it puts the parts of whole nodes together and must see
their insides; replica_*.py read the data directories of live nodes, which is the truth inside. Workloads and checkers
must not: they see what users see, and the recorded history."""

ONLY_IN: dict[str, tuple[str, str]] = {
    "lmdb": (
        r"statemachine/.*|raftlog/.*",
        "the state's storage is statemachine's, the log's is raftlog's: use their readers",
    ),
    "pysyncobj": (r"raftlog/.*", "use raftlog.interface"),
    "time": (r"node/clock\.py", "take a node.clock.Clock, a callable, or the time itself as an argument"),
    "pickle": (r"(?!)", "use msgspec or msgpack: a pickle runs code"),
    "shelve": (r"(?!)", "use msgspec or msgpack: a shelf is a pickle"),
    "marshal": (r"(?!)", "use msgspec or msgpack"),
    "requests": (r"(?!)", "use aiohttp"),
    "sched": (r"(?!)", "use step(now, events)"),
}
"""A module of others, the files that may import it, and what to use elsewhere."""

IMPURE = {
    "asyncio": "statemachine/ waits for nothing: return effects as values",
    "logging": "return an event or a code in the reply",
    "os": "the environment is opened by statemachine's caller; take a path",
    "random": "the proposer decides: carry the value in the command",
    "secrets": "the proposer decides: carry the value in the command",
    "socket": "statemachine/ talks to nobody",
    "subprocess": "statemachine/ starts nothing",
    "threading": "one writer, no threads",
    "time": "the proposer decides: use command.now_ms",
    "uuid": "the proposer decides: carry the id in the command",
}
"""What statemachine/ must not import, and why not or what instead."""

CLOCK_CALLS = re.compile(r"(datetime|date)\.(now|utcnow|today)|datetime\.datetime\.(now|utcnow|today)")
BANNED_CALLS: dict[str, str] = {
    "asyncio.get_event_loop": "asyncio.get_running_loop()",
    "asyncio.ensure_future": "asyncio.create_task(), its task kept",
    "eval": "ast.literal_eval or a parser",
    "exec": "a function",
    "os.system": "subprocess.run with a list",
    "os.popen": "subprocess.run with a list",
    "os._exit": "raise, or sys.exit in the composition root",
}
PRINTERS = re.compile(r"node/cli\w*\.py")
VAGUE_NAMES = re.compile(
    r"(?:^|_)(utils?|common|helpers?|managers?)(?:_|$)|(Utils?|Helpers?|Managers?)$", re.IGNORECASE
)
LEFTOVER = re.compile(r"\b(FIX" r"ME|TO" r"DO|XX" r"X)\b")
OUTSIDE = re.compile(r"\.\./sha" r"red|/work/sha" r"red|\b(API|CHAOS|CRON|PERF|RAFT|STYLE)\.m" r"d\b|DESI" r"GN §")


@dataclass(frozen=True)
class File:
    """A python file: its path from the project's root (posix), and its text."""

    path: str
    text: str

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_test(self) -> bool:
        return self.package == "tests"

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def imports(self) -> tuple[tuple[int, str], ...]:
        """(line, dotted name) of all that is imported, wherever it stands; `from a import b` is a.b."""
        return tuple(_imports(self.tree))

    @cached_property
    def calls(self) -> tuple[tuple[int, str], ...]:
        """(line, dotted name) of all calls by name."""
        return tuple(
            (node.lineno, ast.unparse(node.func))
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
        )

    @cached_property
    def texts(self) -> frozenset[str]:
        """Its string constants: a command that is loaded when it is called for names its module in one."""
        return frozenset(
            node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            stem = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)


Rule = Callable[[File], Iterator[str]]


def import_directions(file: File) -> Iterator[str]:
    if file.is_test:
        return
    allowed = (file.package, *MAY_IMPORT.get(file.package, ()))
    if COMPOSITION_ROOT.fullmatch(file.path):
        allowed += COMPOSITION_ROOT_ALSO
    if SIMULATOR.fullmatch(file.path):
        allowed += SIMULATOR_ALSO
    for line, name in file.imports:
        if name.startswith("."):
            yield f"{file.path}:{line}: relative import; write the package's name"
        ours = name.partition(".")[0] in MAY_IMPORT
        if ours and not any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed):
            permitted = ", ".join(MAY_IMPORT.get(file.package, ())) or "nothing of ours"
            yield f"{file.path}:{line}: imports {name}; {file.package}/ may import {permitted}"


def restricted_modules(file: File) -> Iterator[str]:
    if file.is_test:
        return
    for line, name in file.imports:
        places, instead = ONLY_IN.get(name.partition(".")[0], (".*", ""))
        if not re.fullmatch(places, file.path):
            yield f"{file.path}:{line}: imports {name}; {instead}"


def pure_statemachine(file: File) -> Iterator[str]:
    if file.package != "statemachine":
        return
    for line, name in file.imports:
        if name.partition(".")[0] in IMPURE:
            yield f"{file.path}:{line}: imports {name}; {IMPURE[name.partition('.')[0]]}"


def clock_calls(file: File) -> Iterator[str]:
    if file.is_test or file.path == "node/clock.py":
        return
    for line, name in file.calls:
        if CLOCK_CALLS.fullmatch(name):
            yield f"{file.path}:{line}: calls {name}; take a node.clock.Clock or the time as an argument"


def banned_calls(file: File) -> Iterator[str]:
    for line, name in file.calls:
        if name in BANNED_CALLS:
            yield f"{file.path}:{line}: calls {name}; use {BANNED_CALLS[name]}"


def printing(file: File) -> Iterator[str]:
    if file.is_test or PRINTERS.fullmatch(file.path):
        return
    for line, name in file.calls:
        if name == "print" or name.startswith("click.echo"):
            yield f"{file.path}:{line}: prints; log it, or return it to node/cli*.py, which print"


def sizes(file: File) -> Iterator[str]:
    lines = file.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{file.path}: {lines} lines; split it before {FILE_LINES_MAX}"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{file.path}:{node.lineno}: {node.name} has {length} lines; split it before {FUNCTION_LINES_MAX}"


def names(file: File) -> Iterator[str]:
    if VAGUE_NAMES.search(PurePosixPath(file.path).stem):
        yield f"{file.path}: a vague name; name the file after what it holds"
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if VAGUE_NAMES.search(node.name) and not node.name.startswith("test_"):
            yield f"{file.path}:{node.lineno}: {node.name} is a vague name; say what it holds or does"


def leftovers(file: File) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) and (found := LEFTOVER.search(token.string)):
            yield f"{file.path}:{token.start[0]}: {found[0]} left over; do it, or file an issue"


def outside_mentions(file: File) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), 1):
        if OUTSIDE.search(line):
            yield f"{file.path}:{number}: names what stands outside of the project; say it here in own words"


def sleeping_tests(file: File) -> Iterator[str]:
    if not file.is_test:
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep", "sleep"):
            if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0:
                continue  # lets other tasks run, waits for nothing
            yield f"{file.path}:{node.lineno}: sleeps; move a fake clock, or wait for a signal or condition"


def flatness(file: File) -> Iterator[str]:
    if not file.is_test and file.path.count("/") > 1:
        yield f"{file.path}: packages are flat; move it up into {file.package}/"


RULES: tuple[Rule, ...] = (
    import_directions,
    restricted_modules,
    pure_statemachine,
    clock_calls,
    banned_calls,
    printing,
    sizes,
    names,
    leftovers,
    outside_mentions,
    sleeping_tests,
    flatness,
)


def never_imported(files: list[File], entry_points: dict[str, str]) -> Iterator[str]:
    """Files of our packages that no other file of them imports: tests keep nothing alive."""
    imported = {
        prefix
        for file in files
        if not file.is_test
        for name in (*(name for _, name in file.imports), *file.texts)
        for prefix in (name, name.rpartition(".")[0])
        if prefix != file.module
    }
    for file in files:
        idle = file.module not in imported and not file.path.endswith("/__init__.py")
        if idle and not file.is_test and file.path not in entry_points:
            yield f"{file.path}: imported by nothing; use it or delete it"
