// Copies of boxes from global to shared memory that one thread asks for and a barrier in shared memory counts: devices of 9.0
// and later.
#pragma once

DEVICE unsigned shared_address(const void* where) { return static_cast<unsigned>(__cvta_generic_to_shared(where)); }

// A barrier's phase is over when `arrivals` threads have arrived and the bytes that they announced are there. Phases have
// parities 0, 1, 0, ...; waiting for parity 1 of a new barrier does not wait.
struct Barrier {
    u64 state;

    DEVICE void begin(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)), "r"(arrivals) : "memory");
    }

    DEVICE void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state)) : "memory");
    }

    DEVICE void arrive_and_expect(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)), "r"(bytes)
                     : "memory");
    }

    DEVICE void await(int parity) {
        int over = 0;
        while (!over)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                         : "=r"(over)
                         : "r"(shared_address(&state)), "r"(parity)
                         : "memory");
    }
};

// What one thread does after `begin`, before a __syncthreads that lets others use the barriers.
DEVICE void barriers_begun() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// An array in global memory and the box that a copy takes of it, as the driver has encoded them
// (kernels/cuda/launch/tma.py).
struct alignas(64) TensorMap { char encoded[128]; };

// The box that begins at (x, y, z), which may lie outside of the array: zeros come from there. All of its bytes count as
// arrived either way. `to` is a multiple of 128 bytes.
DEVICE void copy_box(void* to, const TensorMap& map, int x, int y, int z, Barrier& arrived) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            shared_address(to)
        ),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&arrived.state))
        : "memory");
}

// What a thread has read from shared memory was read before a copy that starts after this.
DEVICE void reads_before_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
