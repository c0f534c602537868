// Losses of many particles in half precision (10 bits of fraction like TF32, at twice its speed; sums in single precision).
//
// A particle filter compares losses and needs no derivative, so the rounding (5e-4 of a product, activations saturate at 65504) is
// far below what tells particles apart; the exact kernel `losses` stays for checks. One block takes one particle through all its
// images with the weights in shared memory; two blocks share a multiprocessor, so that one computes while the other waits.

#define P_THREADS 256
#define P_WARPS 8
#define P_X0 0
#define P_A1 (P_X0 + 34 * ROW)
#define P_A2 (P_A1 + 18 * 18 * 20)
#define P_A3 (P_A2 + 10 * 10 * 20)
#define P_A4 (P_A3 + 6 * 6 * 20)
#define P_W (P_A4 + 128)
#define HALF_FLOATS (P_W + 3 * FRAGMENTS * 2)

// First layer: nine terms, filled up to sixteen with zeros.
__device__ __forceinline__ void first_tiles(const float *x0, const float *__restrict__ w, float *a1) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    // This lane's terms: window places 2t and 2t + 1, and, in the first lane of four, the last place.
    const int even = 2 * t / 3 * ROW + 2 * t % 3, odd = (2 * t + 1) / 3 * ROW + (2 * t + 1) % 3;
    const int eighth = 2 * ROW + 2;
    unsigned b[4][2];
    float bias[4][2];
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const float *at = &w[KERNEL1 + 2 * t * 32 + n * 8 + g];
        b[n][0] = pack(saturate(at[0] * WEIGHT_SCALE), saturate(at[32] * WEIGHT_SCALE));
        b[n][1] = t == 0 ? pack(saturate(at[8 * 32] * WEIGHT_SCALE), 0.f) : 0u;
        bias[n][0] = WEIGHT_SCALE * w[BIAS1 + n * 8 + 2 * t];
        bias[n][1] = WEIGHT_SCALE * w[BIAS1 + n * 8 + 2 * t + 1];
    }
#pragma unroll 2
    for (int m = warp; m < 64; m += P_WARPS) {
        const int y = m / 4 * 2, x = m % 4 * 8 + g;
        const float *at = &x0[y * ROW + x];
        const unsigned a0 = pack(at[even], at[odd]), a1_ = pack(at[even + ROW], at[odd + ROW]);
        const unsigned a2 = pack(at[eighth], 0.f), a3 = pack(at[eighth + ROW], 0.f);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            float d[4] = {bias[n][0], bias[n][1], bias[n][0], bias[n][1]};
            tile_product(d, a0, a1_, a2, a3, b[n][0], b[n][1]);
            pool_tile<32, false, false>(d, d + 2, y, x, n * 8 + 2 * t, a1, 0);
        }
    }
}

// As `losses`, in half precision. Grid: (particles, chains).
extern "C" __global__ void __launch_bounds__(P_THREADS, 2)
losses_half(const float *__restrict__ particles, const float *__restrict__ images, const float *__restrict__ labels,
            const int *__restrict__ counts, int capacity, float *out) {
    extern __shared__ __align__(16) float s[];
    const int chain = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float *w = particles + ((size_t)chain * gridDim.x + blockIdx.x) * PITCH;
    uint2 *fragments = (uint2 *)(s + P_W);
    zero(s, P_W);
    for (int i = threadIdx.x; i < 3 * FRAGMENTS; i += P_THREADS) {
        const uint4 both = split_weights_of(w + KERNEL(2 + i / FRAGMENTS), i % FRAGMENTS);
        fragments[i] = make_uint2(both.x, both.y);
    }
    float sum = 0.f;
    const int count = counts[chain];
    const float *pixels = images + (size_t)chain * capacity * 1024;
    // The next image is on its way while one is computed.
    float4 next = ((const float4 *)pixels)[threadIdx.x];
    __syncthreads();
    for (int image = 0; image < count; image++) {
        float *to = &s[P_X0 + (threadIdx.x / 8 + 1) * ROW + threadIdx.x % 8 * 4 + 1];
        to[0] = next.x, to[1] = next.y, to[2] = next.z, to[3] = next.w;
        if (image + 1 < count) next = ((const float4 *)(pixels + (image + 1) * 1024))[threadIdx.x];
        __syncthreads();
        first_tiles(s + P_X0, w, s + P_A1);
        __syncthreads();
        layer<16, 4, P_WARPS, false, false>(s + P_A1, fragments, w + BIAS(2), s + P_A2, 0);
        __syncthreads();
        layer<8, 1, P_WARPS, false, false>(s + P_A2, fragments + FRAGMENTS, w + BIAS(3), s + P_A3, 0);
        __syncthreads();
        layer<4, 1, P_WARPS, false, false>(s + P_A3, fragments + 2 * FRAGMENTS, w + BIAS(4), s + P_A4, 0);
        __syncthreads();
        if (warp == 0) {
            float z = 0.f;
#pragma unroll
            for (int j = 0; j < 4; j++) z = fmaf(s[P_A4 + j * 32 + lane], w[KERNEL_D + j * 32 + lane], z);
#pragma unroll
            for (int step = 16; step > 0; step /= 2) z += __shfl_xor_sync(ALL_LANES, z, step);
            // Only this warp needs the sum, and nobody writes what it reads before the next barrier but one.
            sum += cross_entropy(z + w[BIAS_D], labels[chain * capacity + image]);
        }
    }
    if (threadIdx.x == 0) out[(size_t)chain * gridDim.x + blockIdx.x] = sum;
}

// What the program asks for must be what is used here.
#ifdef FORWARD_BYTES
static_assert(FORWARD_BYTES == 4 * FORWARD_FLOATS, "shared memory of the forward pass");
static_assert(GRADIENT_BYTES == 4 * GRADIENT_FLOATS, "shared memory of the gradient");
static_assert(HALF_BYTES == 4 * HALF_FLOATS, "shared memory of the particles");
#endif
