"""Streams like those of the papers' evaluations, made by rule: the same records for the same seed."""

from __future__ import annotations

from muntin.generate.arrival import Arrivals, Recording
from muntin.generate.factory import Factory
from muntin.generate.football import Football
from muntin.generate.stored import Stored

__all__ = ["GENERATORS", "Arrivals", "Factory", "Football", "Recording", "Stored"]

GENERATORS: dict[str, type[Football] | type[Factory]] = {"factory": Factory, "football": Football}
