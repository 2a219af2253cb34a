"""A stand-in for SGLang's CUDA kernels on a machine without a GPU.

The real module cannot even be imported there. With SGLang's torch-native layers no kernel of it
is called, but many files import its names: each of them exists here, in this module and in any
submodule, and raises NotImplementedError when it is called.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import torch


class _Name:
    """One name of the real module; its attributes are names as well."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> _Name:
        return _member(self.__name__, name)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"{self.__name__} is a CUDA kernel; on the CPU agentserve only stands in for its name"
        )


def _member(parent: str, name: str) -> _Name:
    if name.startswith("__"):  # Python's own protocols must see that they are not supported
        raise AttributeError(f"{parent} has no {name}")
    return _Name(f"{parent}.{name}")


def __getattr__(name: str) -> _Name:
    return _member(__name__, name)


class _Submodule(ModuleType):
    def __getattr__(self, name: str) -> _Name:
        return _member(self.__name__, name)


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``sgl_kernel.<anything>``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{__name__}."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Submodule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: every name is made when it is asked for."""


class _Operators(torch._ops._OpNamespace):
    """``torch.ops.sgl_kernel``: model files take ``<name>_cpu`` from it when they are imported.

    Other names stay missing: SGLang asks for them to see what the machine can do.
    """

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_cpu"):
            return _Name(f"torch.ops.{__name__}.{name}")
        return super().__getattr__(name)


sys.meta_path.append(_Submodules())
torch.ops.sgl_kernel = _Operators(__name__)
