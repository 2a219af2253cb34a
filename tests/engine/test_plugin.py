"""The plugin's gate: nothing outside a worker, one line and an exit code where SGLang differs."""

import functools
import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

import agentserve.core.blobs as blobs
from agentserve.core.errors import EngineMismatch
from agentserve.engine import compat
from agentserve.engine.boot import Boot
from agentserve.engine.compat import Name
from agentserve.engine.cpu import cpu_environment
from agentserve.engine.plugin import EXIT_MISMATCH, HOOKS

# Imports SGLang once; then, for each case in a fork of its own, makes the case's change and loads
# the plugins as SGLang's processes do.
DRIVER = """
import json, os, sys, tempfile
from dataclasses import replace
from agentserve.engine import compat, plugin
from sglang.srt.plugins import load_plugins

for entry in (*compat.NAMES, *plugin.HOOKS):
    compat.resolve(entry.target)


def run(change):
    try:
        exec(change)
        load_plugins()
        if plugin.boot_of():
            plugin.verify_hooks()
        print("loaded")
    except SystemExit as end:
        return end.code
    return 0


results = {}
for name, change in json.load(sys.stdin).items():
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code = run(change)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        status = os.waitpid(child, 0)[1]
        out.seek(0)
        err.seek(0)
        results[name] = os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()
print(json.dumps(results))
"""
CASES = {
    "nothing changed": "",
    "not our process": "del os.environ['AGENTSERVE_WORKER']",
    "other release": "compat.SGLANG_VERSION = '9.9.9'",
    "hook's signature": (
        "plugin.HOOKS = (replace(plugin.HOOKS[0], signature='(state, more)'), *plugin.HOOKS[1:])"
    ),
    "hook's target": (
        "plugin.HOOKS = (replace(plugin.HOOKS[0], target='sglang.srt.entrypoints.gone.f'),)"
    ),
    "private name": "compat.NAMES = (replace(compat.NAMES[0], signature='(again)'),)",
    "hook not applied": "compat.HookRegistry.apply_hooks = classmethod(lambda cls: None)",
}
LINES = {
    "other release": "the plugin fits SGLang 9.9.9, this is 0.5.23",
    "hook's signature": "set_global_state takes (global_state), the plugin expects (state, more)",
    "hook's target": "SGLang has no sglang.srt.entrypoints.gone.f",
    "private name": "load_plugins takes (), the plugin expects (again)",
    "hook not applied": (
        "SGLang did not apply the hook on sglang.srt.entrypoints.http_server.set_global_state"
    ),
}


@dataclass
class Outcome:
    code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER],
        env=cpu_environment(Boot().to_environment()),
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return {name: Outcome(*values) for name, values in json.loads(done.stdout).items()}


def test_outside_a_worker_it_does_not_even_import_sglang():
    code = (
        "import sys; from agentserve.engine import plugin; plugin.register()\n"
        "print(sorted({'torch', 'sglang'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


@pytest.mark.parametrize("case", ["nothing changed", "not our process"])
def test_this_sglang_fits(outcomes: dict[str, Outcome], case: str):
    assert (outcomes[case].code, outcomes[case].stdout) == (0, "loaded\n"), outcomes[case].stderr


@pytest.mark.parametrize("case", LINES)
def test_a_misfit_ends_the_process_with_one_line(outcomes: dict[str, Outcome], case: str):
    outcome = outcomes[case]
    assert outcome.code == EXIT_MISMATCH
    assert outcome.stdout == ""
    (only,) = [line for line in outcome.stderr.splitlines() if "agentserve" in line]
    assert only.startswith("agentserve worker: ")
    assert LINES[case] in only
    assert "Traceback" not in outcome.stderr


def test_names_are_compared_without_annotations():
    compat.check_names([Name("agentserve.core.blobs.blob_path", "(root, tenant, sha256)")])
    with pytest.raises(
        EngineMismatch, match=r"takes \(root, tenant, sha256\), the plugin expects \(root\)"
    ):
        compat.check_names([Name("agentserve.core.blobs.blob_path", "(root)")])


def test_a_hook_is_found_behind_other_wrappers(monkeypatch: pytest.MonkeyPatch):
    original = blobs.blob_path
    hook = HOOKS[1].function

    @functools.wraps(original)
    def ours(*args):
        hook(*args)
        return original(*args)

    @functools.wraps(ours)
    def another(*args):
        return ours(*args)

    target = "agentserve.core.blobs.blob_path"
    assert not compat.is_hooked(target, hook)
    monkeypatch.setattr(blobs, "blob_path", another)
    assert compat.is_hooked(target, hook)
