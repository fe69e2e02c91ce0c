"""Kernels that are compiled together, by the kinds of solves that need them.

A line is a program of NVRTC: its source, its value type if it depends on one, and its kernels. Programs of a kind are
compiled side by side, so none should take much longer than others. To begin takes the compiler 0.03 s. A kernel of no
line is compiled alone when it is wanted. `bench/cold_start.py --sources` tells seconds.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple


class Program(NamedTuple):
    """Kernels of a source that are compiled together."""

    file: str
    dtype: str
    names: tuple[str, ...]


def _programs(lines: str) -> tuple[Program, ...]:
    words = [line.split() for line in lines.strip().splitlines()]
    return tuple(Program(file, dtype, tuple(names)) for file, dtype, *names in words)


KINDS: Final[Mapping[str, tuple[Program, ...]]] = {
    "matrices": _programs("""
        block_slices/spmv.cu float32 first_1 sweep_dot_1
        block_slices/spmv.cu float32 first_1_wide sweep_1_wide
        block_slices/spmv.cu float64 spmv_dot_1 spmv_1
        block_slices/spmv.cu float32 sum_1_short
        csr/look/glance.cu float64 glance_2
        block_slices/build.cu float64 sample_1 measure_1 describe fill_twice_1
        block_slices/build.cu float64 sample_2 sample_3 count_blocks_1 sort_windows fill_1
        block_slices/build.cu float32 sample_1 measure_1 describe fill_1 count_blocks_1 sort_windows
        block_slices/build.cu float64 sample_4
        block_slices/build.cu float32 sample_2 sample_4
        amg/interpolation/extended_interpolation.cu float64 interpolate_1 interpolate_8 interpolate_32
        amg/interpolation/extended_interpolation.cu float64 multiply_1 multiply_8 multiply_32
        amg/interpolation/extended_interpolation.cu float64 rename add_up compress
        sparse/products/mirrors.cu float64 rank_entries scatter_columns scatter_values sort_4 sort_8 sort_32
        sparse/products/mirrors.cu float64 lengths_in_order reorder fill_lost mirror
        sparse/products/mirrors.cu float64 sort_halves_16 sort_halves_32
        sparse/products/mirrors.cu float64 rank_mirrored scatter_images sort_halves_4 sort_halves_8
        sparse/products/product.cu float64 count_some make_32 make_16 make_8 make_4
        sparse/products/alone/alone.cu float64 make_alone
        amg/interpolation/paths.cu float64 paths_1 paths_8 paths_32 unpack
        sparse/starts.cu float64 sum_tiles_states add_up_states list_states sum_tiles_int64 add_up_int64
        sparse/starts.cu float64 sum_tiles_halves add_up_halves take
        amg/couplings.cu float64 measure couple_1 count_coarse_1 fill_coarse_1
        amg/couplings.cu float64 couple_8 count_coarse_8 fill_coarse_8
        amg/pmis.cu float64 begin settle_1 settle_8
        amg/boxes/open_rows.cu float64 count_open fill_open raise_diagonals
        amg/points.cu float64 numbered states_of of_coarse leads through damped
        csr/rows.cu float64 lengths guarded_diagonal diagonal
        csr/rows.cu float32 lengths guarded_diagonal diagonal_in_range spmv_16 spmv_32
    """),
    "chunks": _programs("""
        sparse/windows.cu float64 places_8 outside_4 relabel_8 mark_first take_marked
        sparse/windows.cu float64 places_4 outside_8 relabel_4 mark_used mark_numbered slots
        sparse/windows.cu float64 stack_placed stack_numbered mark_named_8 mark_named_4
        sparse/windows.cu float64 mark_others_8 mark_others_4 others
        sparse/windows.cu float64 around_float64 around_int64 around_int8
        sparse/selection.cu float64 lengths_of select_4 select_8 mark_nonempty take_nonempty border
        sparse/selection.cu float64 count_parts fill_parts ends_of_pieces windows_of_pieces
        sparse/products/mirrors.cu float64 split_images rename_columns
        peer/moves.cu float64 move_pieces
        csr/ghosts.cu float32 add_1 add_8 times_dot_1 scale_1 scale_8
        csr/ghosts.cu float64 times_dot_1 add_1
        sell/assembly/assembly.cu float32 measure_halo fill_halo
        sell/assembly/assembly.cu float64 find_boundary list_set measure_halo fill_halo
        sell/sweeps.cu float32 spmv_halo subtract_halo times_halo_dot add_halo_dot scale_halo
        sell/sweeps.cu float64 spmv_halo times_halo_dot add_halo_dot
        faces/passes.cu float32 lower_residual
        lattice/transfers.cu float64 framed
        lattice/components.cu float64 take_least spread_least
    """),
    "masks": _programs("""
        csr/chunks.cu float32 find_chunks fill_chunks first_close sweep_dot_close
        csr/chunks.cu float64 find_chunks fill_chunks spmv_close spmv_dot_close
        lattice/components.cu float64 first_roots join_cells mark_grounded name_components look_at_labels
        vectors/groups.cu float64 sum_groups less_means less_means_going_on
        lattice/components.cu float64 begin_groups number_groups count_items
        sell/assembly/assembly.cu float64 some_order
    """),
    "grids": _programs("""
        lattice/halving/star.cu float64 galerkin_star
        stencil/star_up.cu float32 star_up
        stencil/star_down.cu float32 star_down
        lattice/halving/interpolation.cu float64 interpolate_star
        lattice/halving/interpolation.cu float64 interpolate_box
        sell/sweeps.cu float32 forward_from_zero
        sell/multigrid.cu float32 upper_residual lower_residual
        sell/multigrid.cu float32 backward_solve
        sell/multigrid.cu float32 product product_add
        lattice/halving/tiles.cu float64 tile_box
        checkered/corners.cu float32 pick restrict_full prolong_add
        checkered/parities.cu float32 pick restrict_full_7 prolong_add
        sell/assembly/assembly.cu float32 measure_local fill_local refill_local
        sell/assembly/assembly.cu float32 measure_rectangle fill_rectangle
        sell/assembly/assembly.cu float64 lattice_order shapes pack_headers rows_to_visit
        faces/passes.cu float32 divide solve upper_residual spmv
        faces/passes.cu float32 residual jacobi_sweep_dot
        faces/passes.cu float64 spmv_dot spmv
        stencil/stencil.cu float64 star_wide star_narrow
        faces/assembly.cu float64 fill
        lattice/look.cu float64 unfit outweighed leanings couplings totals turns alike
        lattice/fluxes.cu float64 star_rows
        vectors/vectors.cu float64 assemble
        lattice/transfers.cu float64 jumps numbers restriction prolongation
        amg/boxes/box_rows.cu float64 count_entries fill_entries
    """),
    "aggregates": _programs("""
        block_slices/spmv.cu float64 spmv_1_wide residual_1
        csr/look/look.cu float64 look_2 find_difference
        amg/aggregation/roots.cu float64 words around_1 decide_1 join_1 second_1 stray_1 mark_roots
        amg/aggregation/nodes.cu float64 full_strong_8 move_strong
        amg/aggregation/tentative.cu float64 make_blocks
        amg/aggregation/spectrum.cu float64 multiply sum_scaled
        sparse/products/product.cu float64 move_rows fill_16 fill_32
        vectors/vectors.cu float64 axpby jacobi chebyshev scaled
    """),
    "complex": _programs("""
        csr/look/complex.cu float64 mirror_images row_sums row_parts find_apart
        csr/look/complex.cu float64 largest_squares relax turn
        vectors/complex.cu float64 complex_dot complex_quotient complex_axpby complex_update_x_r
        vectors/complex.cu float32 complex_dot_narrowed complex_axpby_narrowed
    """),
    "hpcg": _programs("""
        hpcg/smoother.cu float64 backward backward_keep
        hpcg/smoother.cu float64 forward_corrected restrict_residual residual_halo
        hpcg/assembly.cu float64 measure_smoothed fill_smoothed pack_smoothed mark_filled
        sell/sweeps.cu float64 forward_from_zero spmv_dot spmv
        sell/assembly/assembly.cu float64 storage_order lattice_slabs reached_slabs settle_slabs
    """),
}
"""Programs of the kinds of solves, the longest first: where one has to be compiled, so have others of its kind soon."""

ALWAYS: Final = _programs("""
    vectors/vectors.cu float64 load load_turned fill dot total copy sum update_x_r waxpby gather unload_turned
    vectors/vectors.cu float32 cast scaled narrow sum unscale dot_narrowed update_p_narrowed
    vectors/vectors.cu float32 fill total gather jacobi waxpby
    amg/dense.cu float64 dense_rows dense_matrix keep pivot_block panels eliminate
    sell/multigrid.cu float32 dense_product move
    sell/assembly/assembly.cu float64 plain_order
    sparse/starts.cu float64 sum_tiles_int32 add_up_int32
""")
"""Programs that every kind needs."""


@cache
def programs_of(file: str) -> tuple[Program, ...]:
    """The programs of a source."""
    return tuple(made for programs in (*KINDS.values(), ALWAYS) for made in programs if made.file == file)


def wanted_with(made: Program) -> tuple[Program, ...]:
    """Programs that are wanted soon where one is: those of its kind, or of its source's first one, and of every one."""
    if made in ALWAYS:
        return ALWAYS
    kinds = KINDS.values()
    of_source = [programs for programs in kinds if any(one.file == made.file for one in programs)]
    of_kind = next((programs for programs in kinds if made in programs), (*of_source, ())[0])
    return (*of_kind, *ALWAYS)
