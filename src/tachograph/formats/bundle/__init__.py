"""The container `*.tacho` of evidence.md ("Bundle", "Reader"): written in one way, read without forgiving."""
