"""Hypothesis profiles: `make test` runs the same cases each time, `make test-long` many more and others."""

import os

from hypothesis import HealthCheck, settings

base = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", base, derandomize=True)
settings.register_profile("long", base, max_examples=1000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
