"""Tensors of PyTorch in and out, on the device where they are: a picture is smoothed by an implicit step of diffusion.

(1 + t L) u = f with the Laplacian L of the picture's pixels, a sparse tensor. f and u are tensors on the GPU if there
is one, and share memory with dsolver by DLPack. Diffusion keeps the sum of all pixels.

    pip install torch
    python examples/tensors.py --pixels 512 --out smoothed.png
"""

import argparse

import matplotlib.pyplot as plt
import torch

import dsolver


def laplacian(n, device):
    """The Laplacian of n x n pixels with four neighbors each, a sparse CSR tensor: each row sums to zero."""
    pixel = torch.arange(n * n, device=device).reshape(n, n)
    down = torch.stack([pixel[1:].ravel(), pixel[:-1].ravel()])
    right = torch.stack([pixel[:, 1:].ravel(), pixel[:, :-1].ravel()])
    pairs = torch.cat([down, right], dim=1)
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    ones = torch.ones(both.shape[1], dtype=torch.float64, device=device)
    degree = torch.zeros(n * n, dtype=torch.float64, device=device).index_add(0, both[0], ones)
    places = torch.cat([both, pixel.reshape(1, -1).expand(2, -1)], dim=1)
    return torch.sparse_coo_tensor(places, torch.cat([-ones, degree]), (n * n, n * n)).coalesce()


def sparse_matrix(tensor):
    """A sparse tensor as a matrix of CuPy on a GPU, of SciPy elsewhere; entries are not copied."""
    if tensor.is_cuda:
        from cupy import from_dlpack
        from cupyx.scipy.sparse import coo_matrix
    else:
        from numpy import from_dlpack
        from scipy.sparse import coo_matrix
    values, rows, columns = map(from_dlpack, (tensor.values(), *tensor.indices()))
    return coo_matrix((values, (rows, columns)), shape=tuple(tensor.shape)).tocsr()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", type=int, default=512, help="along each side of the picture")
    parser.add_argument("--out", default="smoothed.png", help="the picture")
    args = parser.parse_args()
    n, device = args.pixels, "cuda" if torch.cuda.is_available() else "cpu"
    torch.sparse.check_sparse_tensor_invariants.enable()

    spots = torch.rand((n, n), dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(device) > 0.995
    f = spots.to(torch.float64)
    place = torch.arange(n * n, device=device)
    ones = torch.ones_like(place, dtype=f.dtype)
    one = torch.sparse_coo_tensor(torch.stack([place, place]), ones, (n * n, n * n))
    a = (one + 20.0 * laplacian(n, device)).coalesce()
    solution = dsolver.solve(sparse_matrix(a), f.ravel(), rtol=1e-10)
    u = solution.x.reshape(n, n)

    print("status:", solution.status)
    print("iterations:", solution.iterations)
    print("kind:", type(u).__name__, "on", u.device.type)
    print("sum after / before:", float(u.sum() / f.sum()))
    print("residual:", float(torch.linalg.norm(f.ravel() - torch.mv(a, u.ravel())) / torch.linalg.norm(f)))
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for ax, values, title in ((axes[0], f, "before"), (axes[1], u, "after")):
        ax.imshow(values.cpu(), cmap="gray")
        ax.set(title=title)
    figure.savefig(args.out, dpi=80)


if __name__ == "__main__":
    main()
