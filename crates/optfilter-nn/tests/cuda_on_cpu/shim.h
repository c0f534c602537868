// Enough of CUDA to run the kernels on a CPU, one block after the other, its threads as coroutines. Slow, exact in what
// matters: barriers, shuffles and tensor-core tiles mean what they mean on the card, so a wrong index or a missing barrier
// shows in the numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define EMULATED
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static // blocks run one after the other
using std::min;

struct Index { unsigned x, y, z; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
static uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }
static uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d) { return {a, b, c, d}; }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }

static Index threadIdx, blockIdx, gridDim;
static float *dynamic_shared;

static std::vector<ucontext_t> threads;
static std::vector<std::vector<char>> stacks;
static std::vector<char> finished;
static ucontext_t scheduler;
static std::function<void()> body;
static int current, arrived, generation;

static void begin() {
    body();
    finished[current] = 1;
    swapcontext(&threads[current], &scheduler);
}
static void give_way() {
    const int me = current;
    swapcontext(&threads[me], &scheduler);
}
static void __syncthreads() {
    const int g = generation;
    if (++arrived == (int)threads.size()) {
        arrived = 0;
        generation++;
    }
    while (g == generation) give_way();
}

// Warp-wide operations: every lane writes, gives way once so that all have written, reads, and gives way once more so that
// nobody overwrites what another lane still has to read.
static float exchanged[1024], left[1024][4], right[1024][2];
static float __shfl_xor_sync(unsigned, float v, int step) {
    const int me = current;
    exchanged[me] = v;
    give_way();
    const float r = exchanged[me ^ step];
    give_way();
    return r;
}
static float tf32(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    u = (u + 0x1000) & 0xffffe000u;
    memcpy(&v, &u, 4);
    return v;
}
static void tile_product(float d[4], const float a[4], const float b[2]) {
    const int me = current, warp = me / 32 * 32, g = me % 32 / 4, t = me % 4;
    memcpy(left[me], a, sizeof left[me]);
    memcpy(right[me], b, sizeof right[me]);
    give_way();
    for (int k = 0; k < 8; k++) {
        // Row r, column k of A is in lane (r % 8) * 4 + k % 4, register r / 8 + 2 * (k / 4); B likewise by column.
        const float upper = left[warp + g * 4 + k % 4][2 * (k / 4)], lower = left[warp + g * 4 + k % 4][1 + 2 * (k / 4)];
        for (int j = 0; j < 2; j++) {
            const float w = right[warp + (2 * t + j) * 4 + k % 4][k / 4];
            d[j] += upper * w;
            d[j + 2] += lower * w;
        }
    }
    give_way();
}

static void launch(int x, int y, int count, std::function<void()> kernel) {
    threads.resize(count);
    stacks.resize(std::max(stacks.size(), (size_t)count));
    for (auto &s : stacks) s.resize(128 * 1024);
    gridDim = {(unsigned)x, (unsigned)y, 1};
    body = kernel;
    for (int block = 0; block < x * y; block++) {
        blockIdx = {(unsigned)(block % x), (unsigned)(block / x), 0};
        finished.assign(count, 0);
        for (int t = 0; t < count; t++) {
            getcontext(&threads[t]);
            threads[t].uc_stack.ss_sp = stacks[t].data();
            threads[t].uc_stack.ss_size = stacks[t].size();
            threads[t].uc_link = &scheduler;
            makecontext(&threads[t], begin, 0);
        }
        for (bool any = true; any;) {
            any = false;
            for (int t = 0; t < count; t++)
                if (!finished[t]) {
                    any = true;
                    current = t;
                    threadIdx = {(unsigned)t, 0, 0};
                    swapcontext(&scheduler, &threads[t]);
                }
        }
    }
}
