"""Streams like those of the papers' evaluations, made by rule: the same records for the same seed."""

from __future__ import annotations

from muntin.generate.arrival import Arrivals, Recording
from muntin.generate.factory import Factory
from muntin.generate.football import Football
from muntin.generate.stocks import Stocks
from muntin.generate.stored import Stored

__all__ = ["GENERATORS", "Arrivals", "Factory", "Football", "Recording", "Stocks", "Stored"]

GENERATORS: dict[str, type[Football] | type[Factory] | type[Stocks]] = {
    "factory": Factory,
    "football": Football,
    "stocks": Stocks,
}
