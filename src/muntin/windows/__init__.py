"""Where window edges lie: one module per family."""

from muntin.windows.aware import ContextAwareWindow
from muntin.windows.base import Query, Window
from muntin.windows.calendar import calendar
from muntin.windows.count import count_sliding, count_tumbling
from muntin.windows.frames import aggregate_frame, delta_frame, state_window, threshold_frame
from muntin.windows.grid import cumulate, sliding, tumbling
from muntin.windows.measures import on
from muntin.windows.own import user_window
from muntin.windows.own_grid import ContextFreeWindow
from muntin.windows.policies import policy_window
from muntin.windows.punctuation import landmark, punctuation
from muntin.windows.rolling import feature_window, last_n, last_span, rolling
from muntin.windows.session import session

__all__ = [
    "ContextAwareWindow",
    "ContextFreeWindow",
    "Query",
    "Window",
    "aggregate_frame",
    "calendar",
    "count_sliding",
    "count_tumbling",
    "cumulate",
    "delta_frame",
    "feature_window",
    "landmark",
    "last_n",
    "last_span",
    "on",
    "policy_window",
    "punctuation",
    "rolling",
    "session",
    "sliding",
    "state_window",
    "threshold_frame",
    "tumbling",
    "user_window",
]
