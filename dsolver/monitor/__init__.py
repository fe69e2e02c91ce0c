"""Monitoring of solves: `spans` are measured, `events` published, by `watch`; the other modules show them.

`dashboard` runs on a cluster's scheduler; pages and pictures are made in `pages/`. Nothing here knows of engines,
programs or sessions, which bring their spans and events.
"""
