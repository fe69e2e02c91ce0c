"""`dsolver hpcg`: the command, and the report of the benchmark."""
