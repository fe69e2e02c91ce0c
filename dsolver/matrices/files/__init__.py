"""Formats of files that hold matrices: what each looks like, read or refused with a line or a byte."""
