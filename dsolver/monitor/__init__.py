"""Monitoring of solves: `spans` are measured, `events` published, by `watch`; the other modules show them.

`dashboard`, `page` and `taskstream` run on a cluster's scheduler, `notebook` and `report` where the user is. Nothing
here knows of engines, programs or sessions, which bring their spans and events.
"""
