"""Starting a worker: a stock SGLang server with (or without) the plugin, as one process tree.

Loads neither torch nor sglang. The launching process becomes the server by ``exec``: whoever
started it has the server's process id, its exit code, and its children die with it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NoReturn

from agentserve.core.config import WORKER_PORT, FeatureCacheConfig
from agentserve.core.errors import EngineMismatch, InvalidRequest
from agentserve.engine.boot import CACHE, PARENT_VARIABLE, WORKER_VARIABLE, Boot
from agentserve.engine.cpu import cpu_arguments, cpu_environment

Device = Literal["cpu", "cuda"]

_ARGUMENTS = (
    # Keeps a picture's preprocessing between calls. It also makes SGLang take a prompt's ids as
    # they are: else it counts picture placeholders in their text, and a task that only quotes
    # one is refused.
    *("--mm-preprocess-cache-size-mb", "256"),
    # the router asks for health every second
    *("--log-level-http", "warning"),
)


@dataclass(frozen=True)
class WorkerOptions:
    """How to start one worker."""

    model: str
    """A checkpoint's folder, or its name on the model hub."""
    device: Device | None = None
    """The GPU when there is one, when left out."""
    host: str = "127.0.0.1"
    port: int = WORKER_PORT
    plugin: bool = True
    served_model_name: str | None = None
    """What requests call the model; its path or name when left out."""
    feature_cache: FeatureCacheConfig = field(default_factory=FeatureCacheConfig)
    """Of the plugin: a stock server has none."""
    count_flops: bool = False
    """Have the plugin count what prompts take; slow."""
    sglang_arguments: tuple[str, ...] = ()
    """Further arguments of SGLang's server; they win over agentserve's defaults."""


def worker_command(
    options: WorkerOptions, environment: Mapping[str, str] = os.environ
) -> tuple[list[str], dict[str, str]]:
    """The command line and the whole environment of a worker's process.

    Raises InvalidRequest for a model folder that is not there, EngineMismatch without SGLang.
    """
    if find_spec("sglang") is None:
        raise EngineMismatch(
            "SGLang is not installed in this environment", hint="pip install agentserve[engine]"
        )
    device = options.device or detect_device(environment)
    local = _is_local(options.model)
    env = {k: v for k, v in environment.items() if k not in (WORKER_VARIABLE, PARENT_VARIABLE)}
    # else GET /health generates a token and takes a second; /health_generate still does
    env.setdefault("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "0")
    if local:
        env["HF_HUB_OFFLINE"] = "1"
    if device == "cpu":
        env = cpu_environment(env)
    if options.plugin:
        boot = Boot(feature_cache=_resolved(options.feature_cache), count_flops=options.count_flops)
        env |= boot.to_environment()
    model = str(Path(options.model).expanduser().resolve()) if local else options.model
    command = [sys.executable, "-P", "-m", "agentserve.engine.serve"]
    command += ["--model-path", model, "--host", options.host, "--port", str(options.port)]
    if options.served_model_name:
        command += ["--served-model-name", options.served_model_name]
    command += _ARGUMENTS
    if options.plugin:
        command += ["--radix-cache-backend", CACHE]
    command += cpu_arguments() if device == "cpu" else ["--device", "cuda"]
    return [*command, *options.sglang_arguments], env


def run_worker(options: WorkerOptions) -> NoReturn:
    """Become the worker: this process is replaced by it.

    Raises what worker_command does, and InvalidRequest when the port is taken.
    """
    if options.device == "cuda" and detect_device() != "cuda":
        raise InvalidRequest(
            "--device cuda: no GPU can be seen here",
            hint="look at nvidia-smi and CUDA_VISIBLE_DEVICES, or take --device cpu",
        )
    check_port(options.host, options.port)
    command, environment = worker_command(options)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)


def detect_device(environment: Mapping[str, str] = os.environ) -> Device:
    """cuda when NVIDIA's driver shows a GPU that may be used, else cpu. Without torch."""
    if environment.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1", "NoDevFiles"):
        return "cpu"
    if Path("/dev/nvidiactl").exists():
        return "cuda"
    if smi := shutil.which("nvidia-smi"):
        listed = subprocess.run([smi, "-L"], capture_output=True, text=True, timeout=30)
        if listed.returncode == 0 and listed.stdout.startswith("GPU"):
            return "cuda"
    return "cpu"


def check_port(host: str, port: int) -> None:
    """Raises InvalidRequest when nothing can listen there: now, not after the model has loaded."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise InvalidRequest(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another --port, or stop what listens there",
        ) from error


def _resolved(config: FeatureCacheConfig) -> FeatureCacheConfig:
    """With an absolute folder: workers started in different places name the same one alike."""
    if config.folder is None:
        return config
    return replace(config, folder=str(Path(config.folder).expanduser().resolve()))


def _is_local(model: str) -> bool:
    """Whether ``model`` is a folder. Raises InvalidRequest when it can only be one and is not."""
    path = Path(model).expanduser()
    if (path / "config.json").is_file():
        return True
    # a hub's name is "model" or "owner/model"
    if path.exists() or model.startswith(("/", "./", "../", "~")) or model.count("/") > 1:
        what = "holds no config.json" if path.is_dir() else "is not a folder"
        raise InvalidRequest(
            f"no model at {model}: it {what}",
            hint="give a checkpoint's folder, a name on the model hub, or nano",
        )
    return False
