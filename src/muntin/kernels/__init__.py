"""Compiled loops: source templates, and the generator that fills them in for one aggregate."""

from muntin.kernels.discretizers import Discretizer, discretizer
from muntin.kernels.generator import Kernel, finisher, instantiate, instantiate_rows
from muntin.kernels.modules import NotCompilableError

__all__ = [
    "Discretizer",
    "Kernel",
    "NotCompilableError",
    "discretizer",
    "finisher",
    "instantiate",
    "instantiate_rows",
]
