"""`python -m tachograph`: the same as the `tacho` command."""

from tachograph.cli.main import entry

if __name__ == "__main__":
    entry()
