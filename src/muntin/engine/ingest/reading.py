"""The one way in: columns of a batch, in their types, become records that an engine takes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.columnar import Times
from muntin.engine.ingest.batch import Stretch
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.ingest.reader import check_range, tie_values
from muntin.engine.ingest.watermark import Survey

if TYPE_CHECKING:
    from muntin.engine.engine import Engine


class Batch(NamedTuple):
    """Records as an engine takes them in, with what settles the order of equal times."""

    records: Stretch
    tie: NDArray[np.generic] | None
    survey: Survey


def read_batch(
    engine: Engine,
    keys: KeyTable,
    columns: Mapping[str, pa.Array],
    times: Times,
    time: str,
    tie: str | None,
) -> Batch:
    """Return the records of columns, of which there must be some; `time` and `tie` are names of columns.

    Refuses times that windows do not reach before a key is numbered.
    """
    survey = engine.survey(times)
    check_range(survey.low, survey.high, time)
    engine.check_span(survey.low, survey.high)
    values = engine.read_values(columns, times)
    ties = None if tie is None else tie_values(columns[tie], tie)
    codes = keys.encode([columns[name] for name in keys.names])
    records = Stretch(times, codes, len(keys), values, survey.disordered, survey.low, survey.high)
    return Batch(records, ties, survey)
