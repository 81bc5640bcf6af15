"""``python -m mdstorm``: the ``mdstorm`` command."""

from mdstorm.cli import main

if __name__ == "__main__":
    main(prog_name="mdstorm")
