"""The command line: `muntin run`, `explain`, `generate`, `demo`, `bench`, `doctor`."""
