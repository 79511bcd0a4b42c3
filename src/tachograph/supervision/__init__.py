"""The parts of `supervision.supervisor`: a program's streams, its terminal, its signals, its start and its end."""
