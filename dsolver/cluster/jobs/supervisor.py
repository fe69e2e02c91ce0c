"""Supervisor of a job's process: ends it when the worker beside which it runs is gone.

A program by itself, with Python's own library alone, so that it starts at once and takes little memory:

    python supervisor.py FOLDER COMMAND ...

FOLDER is the descriptor of the open folder in which the command runs.

Its standard input is a pipe of the worker's, which closes when the worker ends, however that happens. A line that comes
there interrupts the command as Ctrl-C would. It ends with the exit status of the command, or 128 and the number of the
signal that has ended it.
"""

import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 3.0  # seconds that the command has to end by itself; another worker begins the job anew meanwhile


def main(folder: str, *command: str) -> int:
    """Run the command in the folder to its end."""
    os.fchdir(int(folder))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a worker that ignores Ctrl-C hands that down to its processes
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all processes of the job hear it: the command decides what follows
    threading.Thread(target=listen, daemon=True).start()
    code = process.wait()
    return 128 - code if code < 0 else code


def listen() -> None:
    """Interrupt the job's processes when the worker says so, and end them when it ends: first as Ctrl-C would."""
    while os.read(0, 1024):  # not by way of sys.stdin, whose lock the interpreter wants at its end
        os.killpg(os.getpgrp(), signal.SIGINT)
    for number in (signal.SIGINT, signal.SIGKILL):
        os.killpg(os.getpgrp(), number)
        time.sleep(GRACE)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
