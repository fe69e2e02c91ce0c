"""Memory of one call of a compiled loop."""

from typing import Any, Final

from numba import njit
from numba.core import cgutils, types
from numba.core.typing.npydecl import parse_dtype
from numba.extending import intrinsic
from numba.np.arrayobj import _empty_nd_impl


def _scratch(_: Any, shape: Any, dtype: Any) -> Any:
    sizes: Any = shape if isinstance(shape, types.BaseTuple) else (shape,)
    made: Any = types.Array(parse_dtype(dtype), len(sizes), "C")

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        given = cgutils.unpack_tuple(builder, arguments[0]) if sizes is shape else [arguments[0]]
        pairs = zip(given, sizes, strict=True)
        lengths = [context.cast(builder, length, size, types.intp) for length, size in pairs]
        return _empty_nd_impl(context, builder, made, lengths)._getvalue()

    return made(shape, dtype), generate


scratch: Final[Any] = intrinsic(_scratch)
"""scratch(shape, dtype) is np.empty(shape, dtype) with non-negative sizes, in place.

np.empty is a function of its own for each kind of shape and dtype, whose compilation takes as long as that of a small
loop, in each process that compiles. np.zeros is three of them: `scratch` and `fill` in its place.
"""


@njit(inline="always")
def fill(array: Any, value: Any) -> None:
    """array[:] = value, in one dimension."""
    for i in range(len(array)):
        array[i] = value
