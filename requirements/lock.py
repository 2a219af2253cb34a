#!/usr/bin/env python3
"""Write requirements/cpu.txt, the lock of everything agentserve needs on a machine without a GPU.

    python requirements/lock.py            # after a change to pyproject.toml or to the lists below
    python requirements/lock.py --upgrade  # newer versions of everything
    python requirements/lock.py --check    # write nothing, exit 1 when cpu.txt is out of date

SGLang's own requirements are those of a CUDA server (11 GB). The packages in EXCLUDED are left out
of the resolution, with everything that only they need. The resolver is uv (installed into a
throw-away environment when it is not on PATH); only metadata is fetched, no wheel. The lock holds,
per package, one version for all supported Pythons and the hashes of its wheels for Linux x86_64.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE / "cpu.txt"
PYTHONS = ("3.11", "3.12", "3.13")  # those SGLang 0.5.23 has wheels for
PLATFORM = "x86_64-manylinux_2_36"
EXTRAS = ("engine", "browser", "replay", "plot", "dev")
UV = "uv>=0.9.8"

# Left out of the lock. A reason each; "not imported" was read off sys.modules of all processes of
# a server on the CPU that answered text, image, regex and JSON-schema requests for Qwen2.5-VL.
EXCLUDED = {
    "sglang-kernel": "CUDA libraries only; agentserve.engine.cpu stands in for the module",
    "flash-attn-4": "CUDA attention kernels, not imported",
    "quack-kernels": "CUDA kernels, not imported",
    "humming-kernels": "CUDA kernels, not imported",
    "sgl-deep-ep": "CUDA expert parallelism, not imported",
    "sgl-deep-gemm": "CUDA matrix products, not imported",
    "sgl-flash-mla": "CUDA attention for DeepSeek, not imported",
    "tilelang": "CUDA kernel compiler, not imported",
    "nvidia-cutlass-dsl": "CUDA kernel compiler, not imported",
    "nvidia-mathdx": "CUDA device libraries, not imported",
    "nvshmem4py-cu13": "GPU-to-GPU memory, not imported",
    "cuda-python": "CUDA driver bindings, not imported",
    "cuda-bindings": "CUDA driver bindings; torch imports them only where there is a GPU",
    "cuda-pathfinder": "finds CUDA libraries for the bindings above",
    "torch-memory-saver": "frees GPU memory between training steps; not imported",
    "nvidia-cusolver": "loaded by torch only for linear algebra on a GPU",
    "nvidia-nvtx": "GPU profiling marks; nothing links to it",
    "torchaudio": "audio models only",
    "torchcodec": "video decoding only; screens are PNG",
    "outlines": "a grammar backend that is not the default (xgrammar is)",
    "modelscope": "another model hub; not imported",
    "mistral-common": "Mistral's tokenizers; not imported",
    "datasets": "benchmark data sets (with pandas and pyarrow); not imported",
    "anthropic": "client of another API; not imported by the server",
    "smg-grpc-servicer": "SGLang's gRPC mode (with grpcio and protobuf); agentserve speaks HTTP",
    "deepseek-recipe": "DeepSeek's chat format; not imported",
    "tml-renderers": "another model's chat format; not imported",
    "cuda-tile": "FlashInfer's tile kernels; not imported",
    "nccl-extensions": "FlashInfer between several GPUs; not imported",
    "nccl4py": "FlashInfer between several GPUs; not imported",
    "nvidia-cudnn-frontend": "FlashInfer's cuDNN kernels; not imported",
    "tabulate": "tables of FlashInfer's command line; not imported",
    "py-spy": "a profiler the operator starts by hand",
}

# Imported by SGLang but not asked for by it: they come along with a package left out above.
ADDED = {
    "dill": "imported when the server starts; otherwise brought by datasets",
    "jsonschema": "imported by the OpenAI chat route; otherwise brought by mistral-common",
}

# Wheels that look as if they could go, and cannot.
KEPT = {
    "nvidia-*": "torch's libraries link to these, its CUDA build is the only one of this release",
    "flashinfer-python": "agentserve's CUDA kernels are compiled with its headers in the tests",
    "triton": "imported with sglang; also interprets agentserve's kernels in the tests",
    "selenium": "import miniwob needs it",
}


def find_uv(scratch: Path) -> str:
    if found := shutil.which("uv"):
        return found
    home = scratch / "uv"
    venv.create(home, with_pip=True)
    subprocess.run([home / "bin/pip", "install", "--quiet", UV], check=True)
    return str(home / "bin/uv")


def resolve(uv: str, python: str, constraints: str, scratch: Path) -> dict[str, dict]:
    """Name to {version, marker, hashes, bytes} of one Python version's resolution."""
    excludes = scratch / "excludes.txt"
    excludes.write_text("".join(f"{name}\n" for name in EXCLUDED))
    added = scratch / "added.in"
    added.write_text("".join(f"{name}\n" for name in ADDED))
    pins = scratch / "constraints.txt"
    pins.write_text(constraints)
    out = scratch / f"pylock.{python.replace('.', '')}.toml"
    command = [
        uv,
        "pip",
        "compile",
        str(HERE.parent / "pyproject.toml"),
        str(added),
        "--quiet",
        "--no-header",
    ]
    command += [part for extra in EXTRAS for part in ("--extra", extra)]
    command += ["--python-version", python, "--python-platform", PLATFORM, "--only-binary", ":all:"]
    command += ["--excludes", str(excludes), "--constraints", str(pins)]
    command += ["--format", "pylock.toml", "-o", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    packages = {}
    for package in tomllib.loads(out.read_text())["packages"]:
        wheels = package.get("wheels")
        if not wheels:
            sys.exit(f"{package['name']} {package['version']} has no wheel for Python {python}")
        packages[package["name"]] = {
            "version": package["version"],
            "hashes": {wheel["hashes"]["sha256"] for wheel in wheels},
            "bytes": max(wheel.get("size", 0) for wheel in wheels),
        }
    return packages


def merge(resolutions: dict[str, dict[str, dict]]) -> dict[str, dict]:
    merged: dict[str, dict] = {}
    for python, packages in resolutions.items():
        for name, package in packages.items():
            entry = merged.setdefault(name, {**package, "hashes": set(), "pythons": []})
            if entry["version"] != package["version"]:
                sys.exit(f"{name}: {entry['version']} and {package['version']} (Python {python})")
            entry["hashes"] |= package["hashes"]
            entry["pythons"].append(python)
    return merged


def marker(pythons: list[str]) -> str:
    if len(pythons) == len(PYTHONS):
        return ""
    return " ; " + " or ".join(f"python_version == '{python}'" for python in pythons)


def render(packages: dict[str, dict]) -> str:
    size = sum(package["bytes"] for package in packages.values()) / 1e9
    lines = [
        "# Everything agentserve needs without a GPU: engine on the CPU, router, browser, tests.",
        f"# Linux x86_64, Python {', '.join(PYTHONS)};"
        f" {len(packages)} packages, {size:.2f} GB to download.",
        "#",
        "#     pip install --no-deps --require-hashes -r requirements/cpu.txt",
        "#",
        "# --no-deps matters: some packages that SGLang asks for are left out on purpose.",
        "# A GPU box needs them all:",
        "#",
        "#     pip install .[engine,browser,replay,dev]",
        "#",
        "# Made by requirements/lock.py; run it again after a change to pyproject.toml.",
        "#",
        "# Left out:",
        *(f"#   {name}: {reason}" for name, reason in EXCLUDED.items()),
        "# Added:",
        *(f"#   {name}: {reason}" for name, reason in ADDED.items()),
        "# Kept although it looks superfluous:",
        *(f"#   {name}: {reason}" for name, reason in KEPT.items()),
        "",
    ]
    for name, package in sorted(packages.items()):
        lines.append(f"{name}=={package['version']}{marker(package['pythons'])} \\")
        hashes = sorted(package["hashes"])
        lines += [f"    --hash=sha256:{h} \\" for h in hashes[:-1]] + [
            f"    --hash=sha256:{hashes[-1]}"
        ]
    return "\n".join(lines) + "\n"


def pins_of(text: str) -> str:
    """The name==version lines of a lock."""
    pins = [
        line.removesuffix(" \\") for line in text.splitlines() if "==" in line and line[0].isalnum()
    ]
    return "".join(f"{pin}\n" for pin in pins)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when the lock is out of date"
    )
    parser.add_argument(
        "--upgrade", action="store_true", help="take newer versions than the lock has"
    )
    options = parser.parse_args()
    old = LOCK.read_text() if LOCK.exists() else ""
    constraints = "" if options.upgrade else pins_of(old)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        uv = find_uv(scratch)
        resolutions: dict[str, dict[str, dict]] = {}
        for python in PYTHONS:
            print(f"resolving for Python {python}", file=sys.stderr)
            resolutions[python] = resolve(uv, python, constraints, scratch)
            constraints += "".join(f"{n}=={p['version']}\n" for n, p in resolutions[python].items())
    new = render(merge(resolutions))
    if options.check:
        sys.exit(
            0 if new == old else f"{LOCK.name} is out of date: run python requirements/lock.py"
        )
    partial = LOCK.with_suffix(".txt.partial")
    partial.write_text(new)
    os.replace(partial, LOCK)
    print(f"wrote {LOCK}: {new.splitlines()[1][2:-1]}", file=sys.stderr)


if __name__ == "__main__":
    main()
