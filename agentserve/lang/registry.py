"""The programs that a host may run: files that are loaded once, by name."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from sglang.lang.ir import SglFunction

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import UnknownProgram
from agentserve.core.hosting import ProgramInfo, ProgramList

log = logging.getLogger(__name__)

_ARGUMENTS = {"begin": ["task"], "turn": ["view", "instruction", "feedback"]}


class _NotAProgram(Exception):
    """Why a file is none; its text is shown to people."""


@dataclass(frozen=True)
class Program:
    """A loaded program."""

    info: ProgramInfo
    path: Path
    begin: SglFunction
    turn: SglFunction


@dataclass(frozen=True)
class Registry:
    """The registered programs by name, and the files that are none."""

    programs: dict[str, Program] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Program:
        """Raises UnknownProgram, with the known ones."""
        if name not in self.programs:
            known = sorted(self.programs)
            raise UnknownProgram(
                f"no program is registered as {name!r}",
                hint=f"registered: {', '.join(known) or 'none'}",
                details={"programs": known},
            )
        return self.programs[name]

    def listing(self) -> ProgramList:
        infos = [self.programs[name].info for name in sorted(self.programs)]
        return ProgramList(programs=infos, broken=self.broken)


def load_registry(paths: Iterable[Path]) -> Registry:
    """Load programs from files, and from the ``*.py`` of folders (not those with a leading _).

    Never raises for a bad file: it is reported in ``broken`` and the others are served.
    """
    registry = Registry()
    for path in map(Path.resolve, paths):  # as it will stand in tracebacks
        if path.is_dir():
            files = [f for f in sorted(path.glob("*.py")) if not f.name.startswith("_")]
        else:
            files = [path]
        for file in files:
            try:
                program = _load(file)
                if program.info.name in registry.programs:
                    other = registry.programs[program.info.name].path
                    raise _NotAProgram(f"the name is taken by {other}")
                registry.programs[program.info.name] = program
            except _NotAProgram as error:
                log.warning("%s is no program: %s", file, error)
                registry.broken[str(file)] = str(error)
    return registry


def _load(file: Path) -> Program:
    try:
        source = file.read_bytes()
    except OSError as error:
        raise _NotAProgram(f"cannot be read: {error.strerror}") from error
    module = _execute(file)
    functions = {}
    for name, arguments in _ARGUMENTS.items():
        function = getattr(module, name, None)
        signature = f"{name}(s, {', '.join(arguments)})"
        if not isinstance(function, SglFunction):
            raise _NotAProgram(f"it has no @sgl.function {signature}")
        if function.arg_names != arguments:
            raise _NotAProgram(
                f"{name} takes (s, {', '.join(function.arg_names)}), it must be {signature}"
            )
        functions[name] = function
    info = ProgramInfo(name=file.stem, doc=inspect.getdoc(module) or "", sha256=sha256_of(source))
    return Program(info=info, path=file, **functions)


def _execute(file: Path) -> ModuleType:
    name = f"agentserve_program_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _NotAProgram("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles of a program look their module up here
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a foreign file does when it is imported
        log.warning("importing %s failed", file, exc_info=True)
        del sys.modules[name]
        raise _NotAProgram(f"{type(error).__name__}: {error}") from error
    return module
