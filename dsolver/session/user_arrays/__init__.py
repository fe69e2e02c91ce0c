"""Arrays of the user's kind, to blocks by chunk and back.

NumPy in, NumPy out; CuPy in, CuPy out; a Dask array in, a Dask array out with one block a chunk, never gathered; an
array of another package that knows DLPack in, one of the same package out; an xarray DataArray of any of these in, one
with the same dimensions and coordinates out. Outside vectors have the problem's shape, inside that of its grid.

`given` takes what users give, `containers` and `dask_arrays` cut it, `several` has right-hand sides in one array.
"""

from dsolver.session.user_arrays.containers import Container, assembled
from dsolver.session.user_arrays.dask_arrays import dask_array
from dsolver.session.user_arrays.given import alike, array_of, container_of, is_complex, vector_of
from dsolver.session.user_arrays.several import RightHandSides, stacked

__all__ = [
    "Container",
    "RightHandSides",
    "alike",
    "array_of",
    "assembled",
    "container_of",
    "dask_array",
    "is_complex",
    "stacked",
    "vector_of",
]
