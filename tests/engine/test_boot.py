from agentserve.core.config import FeatureCacheConfig
from agentserve.engine.boot import WORKER_VARIABLE, Boot, boot_of


def test_a_boot_reaches_the_processes_through_the_environment():
    boot = Boot()
    assert boot_of(boot.to_environment()) == boot


def test_its_settings_do_too():
    config = FeatureCacheConfig(memory_mb=7, folder="/x", folder_mb=8)
    boot = Boot(feature_cache=config, count_flops=True)
    assert boot_of(boot.to_environment()) == boot


def test_every_start_is_another_boot():
    assert len({Boot().boot_id for _ in range(100)}) == 100


def test_no_boot_outside_a_worker():
    assert boot_of({}) is None
    assert boot_of({WORKER_VARIABLE: ""}) is None
