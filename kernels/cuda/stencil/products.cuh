// Sums of constant stencils over planes that come one after another, for any kernel that walks along z.
//
// A plane is read once and adds to the sums of the planes before, at and after it, so entries are added in lattice order
// whatever the kernel: the same bits. A `Tile` says what is around a thread's points:
//
//     t.a                  the stencil
//     t.here(slot, l)      W values of a thread's line l, -1 .. R, of the plane in a slot
//     t.left(slot, l)      the value before them, t.right(slot, l) the one after
//     t.gain_x, t.gain_y   what the diagonal gains at the faces along x and y
#pragma once

// What the diagonal gains at the faces along z.
DEVICE real gain_z(const Stencil& a, int k) { return (k == 0 ? a.faces[4] : 0) + (k == a.nz - 1 ? a.faces[5] : 0); }

// 7 points. Of a plane: the sums of the plane before are finished, its own begun.
template <int W, int R> struct Star {
    Values<W> sums[R], last[R];   // of the plane read last; its values

    DEVICE Star() { UNROLLED for (int l = 0; l < R; ++l) sums[l] = last[l] = zeros<W>(); }

    // Adds plane k and gives in `out` A x on plane k - 1, in `own` x there.
    template <typename Tile>
    DEVICE void add(const Tile& t, int k, int slot, Values<W>* out, Values<W>* own) {
        const real* w = t.a.weights;
        const real at_z = w[CENTER] + gain_z(t.a, k);
        Values<W> lines[R + 2];
        UNROLLED for (int l = 0; l < R + 2; ++l) lines[l] = t.here(slot, l - 1);
        UNROLLED for (int l = 0; l < R; ++l) {
            const real left = t.left(slot, l), right = t.right(slot, l);
            const Values<W>& here = lines[l + 1];
            UNROLLED for (int v = 0; v < W; ++v) {
                out[l].at[v] = fma(w[22], here.at[v], sums[l].at[v]);
                real sum = w[4] * last[l].at[v];
                sum = fma(w[10], lines[l].at[v], sum);
                sum = fma(w[12], v > 0 ? here.at[v - 1] : left, sum);
                sum = fma(at_z + t.gain_y[l] + t.gain_x[v], here.at[v], sum);
                sum = fma(w[14], v < W - 1 ? here.at[v + 1] : right, sum);
                sums[l].at[v] = fma(w[16], lines[l + 2].at[v], sum);
            }
            own[l] = last[l];
            last[l] = here;
        }
    }
};

// 27 points: three planes of sums are open.
template <int W, int R> struct Box {
    Values<W> sums[2][R], last[R];   // of the planes before and at the one read last; its values

    DEVICE Box() { UNROLLED for (int l = 0; l < R; ++l) sums[0][l] = sums[1][l] = last[l] = zeros<W>(); }

    template <typename Tile>
    DEVICE void add(const Tile& t, int k, int slot, Values<W>* out, Values<W>* own) {
        const real at_z = t.a.weights[CENTER] + gain_z(t.a, k);
        Values<W> open[3][R];
        UNROLLED for (int l = 0; l < R; ++l) {
            open[0][l] = sums[0][l];
            open[1][l] = sums[1][l];
            open[2][l] = zeros<W>();
            own[l] = last[l];
        }
        UNROLLED for (int l = -1; l <= R; ++l) {
            const Values<W> here = t.here(slot, l);
            const real left = t.left(slot, l), right = t.right(slot, l);
            UNROLLED for (int v = 0; v < W; ++v) {
                const real before = v > 0 ? here.at[v - 1] : left, after = v < W - 1 ? here.at[v + 1] : right;
                UNROLLED for (int dy = -1; dy <= 1; ++dy) {   // this line is that of the sums plus dy
                    const int row = l - dy;
                    if (row < 0 || row >= R) continue;
                    UNROLLED for (int z = 0; z < 3; ++z) {   // and this plane that of the sums plus 1 - z
                        const real* w = t.a.weights + 9 * (2 - z) + 3 * (dy + 1);
                        real sum = fma(w[0], before, open[z][row].at[v]);
                        sum = fma(z == 1 && dy == 0 ? at_z + t.gain_y[row] + t.gain_x[v] : w[1], here.at[v], sum);
                        open[z][row].at[v] = fma(w[2], after, sum);
                    }
                }
            }
            if (l >= 0 && l < R) last[l] = here;
        }
        UNROLLED for (int l = 0; l < R; ++l) {
            out[l] = open[0][l];
            sums[0][l] = open[1][l];
            sums[1][l] = open[2][l];
        }
    }
};
