"""Measurements: each module measures one row of the numbers to reach, with its baseline in the same run."""
