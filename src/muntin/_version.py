"""The version, which generated code carries as well."""

__version__ = "0.1.0"
