"""Pages and pictures of solves: curves, lanes of spans, the dashboard's page, notebooks, reports.

`page` runs on a cluster's scheduler, `notebook` and `report` where the user is.
"""
