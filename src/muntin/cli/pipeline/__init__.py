"""Pipelines: pipeline.toml, sources, sinks, and how a run goes on after a stop."""
