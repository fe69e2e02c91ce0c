"""A resident program on a cluster: one long-lived rank a worker, called together by the client.

`client` runs in the process that starts a program, `worker` in Dask's workers, `rank` in a thread of its own there.
"""
