"""The command line: `main` finds the verb, `commands/` has a file per verb, `render` turns answers into text."""
