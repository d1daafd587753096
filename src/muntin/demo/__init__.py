"""The main job: football and factory sensors, streamed through window queries on Spark."""
