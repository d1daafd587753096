"""What each command does; loaded when it is run."""
