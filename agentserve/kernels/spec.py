"""What a spec is: an operation's plain reference, example inputs and tolerances, in one object.

Tests, the device check and the Triton interpreter's run are loops over ``specs.ALL``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentserve.kernels import ops
from agentserve.kernels.dispatch import Backend

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Tolerance:
    """A result may differ from the reference by ``absolute + relative * |reference|``."""

    absolute: float
    relative: float


EXACT = Tolerance(0.0, 0.0)


@dataclass(frozen=True)
class Case:
    """One set of inputs: a name for reports and the arguments of the spec's ``inputs``."""

    name: str
    arguments: Mapping[str, Any]
    dtype: torch.dtype = torch.float32
    refused_by: tuple[Backend, ...] = ()
    """The backends that have no kernel for it."""


@dataclass(frozen=True)
class Spec:
    """One operation."""

    name: str
    """Of the function in ``ops``."""
    reference: Callable[..., Any]
    """Takes the operation's arguments, on the CPU, changes none of them, and returns what it
    returns, or what ``writes`` must be afterwards. Simple and slow."""
    inputs: Callable[..., Inputs]
    """``inputs(generator, dtype, **case.arguments)``: the operation's arguments, on the CPU."""
    cases: tuple[Case, ...]
    tolerances: Mapping[torch.dtype, Tolerance]
    """Of floating results, by the case's dtype. Integers are always exact."""
    writes: tuple[str, ...] = ()
    """The arguments that an operation works on in place; it returns nothing then."""

    def example(self, case: Case, seed: int = 0, device: str = "cpu") -> Inputs:
        """The case's inputs; the same for a seed on every device."""
        generator = torch.Generator().manual_seed(seed)
        made = self.inputs(generator, case.dtype, **case.arguments)
        return {name: _map(lambda x: x.to(device), value) for name, value in made.items()}

    def check(self, case: Case, backend: Backend, seed: int = 0, device: str = "cpu") -> None:
        """Run the operation on a device and compare it with the reference on the CPU.

        Raises:
            AssertionError: they differ by more than the tolerance.
        """
        expected = self.reference(**self.example(case, seed))
        inputs = self.example(case, seed, device)
        actual = getattr(ops, self.name)(**inputs, backend=backend)
        if self.writes:
            actual = [inputs[name] for name in self.writes]
        _compare(actual, expected, self.tolerances[case.dtype])


def _compare(actual: Any, expected: Any, tolerance: Tolerance) -> None:
    if not isinstance(actual, Tensor):
        for one, other in zip(actual, expected, strict=True):
            _compare(one, other, tolerance)
        return
    actual = actual.cpu()
    exact = tolerance == EXACT or not actual.is_floating_point()
    if exact and actual.element_size() == 1:  # 8-bit floats are compared as bytes
        actual, expected = actual.view(torch.uint8), expected.view(torch.uint8)
    torch.testing.assert_close(
        actual,
        expected,
        atol=0.0 if exact else tolerance.absolute,
        rtol=0.0 if exact else tolerance.relative,
        equal_nan=True,
    )


def _map(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list):
        return [change(each) for each in value]
    return value
