// Constant stencils of a box of points, x fastest: what a thread knows of its place and how it reads planes.
#pragma once

constexpr int CENTER = 13;   // of 27 weights in lattice order

// A `dsolver.kernels.formats.stencil.constant.ConstantStencil` as an argument: in the constant bank, from where an FMA takes a weight at no cost.
struct Stencil {
    real weights[27];   // of the offsets (-1 .. 1)^3, x fastest
    real faces[6];      // what the diagonal gains at the faces x = 0, x = nx - 1, y = 0, ...
    real inverse;       // 1 / diagonal, away from the faces
    int nx, ny, nz;
    int wraps;          // bits 0, 1, 2: the box is periodic along x, y, z
    int odd;            // 1 where point (0, 0, 0) has the second color of two
    int changed;        // whether any of `faces` is not zero
};

// 1 to 4 consecutive values, moved by one instruction.
template <int W> struct alignas(W * sizeof(real)) Values { real at[W]; };

template <int W> DEVICE Values<W> zeros() {
    Values<W> out;
    UNROLLED for (int v = 0; v < W; ++v) out.at[v] = 0;
    return out;
}

// The index of a point of an axis that may lie outside: across a periodic axis, or -1.
DEVICE int inside(int i, int n, bool wraps) {
    if (i >= 0 && i < n) return i;
    if (!wraps || i < -n || i >= 2 * n) return -1;
    return i < 0 ? i + n : i - n;
}

// What the diagonal gains at a point of the box, added face after face.
DEVICE real at_faces(const Stencil& a, int i, int j, int k, real sum) {
    if (i == 0) sum += a.faces[0];
    if (i == a.nx - 1) sum += a.faces[1];
    if (j == 0) sum += a.faces[2];
    if (j == a.ny - 1) sum += a.faces[3];
    if (k == 0) sum += a.faces[4];
    if (k == a.nz - 1) sum += a.faces[5];
    return sum;
}

DEVICE real inverse_at(const Stencil& a, int i, int j, int k) {
    if (!a.changed) return a.inverse;
    const bool face = i == 0 || i == a.nx - 1 || j == 0 || j == a.ny - 1 || k == 0 || k == a.nz - 1;
    return face ? real(1) / at_faces(a, i, j, k, a.weights[CENTER]) : a.inverse;
}

// Asynchronous copies from global to shared memory, of a vector of 4, 8 or 16 bytes or of zeros.
template <int W> DEVICE void copy_ahead(Values<W>* to, const real* from, bool there) {
    constexpr int BYTES = W * sizeof(real);
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int size = there ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(size) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from), "n"(BYTES), "r"(size)
                     : "memory");
}

DEVICE void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the last COUNT groups of this thread's copies have arrived.
template <int COUNT> DEVICE void await_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
}
