"""`python -m dsolver` is the `dsolver` command."""

from dsolver.cli import main

if __name__ == "__main__":
    main(prog_name="dsolver")
