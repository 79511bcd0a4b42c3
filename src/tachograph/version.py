"""The version of this distribution, in one place that every layer may read."""

VERSION = "0.1.0"
