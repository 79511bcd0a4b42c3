"""Asks from processes: argv is the base URL and how they are started (fork, spawn or forkserver)."""

from __future__ import annotations

import multiprocessing
import sys

import httpx


def ask(url: str, number: int) -> str:
    """One call, in a process of its own."""
    return httpx.post(url, json={"number": number}, timeout=10).text


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    try:
        with context.Pool(2) as pool:
            print(pool.starmap(ask, [(sys.argv[1], number) for number in range(3)]))
    except PermissionError as refused:
        print("refused:", type(refused).__name__)
        sys.exit(9)
