"""Formats: in what form entries of a matrix are stored. No arrays are made here and nothing runs here.

`layout` is the storage order of vectors, which all formats share. `sell` (sliced ELL), `stencil` (constant stencils)
and `dense` (inverses) are formats: objects that hold the entries of a chunk's part of a matrix and bring its kernels.
`checkered` has formats without columns, which CUDA's set-up of `sell` takes by itself where colors allow it.
`ell`, `csr` and `stencil.StencilRows` are the forms in which rows come, from which formats are made. `compressed`,
`octets` and `block_slices` are formats of any sparse matrix, of which `choice` takes one by the matrix's `statistics`.

To add a format for the levels of a grid, touch no backend:

1. here, a module of its name: a dataclass that derives from `base.Format`, with its arrays and its `nbytes`;
2. in `kernels/reference` a module of its name, in `kernels/cpu` and `kernels/cuda` a folder with a module `setup`: a
   class with the kernels of `kernels.contract` as methods, a `FormatBuilder` that makes such objects from rows, and
   `ASSEMBLY`, by which `Backend.format(name)` finds it;
3. in `tests/kernels/backends`, the format on all backends against the text-book.

To add one for any sparse matrix, write its dataclass here and its kernels in the backends that are to have it: the
text-book multiplies compressed rows in its place. Make it in `product` of their `GeneralSetup`
(`kernels.cpu.csr.general` and `kernels.cuda.csr.general`), say in `choice` which matrices get it, in
`kernels.general.selection` how people name it, and in `kernels.general.forecast` what it takes. It is compared with
SciPy by `tests/kernels/general/test_formats.py`, its arrays with `tests/kernels/general/text`.

Several right-hand sides go through a format's kernels one after the other, unless it names kernels in `together` that
take all columns at once or returns something faster from `batched`.
"""
