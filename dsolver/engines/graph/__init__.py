"""The `graph` engine: every operation is a Dask task on the worker that owns the chunk.

`engine` adds tasks, `tasks` is what they run, `task_graph` has those that wait, `results` submits them and waits,
`spans` reads Dask's record of them, `labels` are their names on the dashboard.
"""
