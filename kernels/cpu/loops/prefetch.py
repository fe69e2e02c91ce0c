"""Requests for memory ahead of its use, in compiled loops."""

from typing import Any, Final

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic


def _prefetch(_: Any, array: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        request = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        reading, near, data_cache = word(0), word(3), word(1)
        called = get_or_insert_function(builder.module, request, "llvm.prefetch.p0i8")
        builder.call(called, [address, reading, near, data_cache])
        return context.get_dummy_value()

    return types.void(array, place), generate


prefetch: Final[Any] = intrinsic(_prefetch)
"""prefetch(array, place) requests the cache line of an item, which may lie behind the end of the array.

For rows that a loop finds by number: no processor foresees where they lie.
"""
