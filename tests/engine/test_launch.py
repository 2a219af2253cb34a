"""The command and environment of a worker, and the errors before anything is started."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agentserve.core.config import FeatureCacheConfig
from agentserve.core.errors import EngineMismatch, InvalidRequest
from agentserve.engine import launch
from agentserve.engine.boot import PARENT_VARIABLE, WORKER_VARIABLE, boot_of
from agentserve.engine.cpu import STAND_IN
from agentserve.engine.launch import WorkerOptions, check_port, detect_device, worker_command


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text("{}")
    return str(tmp_path)


def value_of(command: list[str], option: str) -> str:
    """The value that counts: SGLang takes the last one."""
    return command[len(command) - command[::-1].index(option)]


def test_cpu(model):
    options = WorkerOptions(model, device="cpu", port=8399, served_model_name="nano")
    command, environment = worker_command(options, {"PYTHONPATH": "/elsewhere", "HOME": "/h"})
    assert command[:4] == [sys.executable, "-P", "-m", "agentserve.engine.serve"]
    assert value_of(command, "--model-path") == model
    assert value_of(command, "--port") == "8399"
    assert value_of(command, "--host") == "127.0.0.1"
    assert value_of(command, "--served-model-name") == "nano"
    assert value_of(command, "--device") == "cpu"
    assert value_of(command, "--attention-backend") == "torch_native"
    assert environment["SGLANG_USE_CPU_ENGINE"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["PYTHONPATH"] == f"{STAND_IN}:/elsewhere"
    assert environment["HOME"] == "/h"


def test_cuda_is_stock(model):
    command, environment = worker_command(WorkerOptions(model, device="cuda"), {})
    assert value_of(command, "--device") == "cuda"
    assert "--attention-backend" not in command
    assert not {"SGLANG_USE_CPU_ENGINE", "PYTHONPATH", "OMP_NUM_THREADS"} & set(environment)


def test_the_users_arguments_win(model):
    options = WorkerOptions(
        model, device="cpu", sglang_arguments=("--max-total-tokens", "100", "--tp", "2")
    )
    command, _ = worker_command(options, {})
    assert value_of(command, "--max-total-tokens") == "100"
    assert command[-2:] == ["--tp", "2"]
    _, environment = worker_command(options, {"OMP_NUM_THREADS": "7"})
    assert environment["OMP_NUM_THREADS"] == "7"


def test_the_prefix_cache_is_the_plugins_unless_another_is_asked_for(model):
    option = "--radix-cache-backend"
    command, _ = worker_command(WorkerOptions(model, device="cpu"), {})
    assert value_of(command, option) == "agentserve"
    other = WorkerOptions(model, device="cpu", sglang_arguments=(option, "mine"))
    assert value_of(worker_command(other, {})[0], option) == "mine"
    stock, _ = worker_command(WorkerOptions(model, device="cpu", plugin=False), {})
    assert option not in stock


def test_every_start_is_a_fresh_boot(model):
    options = WorkerOptions(model, device="cpu")
    _, first = worker_command(options, {})
    _, second = worker_command(options, first)
    assert boot_of(first) is not None
    assert boot_of(first) != boot_of(second)


def test_without_the_plugin_nothing_of_a_boot_is_inherited(model):
    options = WorkerOptions(model, device="cpu", plugin=False)
    _, environment = worker_command(options, {WORKER_VARIABLE: '{"boot_id": "b"}'})
    assert WORKER_VARIABLE not in environment
    assert PARENT_VARIABLE not in environment


@pytest.mark.parametrize("asked", [False, True])
def test_whether_it_counts_reaches_the_worker(model: str, asked: bool):
    _, environment = worker_command(WorkerOptions(model, device="cpu", count_flops=asked), {})
    boot = boot_of(environment)
    assert boot is not None
    assert boot.count_flops is asked


def test_the_feature_cache_reaches_the_worker_with_an_absolute_folder(
    model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    config = FeatureCacheConfig(memory_mb=7, folder="features", folder_mb=8)
    _, environment = worker_command(WorkerOptions(model, device="cpu", feature_cache=config), {})
    boot = boot_of(environment)
    assert boot.feature_cache == FeatureCacheConfig(7, str(tmp_path / "features"), 8)


def test_a_name_on_the_hub_is_left_alone():
    command, environment = worker_command(WorkerOptions("owner/some-model", device="cuda"), {})
    assert value_of(command, "--model-path") == "owner/some-model"
    assert "HF_HUB_OFFLINE" not in environment


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("/no/such/model", "no model at /no/such/model: it is not a folder"),
        ("./nothing-here", "it is not a folder"),
        ("models/nothing/here", "it is not a folder"),
        (str(Path(__file__).parent), "it holds no config.json"),
        (__file__, "it is not a folder"),
    ],
)
def test_a_model_that_is_not_there(model, message):
    with pytest.raises(InvalidRequest, match=message) as caught:
        worker_command(WorkerOptions(model, device="cpu"), {})
    assert "\n" not in caught.value.message


def test_without_sglang(model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    with pytest.raises(EngineMismatch, match="not installed") as caught:
        worker_command(WorkerOptions(model), {})
    assert caught.value.hint == "pip install agentserve[engine]"


def test_a_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidRequest, match=f"cannot listen on 127.0.0.1:{port}"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)  # free again


def test_an_address_of_another_machine():
    with pytest.raises(InvalidRequest, match="cannot listen on 192.0.2.1"):
        check_port("192.0.2.1", 0)


def test_hidden_gpus_are_not_used():
    assert detect_device({"CUDA_VISIBLE_DEVICES": ""}) == "cpu"
    assert detect_device({"CUDA_VISIBLE_DEVICES": "-1"}) == "cpu"


def test_launching_loads_neither_torch_nor_sglang():
    code = (
        "import sys, agentserve.engine.launch\n"
        "print(sorted({'torch', 'sglang', 'transformers'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
