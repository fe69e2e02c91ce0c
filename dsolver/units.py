"""Quantities as people read them."""


def amount(size: float) -> str:
    """Bytes for people."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB")):
        if size >= unit / 4:
            return f"{size / unit:.3g} {name}"
    return f"{size / (1 << 20):.3g} MiB"


def counted(count: int, one: str, several: str | None = None) -> str:
    """Number of things with their name: "1 entry", "2 entries"; several: the plural, where an s does not make it."""
    return f"{count} {one if count == 1 else several or one + 's'}"
