"""A resident program on a cluster: one long-lived rank a worker, called together by the client.

`client` runs in the process that starts a program, with `calls` of all ranks and the `blocks` that they take and make;
`worker` runs in Dask's workers, `rank` in a thread of its own there.
"""
