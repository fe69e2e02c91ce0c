// Kernels of every kind for compressed rows, by the `multiply` of a file, for its VECTORS, which are OF_VECTORS as an argument.
#pragma once

#define CSR In<i64> start, In<int> columns, In<real> values

#define FINISHED_BY(T, NAME, KIND)                                                                                    \
    ENTRY __launch_bounds__(THREADS) NAME##_##T(CSR, VECTORS, int rows) {                                             \
        multiply<T, KIND, false>(start, columns, values, OF_VECTORS, nullptr, rows);                                  \
    }

#define WITH_DOT(T, NAME, KIND)                                                                                       \
    ENTRY __launch_bounds__(THREADS) NAME##_##T(CSR, VECTORS, double* partials, int rows) {                           \
        multiply<T, KIND, true>(start, columns, values, OF_VECTORS, partials, rows);                                  \
    }

#define THREADS_OF_ROW(T)                                                                                             \
    FINISHED_BY(T, spmv, PRODUCT)                                                                                     \
    FINISHED_BY(T, sum, SUM)                                                                                          \
    FINISHED_BY(T, residual, RESIDUAL)                                                                                \
    FINISHED_BY(T, sweep, SWEEP)                                                                                      \
    FINISHED_BY(T, first, FIRST)                                                                                      \
    WITH_DOT(T, spmv_dot, PRODUCT)                                                                                    \
    WITH_DOT(T, sweep_dot, SWEEP)
