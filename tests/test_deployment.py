"""The compose file and what it mounts: it names what exists, and says what the commands take.

No Docker engine runs where these tests do; `docker compose config` is asked where it is installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from metric_names import documented_metrics
from typer.main import get_command

from agentserve.cli import app
from agentserve.core.config import RouterConfig
from agentserve.router.metrics import Metrics
from agentserve.router.workers.discovery import read_workers

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: of for name, of in SERVICES.items() if of["image"].startswith("agentserve-")}
SGLANGS = {"--enable-metrics"}
"""Options of `agentserve worker` that go on to SGLang."""


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_can_be_started_and_watched(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] and service["healthcheck"]["test"][0] == "CMD"
    for volume in service.get("volumes", ()):
        assert volume.partition(":")[0] in COMPOSE["volumes"], volume
    for config in service.get("configs", ()):
        source = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", config["source"])
        assert source in COMPOSE["configs"]
    for other in service.get("depends_on", ()):
        assert other in SERVICES
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:"), "there are no API keys yet"
    if "build" in service:
        assert (ROOT / service["build"]["dockerfile"]).is_file()
    tag = service["image"].partition(":")[2]
    assert name in OURS or (tag and tag != "latest"), "images are pinned"


def test_what_is_mounted_exists() -> None:
    for config in COMPOSE["configs"].values():
        assert (ROOT / config["file"]).is_file()


@pytest.mark.parametrize("name", OURS)
def test_commands_have_the_options(name: str) -> None:
    command, *options = OURS[name]["command"]
    known = {
        option for parameter in get_command(app).commands[command].params
        for option in parameter.opts
    }  # fmt: skip
    for option in options:
        assert option.partition("=")[0] in known | (SGLANGS if command == "worker" else set())


def test_routers_differ_in_their_data_only() -> None:
    one, two = SERVICES["router-1"], SERVICES["router-2"]
    assert one["command"] == two["command"]
    assert {key: one[key] for key in one if key != "volumes"} == {
        key: two[key] for key in two if key != "volumes"
    }
    options = dict(option.removeprefix("--").split("=") for option in one["command"][1:])
    RouterConfig(store=options["store"], blobs=Path(options["blobs"]))
    assert options["store"] == "redis://redis:6379/0"
    mounted = [dict(v.split(":") for v in service["volumes"]) for service in (one, two)]
    assert mounted[0]["blobs"] == mounted[1]["blobs"] == options["blobs"]
    assert {"router-1", "router-2"} <= mounted[0].keys() | mounted[1].keys()


@pytest.mark.parametrize("profile", ["gpu", "cpu"])
def test_the_workers_files_name_the_profiles_workers(profile: str) -> None:
    urls = read_workers(ROOT / f".docker/workers.{profile}")
    expected = [name for name, of in SERVICES.items() if of.get("profiles") == [profile]]
    assert urls == [f"http://{name}:8301" for name in expected]
    assert all("--port=8301" in SERVICES[name]["command"] for name in expected)


def test_redis_keeps_what_it_acknowledges() -> None:
    command = SERVICES["redis"]["command"]
    settings = dict(zip(command[1::2], command[2::2], strict=True))
    assert settings["--appendonly"] == "yes" and settings["--appendfsync"] == "always"
    assert settings["--maxmemory-policy"] == "noeviction"


def test_the_gateway_and_prometheus_know_all() -> None:
    gateway = (ROOT / ".docker/gateway.conf").read_text()
    assert set(re.findall(r"server (\S+:\d+);", gateway)) == {"router-1:8300", "router-2:8300"}
    (largest,) = re.findall(r"client_max_body_size (\d+)m;", gateway)
    assert int(largest) * 2**20 > RouterConfig().max_body_bytes
    scraped = yaml.safe_load((ROOT / ".docker/prometheus.yml").read_text())["scrape_configs"]
    targets = {
        target for job in scraped for one in job["static_configs"] for target in one["targets"]
    }
    assert {target.partition(":")[0] for target in targets} == set(OURS)


def test_the_dashboard_shows_all_metrics_that_exist() -> None:
    board = json.loads((ROOT / ".docker/grafana/agentserve.json").read_text())
    known = set(re.findall(r"^# TYPE (\w+) ", Metrics().render({}, []).decode(), re.M))
    known = {name for name in known if not name.endswith("_created")}
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked = {
        name.removesuffix("_bucket")
        for query in queries
        for name in re.findall(r"(?:agentserve|process)_\w+", query)
    }
    assert asked <= known
    assert {name for name in known if name.startswith("agentserve_")} <= asked
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def test_the_dashboard_groups_by_labels_that_exist() -> None:
    board = json.loads((ROOT / ".docker/grafana/agentserve.json").read_text())
    labels = {name: set(of) for name, of in documented_metrics().items()}
    for panel in board["panels"]:
        for target in panel["targets"]:
            (by,) = set(re.findall(r"by \(([^)]*)\)", target["expr"])) or {""}
            grouped = set(filter(None, by.split(", "))) - {"le", "instance"}
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - {"instance"}
            assert shown <= grouped, target
            for name in re.findall(r"agentserve_\w+", target["expr"]):
                assert grouped <= labels[name.removesuffix("_bucket")], target


def test_no_secret_is_in_a_file() -> None:
    files = [ROOT / "docker-compose.yml", *(ROOT / ".docker").rglob("*")]
    for file in files:
        if file.is_file():
            words = re.findall(
                r"(?i)(password|secret|token|api_key)\s*[:=]\s*\S+", file.read_text()
            )
            assert not words, file


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker here")
@pytest.mark.parametrize("profile", ["gpu", "cpu"])
def test_docker_compose_takes_it(profile: str) -> None:
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker has no compose plugin")
    done = subprocess.run(
        ["docker", "compose", "--profile", profile, "config", "--quiet"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
