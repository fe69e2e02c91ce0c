"""Costs of a solve: bytes of memory and of traffic, the bandwidth of a copy, forecasts. Nothing here runs a solve."""
