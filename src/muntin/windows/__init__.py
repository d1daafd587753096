"""Where window edges lie: one module per family."""

from muntin.windows.base import Query, Window
from muntin.windows.count import count_sliding, count_tumbling
from muntin.windows.grid import cumulate, sliding, tumbling
from muntin.windows.session import session

__all__ = [
    "Query",
    "Window",
    "count_sliding",
    "count_tumbling",
    "cumulate",
    "session",
    "sliding",
    "tumbling",
]
