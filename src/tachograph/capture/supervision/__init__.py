"""The parts of `capture.supervisor`: a program's streams, its terminal, its signals, its start and its end."""
